"""When two distinguished names are the same name (RFC 5280 section 7.1).

Neither case, nor runs of white space, nor the kind of string tells names apart: a PrintableString and a UTF8String of one text
are the same value. Names that cannot be read are the same only byte by byte.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from cryptography import x509

from tppkit.certificates import EidasCertificate

ComparableRdn = frozenset[tuple[str, str | bytes]]
ComparableName = tuple[ComparableRdn, ...] | bytes


def comparable_rdn(rdn: x509.RelativeDistinguishedName) -> ComparableRdn:
    """What is equal for two relative distinguished names that are the same."""
    return frozenset((attribute.oid.dotted_string, _folded(attribute.value)) for attribute in rdn)


def comparable_subject(certificate: EidasCertificate) -> ComparableName:
    """What is equal for two holders of one name."""
    return _comparable(lambda: certificate.x509.subject, certificate.subject_der)


def comparable_issuer(certificate: EidasCertificate) -> ComparableName:
    """The same of the issuer's name."""
    return _comparable(lambda: certificate.x509.issuer, certificate.issuer_der)


def comparable_name(name: x509.Name) -> ComparableName:
    """The same of any name."""
    return tuple([comparable_rdn(rdn) for rdn in name.rdns])


def _comparable(read: Callable[[], x509.Name], der: bytes) -> ComparableName:
    try:
        return comparable_name(read())
    except ValueError:
        return der


def _folded(value: str | bytes) -> str | bytes:
    if isinstance(value, bytes):
        return value
    normal = value if value.isascii() else unicodedata.normalize("NFKC", value)
    return " ".join(normal.casefold().split())
