"""The rules of RFC 5280 section 6.1 for one chain.

Each rule takes the chain, leaf first and anchor last, and raises. `RULES` has them in the order in which they run: first the cheap
ones, then signatures, then names and policies, which an attacker can make expensive. The search reports the rejection of the
candidate that passed the most rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from cryptography import x509

from tppkit._clock import format_time
from tppkit._text import shortened
from tppkit.certificates import EidasCertificate, der, oids
from tppkit.errors import CertificateRejected, Finding, Severity
from tppkit.trust.path.links import Link
from tppkit.trust.path.name_constraints import check_names
from tppkit.trust.path.policies import check_policies
from tppkit.trust.path.strength import check_signatures, require_key, require_signature_algorithm

Chain = Sequence[Link]
_ANY_PURPOSE = "anyExtendedKeyUsage"
# RFC 5280 allows 20 bytes with the sign. Many authorities draw 20 random bytes, which take 21 when the first bit is set.
_MAX_SERIAL_BITS = 21 * 8 - 1
_GENERALIZED_TIME = 0x18

# Critical extensions that are processed, here or by `certificates.rules`: key usage, subject alternative name, basic
# constraints, name constraints, policies, mappings, policy constraints, extended key usage, inhibitAnyPolicy. CRL distribution
# points are not among them, as `revocation` is optional.
PROCESSED = frozenset(
    {
        "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.30", "2.5.29.32", "2.5.29.33", "2.5.29.36", "2.5.29.37", "2.5.29.54",
        oids.QC_STATEMENTS,
    }
)  # fmt: skip


def _check_pre_certificates(chain: Chain, at: datetime) -> None:
    for link in chain:
        if link.facts.is_precertificate:
            raise CertificateRejected(
                "path.pre-certificate", f"{link} is a pre-certificate, not a certificate", clause="RFC 6962 section 3.1"
            )


def require_validity(certificate: EidasCertificate, at: datetime, *, is_authority: bool = False) -> None:
    """Reject a certificate outside its validity.

    Raises:
        CertificateRejected: `certificate.not-yet-valid`, `certificate.expired`; of an authority `path.not-yet-valid`, `path.expired`.
    """
    if certificate.not_before <= at <= certificate.not_after:
        return
    name = f"the authority {certificate.subject}" if is_authority else f"{certificate.subject}"
    if at < certificate.not_before:
        code = "path.not-yet-valid" if is_authority else "certificate.not-yet-valid"
        raise CertificateRejected(code, f"{name} is not valid before {format_time(certificate.not_before)}")
    code = "path.expired" if is_authority else "certificate.expired"
    raise CertificateRejected(code, f"{name} expired on {format_time(certificate.not_after)}, before {format_time(at)}")


def _check_validity(chain: Chain, at: datetime) -> None:
    for link in chain[1:]:
        require_validity(link.certificate, at, is_authority=True)


def _check_authorities(chain: Chain, at: datetime) -> None:
    for link in chain[1:]:
        if not link.facts.is_ca:
            raise CertificateRejected(
                "path.no-authority", f"{link} is no certification authority", clause="RFC 5280 section 6.1.4 (k)"
            )
        if not link.may("keyCertSign"):
            raise CertificateRejected(
                "path.key-usage", f"the key of {link} may not sign certificates", clause="RFC 5280 section 6.1.4 (n)"
            )


def _check_lengths(chain: Chain, at: datetime) -> None:
    below = 0
    for link in chain[1:]:
        length = link.facts.path_length
        if length is not None and below > length:
            raise CertificateRejected(
                "path.length",
                f"{link} may have {length} authorities below it, and has {below}",
                clause="RFC 5280 section 6.1.4 (l), (m)",
            )
        if not link.is_self_issued:
            below += 1


def _check_critical_extensions(chain: Chain, at: datetime) -> None:
    for link in chain:
        for oid in link.facts.critical:
            if oid not in PROCESSED:
                raise CertificateRejected(
                    "path.critical-extension",
                    f"{link} has the critical extension {oid}, which is not processed",
                    clause="RFC 5280 section 6.1.4 (o), 6.1.5 (f)",
                )


def _check_purposes(chain: Chain, at: datetime) -> None:
    """An authority with a critical extended key usage issues only for its purposes; without the extension, for any purpose."""
    for finding in lacking_purposes(chain):
        if finding.severity is Severity.ERROR:
            raise CertificateRejected(finding.code, finding.message, clause=finding.clause)


def lacking_purposes(chain: Chain) -> Iterator[Finding]:
    """The authorities whose extended key usage lacks a purpose of the end entity: an error if it is critical, else a warning."""
    purposes = chain[0].facts.extended_key_usage or (_ANY_PURPOSE,)
    for link in chain[1:]:
        allowed = frozenset(link.facts.extended_key_usage) or {_ANY_PURPOSE}
        is_critical = oids.EXTENDED_KEY_USAGE in link.facts.critical
        lacking = ", ".join(p for p in purposes if p not in allowed and (is_critical or p != _ANY_PURPOSE))
        if lacking and _ANY_PURPOSE not in allowed:
            message = f"{chain[0]} is for {shortened(lacking, 160)}, which the extended key usage of the authority {link} lacks"
            if not is_critical:
                message += (
                    ": a bank that checks it, as OpenSSL, Go and browsers do, will reject the certificate for that"
                )
            severity = Severity.ERROR if is_critical else Severity.WARNING
            yield Finding("path.purpose", severity, message, "RFC 5280 section 4.2.1.12")


def _check_strength(chain: Chain, at: datetime) -> None:
    for link in chain[:-1]:
        require_signature_algorithm(link.certificate)
    for link in chain:
        require_key(link.certificate)


def _check_form(chain: Chain, at: datetime) -> None:
    """Require the form that every certificate of a chain must have; the anchor's serial number alone may be any.

    Source: RFC 5280 sections 4.1.1.2, 4.1.2.1, 4.1.2.2, 4.1.2.4, 4.1.2.5, 4.2.1.1 and 4.2.1.10.
    """
    _check_leaf(chain[0])
    for link in chain[:-1]:
        if link.certificate.serial <= 0:
            raise _refused(link, f"has the serial number {link.certificate.serial}, which is not positive")
    for link in chain:
        _check_fields(link)
        _check_dates(link)
    for link in chain[1:]:
        _check_authority(link)


def _refused(link: Link, fault: str) -> CertificateRejected:
    return CertificateRejected("path.refused", f"{link} {fault}", clause="RFC 5280 section 4")


def _check_fields(link: Link) -> None:
    certificate = link.certificate
    if certificate.x509.version is not x509.Version.v3:
        raise _refused(link, "is not an X.509 certificate of version 3")
    if not certificate.has_one_signature_algorithm:
        raise _refused(link, "names one signature algorithm in its signed part and another one beside the signature")
    if certificate.serial.bit_length() > _MAX_SERIAL_BITS:
        raise _refused(link, f"has a serial number of {certificate.serial.bit_length()} bits, more than 20 bytes")
    if not link.issuer:
        raise _refused(link, "names no issuer")


def _check_dates(link: Link) -> None:
    certificate = link.certificate
    data = certificate.validity_der
    written = der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
    for element, time in zip(written, (certificate.not_before, certificate.not_after), strict=True):
        if element.tag == _GENERALIZED_TIME and time.year < 2050:
            raise _refused(link, f"writes the year {time.year} as GeneralizedTime, which begins with 2050")


def _check_authority(link: Link) -> None:
    if oids.AUTHORITY_KEY_IDENTIFIER in link.values and link.authority_key_id is None:
        raise _refused(link, "has an authority key identifier without a key identifier")


def _check_leaf(link: Link) -> None:
    if link.name_constraints is not None and not link.facts.is_ca:
        raise _refused(link, "has name constraints, which only an authority may have")


RULES: tuple[Callable[[Chain, datetime], None], ...] = (
    _check_pre_certificates,
    _check_validity,
    _check_authorities,
    _check_critical_extensions,
    _check_purposes,
    _check_strength,
    _check_lengths,
    _check_form,
    check_signatures,
    check_names,
    check_policies,
)
