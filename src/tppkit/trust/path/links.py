"""What path validation reads of a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import EidasCertificate, der
from tppkit.errors import CertificateRejected
from tppkit.trust.path.names import ComparableName, comparable_issuer, comparable_subject

_E = TypeVar("_E", bound=x509.ExtensionType)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A certificate as one link of a chain.

    Attributes:
        certificate: the certificate.
        subject: the holder's name; equal for names that are the same (RFC 5280 section 7.1).
        issuer: the issuer's name, likewise.
        extensions: by dotted object identifier.
        key_id: subjectKeyIdentifier, or None.
        authority_key_id: keyIdentifier of the authorityKeyIdentifier, or None.
    """

    certificate: EidasCertificate
    subject: ComparableName
    issuer: ComparableName
    extensions: Mapping[str, x509.Extension[x509.ExtensionType]]
    key_id: bytes | None
    authority_key_id: bytes | None

    @property
    def is_self_issued(self) -> bool:
        """Subject and issuer are the same name (RFC 5280 section 3.2), whoever's key signed."""
        return self.subject == self.issuer

    def get(self, kind: type[_E]) -> _E | None:
        """The value of an extension, None when it is absent."""
        return _value(self.extensions, kind)

    def __str__(self) -> str:
        return str(self.certificate.subject)


def read_link(certificate: EidasCertificate) -> Link:
    """Read what path validation needs.

    Raises:
        CertificateRejected: `path.extension-malformed`.
    """
    try:
        extensions = MappingProxyType({e.oid.dotted_string: e for e in certificate.x509.extensions})
    except (ValueError, TypeError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as e:
        raise CertificateRejected(
            "path.extension-malformed",
            f"the extensions of {certificate.subject} cannot be read: {str(e)[:120]}",
            clause="RFC 5280 section 4.2",
        ) from e
    subject_key, authority_key = (
        _value(extensions, x509.SubjectKeyIdentifier),
        _value(extensions, x509.AuthorityKeyIdentifier),
    )
    return Link(
        certificate=certificate,
        subject=comparable_subject(certificate),
        issuer=comparable_issuer(certificate),
        extensions=extensions,
        key_id=subject_key.digest if subject_key else None,
        authority_key_id=authority_key.key_identifier if authority_key else None,
    )


def read_key_bits(certificate: EidasCertificate) -> bytes:
    """The content of the BIT STRING of a certificate's public key, whose hash names the key.

    Raises:
        FormatError: `certificate.key-unreadable`.
    """
    whole = certificate.public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    bits = der.read_children(whole, der.read_whole(whole, tag=der.SEQUENCE))[1]
    return whole[bits.start + 1 : bits.end]


def _value(extensions: Mapping[str, x509.Extension[x509.ExtensionType]], kind: type[_E]) -> _E | None:
    found = extensions.get(kind.oid.dotted_string)
    return found.value if found is not None and isinstance(found.value, kind) else None
