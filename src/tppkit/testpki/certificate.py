"""A certificate of the test PKI: its fields before it is signed, and the certificate with its key afterwards.

Every field of a draft can be changed, so that each can be made wrong on purpose.

Source: RFC 5280 section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import DistinguishedName, EidasCertificate, der
from tppkit.testpki.keys import PrivateKey, public_key_der
from tppkit.testpki.signing import sign_der, signature_algorithm

_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
# serialNumber and countryName (RFC 5280 appendix A.1), and the country of registration (EV guidelines 7.1.4.2.4).
_PRINTABLE = frozenset({"2.5.4.5", "2.5.4.6", "1.3.6.1.4.1.311.60.2.1.3"})
# emailAddress and domainComponent (RFC 5280 appendix A.1).
_IA5 = frozenset({"1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25"})


class Attribute(NamedTuple):
    """An attribute of a name: identifier, text, and the tag of its string type."""

    oid: str
    text: str
    tag: int = der.UTF8_STRING


class Extension(NamedTuple):
    """An extension: identifier, DER of its value, and whether it is critical."""

    oid: str
    value: bytes
    critical: bool = False


def attribute_of(oid: str, text: str) -> Attribute:
    """Return an attribute with the string type that RFC 5280 prescribes."""
    if oid in _IA5:
        return Attribute(oid, text, der.IA5_STRING)
    return Attribute(oid, text, der.PRINTABLE_STRING if oid in _PRINTABLE else der.UTF8_STRING)


def attributes_of(name: DistinguishedName) -> tuple[Attribute, ...]:
    """Return the attributes of a name, each with the string type that RFC 5280 prescribes."""
    return tuple(attribute_of(oid, text) for rdn in name.rdns for oid, text in rdn)


def extension_of(extension: x509.ExtensionType, critical: bool) -> Extension:
    """Return an extension with its value as DER."""
    return Extension(extension.oid.dotted_string, extension.public_bytes(), critical)


def write_name(attributes: tuple[Attribute, ...]) -> bytes:
    """Write a Name as DER, each attribute in a set of its own."""
    return der.write_sequence(*(_rdn(attribute) for attribute in attributes))


def _rdn(attribute: Attribute) -> bytes:
    pair = der.write_sequence(der.write_oid(attribute.oid), der.write_text(attribute.text, tag=attribute.tag))
    return der.write_element(der.SET, pair)


def write_time(at: datetime) -> bytes:
    """Write a time as DER: UTCTime until 2049, GeneralizedTime from 2050 (RFC 5280 section 4.1.2.5)."""
    if 1950 <= at.year < 2050:
        return der.write_element(_UTC_TIME, at.strftime("%y%m%d%H%M%SZ").encode())
    return write_generalized_time(at)


def write_generalized_time(at: datetime) -> bytes:
    """Write a GeneralizedTime without fractions, as DER."""
    return der.write_element(_GENERALIZED_TIME, f"{at.year:04}{at:%m%d%H%M%S}Z".encode())


@dataclass(frozen=True)
class Draft:
    """A certificate before it is signed.

    draft = Draft.of(pki.qwac.certificate).without_extension(oids.KEY_USAGE)
    certificate = EidasCertificate.from_der(draft.sign(pki.qwac_ca.key))

    Attributes:
        subject: The holder's name.
        issuer: DER of the issuer's name.
        public_key: DER of the SubjectPublicKeyInfo.
        serial: Serial number.
        not_before: Aware UTC.
        not_after: Aware UTC.
        extensions: In the order in which they are written.
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
        """Return the draft of a certificate, all extensions of which `cryptography` can read."""
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
        """Return the draft with an extension, which replaces the one with its identifier or is added at the end."""
        others = {known.oid: known for known in self.extensions} | {extension.oid: extension}
        return replace(self, extensions=tuple(others.values()))

    def without_extension(self, oid: str) -> Self:
        """Return the draft without an extension."""
        return replace(self, extensions=tuple(extension for extension in self.extensions if extension.oid != oid))

    def sign(self, key: PrivateKey, *, hash_name: str | None = None) -> bytes:
        """Sign the certificate, and return it as DER.

        Args:
            key: The issuer's key.
            hash_name: One of `signing.HASHES`; the one that fits the key by default.
        """
        algorithm = signature_algorithm(key, hash_name).dump()
        version = der.write_element(0xA0, der.write_integer(self.version)) if self.version else b""
        validity = der.write_sequence(write_time(self.not_before), write_time(self.not_after))
        extensions = write_extensions(self.extensions)
        to_be_signed = der.write_sequence(version, der.write_integer(self.serial), algorithm, self.issuer, validity,
            write_name(self.subject), self.public_key, der.write_element(0xA3, extensions) if self.extensions else b"",
        )  # fmt: skip
        return sign_der(to_be_signed, key, hash_name=hash_name)


