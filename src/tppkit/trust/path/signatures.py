"""Whether the signatures of a chain hold.

`cryptography`'s verifier is asked wherever it knows the keys, and so judges validity, authority flags, path lengths and
DNS and IP name constraints a second time, independently. It knows the keys that browsers take, counts self-issued authorities
as others, compares names byte by byte, knows no other name constraints and no critical extensions about policies or statements,
wants a key usage of each authority, and warns of a long directoryName among the end entity's names: chains beyond that are
checked signature by signature, after `chain_rules` and `policies` judged all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store
from cryptography.x509.verification import VerificationError as PathError

from tppkit.certificates import oids
from tppkit.certificates.general_names import DIRECTORY_NAME, DNS_NAME, IP_ADDRESS
from tppkit.errors import CertificateRejected
from tppkit.trust.path.candidates import MAX_CHAIN_DEPTH
from tppkit.trust.path.link_extensions import NameConstraints
from tppkit.trust.path.links import Link
from tppkit.trust.path.strength import is_for_the_web, is_signed_by

# A browser demands clientAuth of each authority that has an extended key usage, and of an end entity a name and clientAuth.
# It demands basic constraints to be critical, too, which section 6 of RFC 5280 does not ask.
_AUTHORITIES = (
    ExtensionPolicy.webpki_defaults_ca()
    .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, None)
    .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
)
# What it processes: key usage, subject alternative name, basic constraints, name constraints, extended key usage.
_CRITICAL = frozenset(
    {
        oids.KEY_USAGE,
        oids.SUBJECT_ALTERNATIVE_NAME,
        oids.BASIC_CONSTRAINTS,
        oids.NAME_CONSTRAINTS,
        oids.EXTENDED_KEY_USAGE,
    }
)
_END_ENTITIES = ExtensionPolicy.permit_all()


def check_signatures(chain: Sequence[Link], *, at: datetime, store: Store) -> CertificateRejected | None:
    """Check every signature of a chain, the leaf first and the anchor last; the anchor's own is not looked at.

    Args:
        chain: judged by `chain_rules` already.
        at: the time to judge at, aware UTC.
        store: holds the anchor and nothing else.

    Returns:
        `path.refused`, what the verifier has against a chain whose signatures hold: to be raised where no rule of our own
        says it better; None where it agrees or was not asked.

    Raises:
        CertificateRejected: `path.signature`.
    """
    if not _is_for_the_verifier(chain):
        _require_signatures(chain)
        return None
    verifier = (
        PolicyBuilder()
        .store(store)
        .time(at)
        .max_chain_depth(MAX_CHAIN_DEPTH)
        .extension_policies(ca_policy=_AUTHORITIES, ee_policy=_END_ENTITIES)
        .build_client_verifier()
    )
    parsed = [link.certificate.x509 for link in chain]
    try:
        verified = verifier.verify(parsed[0], parsed[1:-1]).chain
    except (PathError, ValueError) as e:
        _require_signatures(chain)
        return CertificateRejected(
            "path.refused", f"the chain of {chain[0]} is refused: {_reason(e)}", clause="RFC 5280 section 6"
        )
    if verified != parsed:
        _require_signatures(chain)
    return None


def _is_for_the_verifier(chain: Sequence[Link]) -> bool:
    return (
        all(is_for_the_web(link.certificate) for link in chain)
        and all(link.certificate.issuer_der == issuer.certificate.subject_der for link, issuer in pairwise(chain))
        and not any(link.is_self_issued for link in chain[1:-1])
        and all(oids.KEY_USAGE in link.values for link in chain[1:])
        and all(_CRITICAL.issuperset(link.facts.critical) for link in chain)
        and all(_constrains_web_names(link.name_constraints) for link in chain[1:])
        and all(name.form != DIRECTORY_NAME for name in chain[0].alternative_names)
    )


def _constrains_web_names(constraints: NameConstraints | None) -> bool:
    if constraints is None:
        return True
    bases = (*constraints.permitted, *constraints.excluded)
    return all(base.form in (DNS_NAME, IP_ADDRESS) and base.value != "" for base in bases)


def _require_signatures(chain: Sequence[Link]) -> None:
    for link, issuer in pairwise(chain):
        if not is_signed_by(link.certificate, issuer.certificate):
            raise CertificateRejected(
                "path.signature",
                f"{link} is not signed with the key of {issuer}",
                clause="RFC 5280 section 6.1.3 (a) (1)",
            )


def _reason(error: Exception) -> str:
    # The library appends a printout of the certificate that it was processing.
    return str(error).partition(" (encountered processing")[0][:160] or type(error).__name__
