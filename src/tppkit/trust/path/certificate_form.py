"""The form that RFC 5280 section 4 requires of every certificate of a chain, whatever kind of key it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from tppkit.certificates import der, oids
from tppkit.errors import CertificateRejected
from tppkit.trust.path.links import Link

# RFC 5280 allows 20 bytes with the sign. Many authorities draw 20 random bytes, which take 21 when the first bit is set.
_MAX_SERIAL_BITS = 21 * 8 - 1
_GENERALIZED_TIME = 0x18


def check_form(chain: Sequence[Link], at: datetime) -> None:
    """Reject a chain with a certificate that breaks the form, the anchor included, whose serial number alone may be any.

    Raises:
        CertificateRejected: `path.refused`.

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
