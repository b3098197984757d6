"""Writing certificate revocation lists.

Source: RFC 5280 section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from tppkit.certificates import der
from tppkit.testpki.certificate import (
    Extension,
    Issued,
    authority_key_identifier,
    write_extension,
    write_extensions,
    write_time,
)
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.signing import sign_der, signature_algorithm

_CRL_NUMBER, _REASON_CODE = "2.5.29.20", "2.5.29.21"

HOLD, NO_LONGER = "certificateHold", "removeFromCRL"
# RFC 5280 section 5.3.1.
REASONS: Mapping[str, int] = MappingProxyType({
    "unspecified": 0, "keyCompromise": 1, "cACompromise": 2, "affiliationChanged": 3, "superseded": 4,
    "cessationOfOperation": 5, "certificateHold": 6, "removeFromCRL": 8, "privilegeWithdrawn": 9, "aACompromise": 10,
})  # fmt: skip


class Revocation(NamedTuple):
    """A revoked certificate.

    Attributes:
        serial: Its serial number.
        at: The time of revocation, aware UTC.
        reason: One of `REASONS`.
    """

    serial: int
    at: datetime
    reason: str = "unspecified"


def write_crl(
    issuer: Issued, revoked: Iterable[Revocation], *, this_update: datetime, next_update: datetime | None, number: int,
    key: PrivateKey | None = None, hash_name: str | None = None, further: tuple[Extension, ...] = (),
) -> bytes:  # fmt: skip
    """Write and sign a revocation list of version 2, as DER.

    Args:
        issuer: The authority.
        revoked: The revoked certificates.
        this_update: Time of issue, aware UTC.
        next_update: Time at which the next list is due, aware UTC. Required by RFC 5280; None leaves it out.
        number: CRL number.
        key: The signing key; the issuer's by default.
        hash_name: One of `signing.HASHES`; the one that fits the key by default.
        further: More extensions than authority key identifier and number.
    """
    key = key or issuer.key
    own = authority_key_identifier(issuer.key_identifier), Extension(_CRL_NUMBER, der.write_integer(number))
    entries = [_entry(revocation) for revocation in revoked]
    to_be_signed = der.write_sequence(
        der.write_integer(1),
        signature_algorithm(key, hash_name).dump(),
        issuer.name,
        write_time(this_update),
        write_time(next_update) if next_update else b"",
        der.write_sequence(*entries) if entries else b"",
        der.write_element(0xA0, write_extensions((*own, *further))),
    )
    return sign_der(to_be_signed, key, hash_name=hash_name)


def _entry(revocation: Revocation) -> bytes:
    parts = [der.write_integer(revocation.serial), write_time(revocation.at)]
    if revocation.reason != "unspecified":  # RFC 5280 section 5.3.1: this reason should be left out
        reason = Extension(_REASON_CODE, der.write_element(0x0A, bytes([REASONS[revocation.reason]])))
        parts.append(der.write_sequence(write_extension(reason)))
    return der.write_sequence(*parts)
