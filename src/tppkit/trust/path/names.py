"""When two distinguished names are the same name (RFC 5280 section 7.1).

Neither case, nor runs of white space, nor the kind of string tells names apart: a PrintableString and a UTF8String of one text
are the same value. A value that is no string is the same only byte by byte.
"""

from __future__ import annotations

import unicodedata

from tppkit.certificates import DistinguishedName, EidasCertificate, der
from tppkit.certificates.names import read_name

ComparableRdn = frozenset[tuple[str, str | bytes]]
ComparableName = tuple[ComparableRdn, ...]


def comparable_subject(certificate: EidasCertificate) -> ComparableName:
    """What is equal for two holders of one name."""
    return comparable_name(certificate.subject)


def comparable_issuer(certificate: EidasCertificate) -> ComparableName:
    """The same of the issuer's name."""
    return comparable_name(certificate.issuer)


def comparable_der(encoded: bytes) -> ComparableName:
    """The same of DER of a name.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    return comparable_name(read_name(encoded, der.read_whole(encoded, tag=der.SEQUENCE)))


def comparable_name(name: DistinguishedName) -> ComparableName:
    """The same of a name that was read."""
    return tuple([frozenset([(oid, _folded(value)) for oid, value in rdn]) for rdn in name.rdns])


def _folded(value: str | bytes) -> str | bytes:
    if isinstance(value, bytes):
        return value
    normal = value if value.isascii() else unicodedata.normalize("NFKC", value)
    return " ".join(normal.casefold().split())
