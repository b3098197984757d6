"""Deterministic signatures: ECDSA (RFC 6979), RSA PKCS #1 v1.5, Ed25519.

Certificates, revocation lists, OCSP responses and time stamps of a test PKI are signed here. SHA-1, which no authority may use,
is supported for faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from asn1crypto import algos, core
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from tppkit.certificates import der
from tppkit.testpki.keys import PrivateKey

HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType(
    {"sha1": hashes.SHA1(), "sha256": hashes.SHA256(), "sha384": hashes.SHA384()}  # noqa: S303  # for faults
)


def default_hash(key: PrivateKey) -> str:
    """Return the hash that fits a key: SHA-384 for P-384, SHA-256 for every other key."""
    return "sha384" if isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 384 else "sha256"


def signature_algorithm(key: PrivateKey, hash_name: str | None = None) -> algos.SignedDigestAlgorithm:
    """Return the AlgorithmIdentifier of a signature.

    Args:
        key: The signing key.
        hash_name: One of `HASHES`, the one that fits the key by default; ignored for Ed25519, which has its own.
    """
    hash_name = hash_name or default_hash(key)
    if isinstance(key, rsa.RSAPrivateKey):  # its parameters are NULL (RFC 8017 appendix A.2.4)
        return algos.SignedDigestAlgorithm({"algorithm": f"{hash_name}_rsa", "parameters": core.Null()})
    name = f"{hash_name}_ecdsa" if isinstance(key, ec.EllipticCurvePrivateKey) else "ed25519"
    return algos.SignedDigestAlgorithm({"algorithm": name})


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
    return der.write_sequence(to_be_signed, signature_algorithm(key, hash_name).dump(), signature)
