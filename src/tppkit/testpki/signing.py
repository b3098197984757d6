"""Deterministic signatures: ECDSA (RFC 6979), RSA PKCS #1 v1.5, Ed25519.

Certificates, revocation lists, OCSP responses and time stamps of a test PKI are signed here. SHA-1, which no authority may use,
is supported for faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from tppkit.certificates import der
from tppkit.testpki.keys import PrivateKey

HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType(
    {"sha1": hashes.SHA1(), "sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}  # noqa: S303  # for faults
)
# RFC 8017 appendix A.2.4, RFC 5758 section 3.2 and RFC 3279 section 2.2.3, RFC 8410 section 3.
_RSA = {
    "sha1": "1.2.840.113549.1.1.5", "sha256": "1.2.840.113549.1.1.11", "sha384": "1.2.840.113549.1.1.12",
    "sha512": "1.2.840.113549.1.1.13",
}  # fmt: skip
_ECDSA = {
    "sha1": "1.2.840.10045.4.1", "sha256": "1.2.840.10045.4.3.2", "sha384": "1.2.840.10045.4.3.3",
    "sha512": "1.2.840.10045.4.3.4",
}  # fmt: skip
_ED25519 = "1.3.101.112"
_NULL = b"\x05\x00"


def default_hash(key: PrivateKey) -> str:
    """Return the hash that fits a key: SHA-384 for P-384, SHA-256 for every other key."""
    return "sha384" if isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 384 else "sha256"


def signature_algorithm(key: PrivateKey, hash_name: str | None = None) -> bytes:
    """Write the AlgorithmIdentifier of a signature, as DER.

    Args:
        key: The signing key.
        hash_name: One of `HASHES`, the one that fits the key by default; ignored for Ed25519, which has its own.
    """
    hash_name = hash_name or default_hash(key)
    if isinstance(key, rsa.RSAPrivateKey):
        return der.write_sequence(der.write_oid(_RSA[hash_name]), _NULL)
    oid = _ECDSA[hash_name] if isinstance(key, ec.EllipticCurvePrivateKey) else _ED25519
    return der.write_sequence(der.write_oid(oid))


def sign_bytes(key: PrivateKey, data: bytes, hash_name: str | None = None) -> bytes:
    """Return a signature value; arguments as for `signature_algorithm`."""
    hash_name = hash_name or default_hash(key)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), HASHES[hash_name])
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(data, ec.ECDSA(HASHES[hash_name], deterministic_signing=True))
    return key.sign(data)


def sign_der(to_be_signed: bytes, key: PrivateKey, *, hash_name: str | None = None) -> bytes:
    """Sign DER and write the frame of certificates, requests and revocation lists.

    The frame is SEQUENCE { to-be-signed, AlgorithmIdentifier, BIT STRING }.

    Args:
        to_be_signed: DER.
        key: The signing key.
        hash_name: One of `HASHES`; the one that fits the key by default.
    """
    signature = der.write_element(der.BIT_STRING, b"\x00", sign_bytes(key, to_be_signed, hash_name))
    return der.write_sequence(to_be_signed, signature_algorithm(key, hash_name), signature)
