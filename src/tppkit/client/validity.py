"""Certificates of an identity that are not valid now, or not for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from types import MappingProxyType

from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding, Severity


def check_validity(
    certificates: Iterable[tuple[str, EidasCertificate]], *, at: datetime, ahead: timedelta
) -> Iterator[Finding]:
    """What is to be said about the validity of certificates.

    Args:
        certificates: each with what it is called.
        at: the time to judge at, aware.
        ahead: an end within this time is a warning.
    """
    for name, certificate in certificates:
        left = certificate.not_after - at
        values = MappingProxyType(
            {"certificate": name, "not_after": certificate.not_after.isoformat(), "days": str(left.days)}
        )
        what = f"the {name} {certificate.subject}"
        if at < certificate.not_before:
            message = f"{what} is valid from {certificate.not_before.isoformat()} only"
            yield Finding("identity.not-yet-valid", Severity.ERROR, message, values=values)
        elif left < timedelta(0):
            message = f"{what} expired on {certificate.not_after.isoformat()}"
            yield Finding("identity.expired", Severity.ERROR, message, values=values)
        elif left < ahead:
            message = f"{what} expires on {certificate.not_after.isoformat()}, in {left.days} days"
            yield Finding("identity.expires", Severity.WARNING, message, values=values)
