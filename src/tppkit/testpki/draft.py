"""A certificate before it is signed: every field stands open, so that each can be made wrong on purpose.

Source: RFC 5280 section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import DistinguishedName, EidasCertificate, der
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.signing import default_hash, sign_der, signature_algorithm

_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
# serialNumber and countryName (RFC 5280 appendix A.1), and the country of registration (EV guidelines 7.1.4.2.4).
_PRINTABLE = frozenset({"2.5.4.5", "2.5.4.6", "1.3.6.1.4.1.311.60.2.1.3"})
# emailAddress and domainComponent (RFC 5280 appendix A.1).
_IA5 = frozenset({"1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25"})


class Attribute(NamedTuple):
    """One attribute of a name: identifier, text, and the tag of its string type."""

    oid: str
    text: str
    tag: int = der.UTF8_STRING


class Extension(NamedTuple):
    """One extension: identifier, DER of its value, and whether it is critical."""

    oid: str
    value: bytes
    critical: bool = False


def attribute_of(oid: str, text: str) -> Attribute:
    """The attribute with the string type that RFC 5280 wants for it."""
    if oid in _IA5:
        return Attribute(oid, text, der.IA5_STRING)
    return Attribute(oid, text, der.PRINTABLE_STRING if oid in _PRINTABLE else der.UTF8_STRING)


def attributes_of(name: DistinguishedName) -> tuple[Attribute, ...]:
    """The attributes of a name, each with the string type that RFC 5280 wants for it."""
    return tuple(attribute_of(oid, text) for rdn in name.rdns for oid, text in rdn)


def extension_of(extension: x509.ExtensionType, critical: bool) -> Extension:
    """The extension as DER."""
    return Extension(extension.oid.dotted_string, extension.public_bytes(), critical)


def write_name(attributes: tuple[Attribute, ...]) -> bytes:
    """DER of a Name with each attribute in a set of its own."""
    return der.write_element(der.SEQUENCE, *(_rdn(attribute) for attribute in attributes))


def _rdn(attribute: Attribute) -> bytes:
    pair = der.write_element(
        der.SEQUENCE, der.write_oid(attribute.oid), der.write_text(attribute.text, tag=attribute.tag)
    )
    return der.write_element(der.SET, pair)


def write_time(at: datetime) -> bytes:
    """DER of a time: UTCTime through 2049, GeneralizedTime from 2050 (RFC 5280 section 4.1.2.5)."""
    if 1950 <= at.year < 2050:
        return der.write_element(_UTC_TIME, at.strftime("%y%m%d%H%M%SZ").encode())
    return write_generalized_time(at)


def write_generalized_time(at: datetime) -> bytes:
    """DER of a GeneralizedTime without fractions."""
    return der.write_element(_GENERALIZED_TIME, f"{at.year:04}{at:%m%d%H%M%S}Z".encode())


@dataclass(frozen=True)
class Draft:
    """A certificate before it is signed.

    Attributes:
        subject: the holder's name.
        issuer: DER of the issuer's name.
        public_key: DER of the SubjectPublicKeyInfo.
        serial: serial number.
        not_before: aware UTC.
        not_after: aware UTC.
        extensions: in the order in which they are written.
        version: 2 means version 3.
    """

    subject: tuple[Attribute, ...]
    issuer: bytes
    public_key: bytes
    serial: int
    not_before: datetime
    not_after: datetime
    extensions: tuple[Extension, ...] = field(default=())
    version: int = 2

    @classmethod
    def of(cls, certificate: EidasCertificate) -> Self:
        """The draft that a certificate was signed from, for one that `cryptography` can read in full."""
        known = certificate.x509
        return cls(
            subject=attributes_of(certificate.subject),
            issuer=certificate.issuer_der,
            public_key=known.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
            serial=certificate.serial,
            not_before=certificate.not_before,
            not_after=certificate.not_after,
            extensions=tuple(extension_of(extension.value, extension.critical) for extension in known.extensions),
        )

    def with_extension(self, extension: Extension) -> Self:
        """The same with this extension in the place of the one with its identifier, or at the end."""
        others = {known.oid: known for known in self.extensions} | {extension.oid: extension}
        return replace(self, extensions=tuple(others.values()))

    def without_extension(self, oid: str) -> Self:
        """The same without the extension."""
        return replace(self, extensions=tuple(extension for extension in self.extensions if extension.oid != oid))

    def sign(self, key: PrivateKey, *, hash_name: str | None = None) -> bytes:
        """DER of the certificate, signed.

        Args:
            key: the issuer's key.
            hash_name: one of `signing.HASHES`; the one that fits the key by default.
        """
        algorithm = signature_algorithm(key, hash_name or default_hash(key))
        version = der.write_element(0xA0, der.write_integer(self.version)) if self.version else b""
        validity = der.write_element(der.SEQUENCE, write_time(self.not_before), write_time(self.not_after))
        extensions = write_extensions(self.extensions)
        to_be_signed = der.write_element(
            der.SEQUENCE, version, der.write_integer(self.serial), algorithm, self.issuer, validity,
            write_name(self.subject), self.public_key, der.write_element(0xA3, extensions) if self.extensions else b"",
        )  # fmt: skip
        return sign_der(to_be_signed, key, hash_name=hash_name)


def write_extensions(extensions: Iterable[Extension]) -> bytes:
    """DER of a SEQUENCE of them."""
    return der.write_element(der.SEQUENCE, *map(write_extension, extensions))


def write_extension(extension: Extension) -> bytes:
    """DER of an Extension."""
    critical = b"\x01\x01\xff" if extension.critical else b""
    value = der.write_element(der.OCTET_STRING, extension.value)
    return der.write_element(der.SEQUENCE, der.write_oid(extension.oid), critical, value)