def write_extensions(extensions: Iterable[Extension]) -> bytes:
    """Write a SEQUENCE of extensions, as DER."""
    return der.write_sequence(*map(write_extension, extensions))


def write_extension(extension: Extension) -> bytes:
    """Write an Extension, as DER."""
    critical = b"\x01\x01\xff" if extension.critical else b""
    value = der.write_octets(extension.value)
    return der.write_sequence(der.write_oid(extension.oid), critical, value)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its private key, and the authorities above it.

    issued = pki.issue_qwac(make_provider(), label="more")
    issued.certificate, issued.key

    Attributes:
        label: Short name, which is also the stem of its files.
        kind: `root`, `issuing-ca`, `qwac`, `qseal`, `server`, `bank-seal`, `ocsp`, `tsa` or `list-signer`.
        certificate: The certificate.
        key: Its private key; a test key.
        chain: Issuing authorities from the nearest upwards, without the root.
    """

    label: str
    kind: str
    certificate: EidasCertificate
    key: PrivateKey
    chain: tuple[EidasCertificate, ...] = ()

    @property
    def name(self) -> bytes:
        """DER of the subject's name."""
        return self.certificate.subject_der

    @property
    def key_identifier(self) -> bytes:
        """The subject key identifier, which identifies the key in issued certificates and revocation lists."""
        return self.certificate.extensions.subject_key_identifier or b""

    @property
    def public_key_der(self) -> bytes:
        """DER of the SubjectPublicKeyInfo."""
        return public_key_der(self.key)

    def __repr__(self) -> str:
        return f"Issued(label={self.label!r}, kind={self.kind!r}, subject={str(self.certificate.subject)!r})"


def is_issued_by(certificate: EidasCertificate, issuer: EidasCertificate) -> bool:
    """Return whether a certificate names another as its issuer, and that one's key signed it."""
    try:
        certificate.x509.verify_directly_issued_by(issuer.x509)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


class Drafted(NamedTuple):
    """A certificate before it is signed, and its private key."""

    draft: Draft
    key: PrivateKey


def sign_draft(drafted: Drafted, issuer: Issued | None, label: str, kind: str) -> Issued:
    """Sign a draft by its issuer, or by its own key if `issuer` is None."""
    signed = drafted.draft.sign(issuer.key if issuer else drafted.key)
    chain = (issuer.certificate, *issuer.chain) if issuer and issuer.kind != "root" else ()
    return Issued(label, kind, EidasCertificate.from_der(signed), drafted.key, chain)


def for_key(draft: Draft, key: CertificatePublicKeyTypes) -> Draft:
    """Return the draft for another key, with its identifier."""
    identifier = extension_of(x509.SubjectKeyIdentifier.from_public_key(key), False)
    public_key = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return replace(draft, public_key=public_key).with_extension(identifier)


def below(draft: Draft, key: CertificatePublicKeyTypes, issuer: Issued | None) -> Draft:
    """Return the draft for another key and issuer, with the identifiers of both keys.

    Args:
        draft: The draft.
        key: The key that it certifies.
        issuer: The signer; None for a certificate that signs itself.
    """
    name = issuer.name if issuer else write_name(draft.subject)
    above = issuer.key_identifier if issuer else x509.SubjectKeyIdentifier.from_public_key(key).digest
    return for_key(replace(draft, issuer=name), key).with_extension(authority_key_identifier(above))


def authority_key_identifier(identifier: bytes) -> Extension:
    """Return the extension that names the issuer's key."""
    return extension_of(x509.AuthorityKeyIdentifier(identifier, None, None), False)
