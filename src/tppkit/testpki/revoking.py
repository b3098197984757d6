"""What may be revoked, whose it is, and what was said of it before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError
from tppkit.testpki.authority import Pki
from tppkit.testpki.crl import NO_LONGER, REASONS, Revocation
from tppkit.testpki.issued import Issued, is_issued_by
from tppkit.testpki.revocations import Journal


def require_revocable(certificate: EidasCertificate, *, at: datetime, now: datetime, reason: str) -> None:
    """Require a reason that a list may have, and a time since which the certificate may be revoked.

    Args:
        certificate: the certificate.
        at: since when, aware UTC.
        now: the present, aware UTC.
        reason: one of `crl.REASONS` but `removeFromCRL`.

    Raises:
        ConfigurationError: `pki.reason`, `pki.revocation-time`.
    """
    _require_reason(reason)
    if at > now:
        message = f"{format_time(at)} is still to come: a list says what is revoked, not what will be"
        raise ConfigurationError("pki.revocation-time", message)
    if at < certificate.not_before:
        message = (
            f"{certificate.subject} is valid from {format_time(certificate.not_before)} only, not at {format_time(at)}"
        )
        raise ConfigurationError("pki.revocation-time", message)


def _require_reason(reason: str) -> None:
    if reason == NO_LONGER:
        message = f"{NO_LONGER} stands in delta CRLs only (RFC 5280 section 5.3.1): a hold is lifted with --lift"
        raise ConfigurationError("pki.reason", message, clause="RFC 5280 section 5.3.1")
    if reason not in REASONS:
        known = ", ".join(known for known in REASONS if known != NO_LONGER)
        raise ConfigurationError("pki.reason", f"the reason {reason!r} is not one of {known} (RFC 5280 section 5.3.1)")


def find_revocation(
    revoked: Mapping[str, tuple[Revocation, ...]], issuer: Issued, certificate: EidasCertificate
) -> Revocation | None:
    """What stands of a certificate among the revocations of its issuer, or None."""
    return next((one for one in revoked.get(issuer.label, ()) if one.serial == certificate.serial), None)


def was_lifted(journal: Journal, issuer: Issued, certificate: EidasCertificate) -> bool:
    """Whether the last act upon a certificate ended its hold."""
    acts = [act for act in journal.get(issuer.label, ()) if act.serial == certificate.serial]
    return bool(acts) and acts[-1].reason == NO_LONGER


def issuer_of(certificate: EidasCertificate, pki: Pki) -> Issued:
    """The authority of the PKI that issued a certificate.

    Raises:
        ConfigurationError: `pki.not-issued-here`.
    """
    for issuer in pki.issuers:
        if certificate.sha256 != issuer.certificate.sha256 and is_issued_by(certificate, issuer.certificate):
            return issuer
    raise ConfigurationError(
        "pki.not-issued-here", f"{certificate.subject} was not issued by an authority of this folder"
    )
