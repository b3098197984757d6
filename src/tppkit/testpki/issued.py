"""A certificate with its key, before and after it is signed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from tppkit.certificates import EidasCertificate, der, oids
from tppkit.testpki.draft import Draft, Extension
from tppkit.testpki.keys import PrivateKey, public_key_der


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its private key, and the authorities above it.

    Attributes:
        label: short name, also the stem of its files.
        kind: `root`, `issuing-ca`, `qwac`, `qseal`, `server`, `ocsp`, `tsa` or `list-signer`.
        certificate: the certificate.
        key: its private key; a test key.
        chain: issuing authorities from the nearest upwards, without the root.
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
        """The subject key identifier, by which issued certificates and revocation lists name the key."""
        return self.certificate.extensions.subject_key_identifier or b""

    @property
    def public_key_der(self) -> bytes:
        """DER of the SubjectPublicKeyInfo."""
        return public_key_der(self.key)

    def __repr__(self) -> str:
        return f"Issued(label={self.label!r}, kind={self.kind!r}, subject={str(self.certificate.subject)!r})"


def is_issued_by(certificate: EidasCertificate, issuer: EidasCertificate) -> bool:
    """Whether a certificate names another as its issuer, and that one's key signed it."""
    try:
        certificate.x509.verify_directly_issued_by(issuer.x509)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


class Drafted(NamedTuple):
    """A certificate before it is signed, and its private key."""

    draft: Draft
    key: PrivateKey


def sign_draft(
    drafted: Drafted, issuer: Issued | None, label: str, kind: str, *, hash_name: str | None = None
) -> Issued:
    """The certificate, signed by its issuer, or by itself when there is none."""
    signed = drafted.draft.sign(issuer.key if issuer else drafted.key, hash_name=hash_name)
    chain = (issuer.certificate, *issuer.chain) if issuer and issuer.kind != "root" else ()
    return Issued(label, kind, EidasCertificate.from_der(signed), drafted.key, chain)


def for_key(draft: Draft, public_key: bytes) -> Draft:
    """The draft for another key, and with its identifier.

    Args:
        draft: a certificate before it is signed.
        public_key: DER of the SubjectPublicKeyInfo.
    """
    identifier = der.write_element(der.OCTET_STRING, key_identifier(public_key))
    return replace(draft, public_key=public_key).with_extension(Extension(oids.SUBJECT_KEY_IDENTIFIER, identifier))


def key_identifier(public_key: bytes) -> bytes:
    """The identifier of a key: SHA-1 of its bits (RFC 5280 section 4.2.1.2, method 1).

    Args:
        public_key: DER of the SubjectPublicKeyInfo.
    """
    return hashlib.sha1(public_key_bits(public_key), usedforsecurity=False).digest()


def public_key_bits(public_key: bytes) -> bytes:
    """Content of the BIT STRING of a SubjectPublicKeyInfo, without the byte of unused bits."""
    bits = der.read_children(public_key, der.read_whole(public_key, tag=der.SEQUENCE))[1]
    return public_key[bits.start + 1 : bits.end]
