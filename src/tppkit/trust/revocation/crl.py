"""Verification of certificate revocation lists."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm

from tppkit._cache import Cache
from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding, Severity, VerificationError
from tppkit.trust.path.link_extensions import IssuingPoint
from tppkit.trust.path.links import Link, read_link
from tppkit.trust.path.strength import signature_weakness
from tppkit.trust.revocation.answers import ON_HOLD, SINCE_ALWAYS, RevocationAnswer, RevocationSource, State
from tppkit.trust.revocation.crl_entries import CrlEntry, read_time
from tppkit.trust.revocation.revocation_list import DELTA, DISTRIBUTION_POINT, MAX_ENTRIES, Crl

_CLAUSE = "RFC 5280 section 6.3.3"
_VERIFYING = threading.Lock()  # so that threads that wait for a new list do not all verify it
_EXPIRED_CERTS = "2.5.29.60"
_PROCESSED = frozenset(
    {DISTRIBUTION_POINT, _EXPIRED_CERTS, "2.5.29.20", "2.5.29.35"}
)  # and number, authority key identifier
_NO_LONGER = "remove_from_crl"


def verify_crl(
    crl: Crl,
    *,
    certificate: EidasCertificate,
    issuer: EidasCertificate,
    above: Sequence[EidasCertificate] = (),
    signed: Cache[tuple[str, str], bool] | None = None,
) -> RevocationAnswer:
    """Authenticate a CRL and read its entries about a certificate.

    A list that cannot prove the certificate good (a delta CRL, an indirect one, one of another scope, one with an unknown
    critical extension, one of a key that may not sign CRLs, or one from after its issuer's certificate ended) can still prove it
    revoked; the reason is in the answer's `only_revokes`.

    Args:
        crl: the list.
        certificate: whose status is asked for.
        issuer: the issuer of the certificate; it must have signed the list.
        above: the authorities above the issuer; an indirect list of theirs may revoke the certificate.
        signed: whether the authority signed the list, by the SHA-256 of both, as verified before, so that each signature is
            verified once for all certificates; receives this one. None to remember nothing.

    Raises:
        VerificationError: `crl.other-issuer`, `crl.weak-signature`, `crl.signature`, `crl.malformed`; and unless the certificate
            is listed `crl.key-usage`, `crl.dates`, `crl.delta`, `crl.indirect`, `crl.scope`, `crl.critical-extension`.

    Source: RFC 5280 sections 5 and 6.3.3; X.509 clause 7.3 (entries of a list with an unknown critical extension count).
    """
    # 1. The list is the issuer's own, or an indirect one of an authority above it.
    # 2. That authority signed it.
    # 3. Of the certificate's entries the worst counts.
    # 4. If none revokes it, its authority may sign lists and had not ended, and the list is complete and covers the certificate.
    #    Another certificate of the same key may allow more, so without that right the list still revokes.
    authority = _find_authority(crl, issuer, above)  # 1
    _check_signature(crl, authority, Cache(1) if signed is None else signed)  # 2
    entries = crl.entries_of(certificate.serial, read_link(issuer).subject)
    revocation = _worst(entries)  # 3
    only_revokes: Finding | None = None
    try:
        _require_complete(crl, certificate, authority)  # 4
    except VerificationError as e:
        if revocation is None:
            raise
        only_revokes = Finding(e.code, Severity.WARNING, e.message, e.clause)
    if revocation is None:
        _check_entries(crl, certificate, is_removed=bool(entries))
    point, kept = crl.extensions.get(DISTRIBUTION_POINT), crl.extensions.get(_EXPIRED_CERTS)
    return RevocationAnswer(
        source=RevocationSource.CRL,
        sha256=crl.sha256,
        state=State.GOOD if revocation is None else State.REVOKED,
        this_update=crl.this_update,
        next_update=crl.next_update,
        signer=authority.certificate,
        revoked_at=revocation and revocation.at,
        reason=revocation and revocation.reason,
        invalid_since=revocation and revocation.invalid_since,
        kept_since=None if kept is None else read_time(kept.value),
        number=crl.number,
        series=b"" if point is None else point.value,
        only_revokes=only_revokes,
        findings=check_dates(crl),
    )


def _find_authority(crl: Crl, issuer: EidasCertificate, above: Sequence[EidasCertificate]) -> Link:
    """The authority that must have signed the list."""
    if crl.distribution_point is not None and crl.distribution_point.only_contains_attribute_certs:
        raise _refused("crl.scope", "the CRL lists attribute certificates only")
    for one in (issuer, *above) if crl.is_indirect else (issuer,):
        authority = read_link(one)
        if crl.issuer == authority.subject:
            return authority
    if crl.is_indirect:
        message = f"the issuer of an indirect CRL is neither {issuer.subject} nor an authority above it"
        raise _refused("crl.indirect", message)
    raise _refused("crl.other-issuer", f"the CRL is not issued by {issuer.subject}")


def _refused(code: str, message: str) -> VerificationError:
    return VerificationError(code, message, clause=_CLAUSE)


class _Revocation(NamedTuple):
    """The entries of one certificate, combined."""

    at: datetime
    reason: str | None
    invalid_since: datetime | None


def _worst(entries: Sequence[CrlEntry]) -> _Revocation | None:
    """The earliest date, and a final reason rather than a hold; None if no entry revokes.

    With more entries than are read, the certificate counts as revoked since always.
    """
    if len(entries) > MAX_ENTRIES:
        return _Revocation(SINCE_ALWAYS, None, None)
    combined = [_Revocation(entry.revoked_at, entry.reason, entry.invalid_since) for entry in entries]
    revoking = [one for one in combined if one.reason != _NO_LONGER]
    if not revoking:
        return None
    return _Revocation(
        min(one.at for one in revoking),
        next((one.reason for one in revoking if one.reason != ON_HOLD), ON_HOLD),
        min((one.invalid_since for one in revoking if one.invalid_since is not None), default=None),
    )


def check_dates(crl: Crl) -> tuple[Finding, ...]:
    """A warning for a list without nextUpdate."""
    if crl.next_update is not None:
        return ()
    return (
        Finding(
            "crl.undated", Severity.WARNING, "the CRL states no time of the next one (nextUpdate); it is fresh for a day",
            "RFC 5280 section 5.1.2.5",
        ),
    )  # fmt: skip


def _require_complete(crl: Crl, certificate: EidasCertificate, authority: Link) -> None:
    """Reject a list that proves no certificate good: its authority may not sign it, or it does not cover the certificate."""
    if not authority.may("cRLSign"):
        raise _refused("crl.key-usage", f"the key of {authority} may not sign CRLs")
    ended = authority.certificate.not_after
    if crl.this_update > ended:
        dates = f"the CRL is from {format_time(crl.this_update)}"
        raise _refused("crl.dates", f"{dates}, after the certificate of {authority} ended on {format_time(ended)}")
    if DELTA in crl.extensions:
        raise _refused("crl.delta", "the CRL lists only what changed since another (a delta CRL)")
    for oid, extension in crl.extensions.items():
        if extension.is_critical and oid not in _PROCESSED:
            raise _refused(
                "crl.critical-extension", f"the CRL has the critical extension {oid}, which is not processed"
            )
    if crl.distribution_point is not None:
        _check_scope(crl.distribution_point, read_link(certificate))


def _check_scope(point: IssuingPoint, link: Link) -> None:
    if point.indirect_crl:
        raise _refused("crl.indirect", "the CRL lists certificates of several issuers (an indirect CRL)")
    if point.only_contains_user_certs if link.facts.is_ca else point.only_contains_ca_certs:
        raise _refused("crl.scope", f"the CRL does not cover certificates like {link}")
    if point.only_some_reasons is not None:
        raise _refused("crl.scope", "the CRL covers some reasons of revocation only")
    if point.has_relative_name or (point.full_name is not None and link.crl_points.isdisjoint(point.full_name)):
        raise _refused("crl.scope", f"the CRL is not the part of the list that {link} points to")


def _check_signature(crl: Crl, authority: Link, known: Cache[tuple[str, str], bool]) -> None:
    pair = crl.sha256, authority.certificate.sha256
    is_signed = known.get(pair)
    if is_signed is None:
        with _VERIFYING:
            is_signed = known.get(pair)
            if is_signed is None:
                is_signed = _is_signed(crl, authority)
                known.put(pair, is_signed)
    if not is_signed:
        raise _refused("crl.signature", f"the CRL is not signed with the key of {authority}")


def _is_signed(crl: Crl, authority: Link) -> bool:
    try:
        weak = signature_weakness(crl.x509.signature_algorithm_oid.dotted_string, crl.x509.signature_hash_algorithm)
        key = authority.certificate.x509.public_key()
        signed = weak is None and crl.x509.is_signature_valid(key)  # type: ignore[arg-type]  # other keys raise
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise _refused("crl.signature", f"the signature of the CRL cannot be checked: {str(e)[:120]}") from e
    if weak:
        raise _refused("crl.weak-signature", f"the CRL is signed with {weak}")
    return signed


def _check_entries(crl: Crl, certificate: EidasCertificate, *, is_removed: bool) -> None:
    if is_removed:
        message = f"the CRL takes {certificate.subject} off the list (removeFromCRL), as delta CRLs alone may do"
        raise VerificationError("crl.malformed", message, clause="RFC 5280 section 5.3.1")
    if crl.fault_of_entries is not None:
        raise _refused(*crl.fault_of_entries)
