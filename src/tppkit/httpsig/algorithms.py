"""Signature algorithms by key: a key decides what its signatures may be, a message never does.

| name         | key          | signature                      |
|--------------|--------------|--------------------------------|
| rsa-sha256   | RSA >= 2048  | RSASSA-PKCS1-v1_5, SHA-256     |
| rsa-sha512   | RSA >= 2048  | RSASSA-PKCS1-v1_5, SHA-512     |
| ecdsa-sha256 | EC P-256     | ECDSA, SHA-256, DER            |
| ecdsa-sha384 | EC P-384     | ECDSA, SHA-384, DER            |

Source: the registry of draft-cavage-http-signatures-10 appendix E, ETSI TS 119 312 (sizes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.errors import FormatError, SignatureRejected

MIN_RSA_BITS = 2048

_PKCS1 = padding.PKCS1v15()
_SHA256, _SHA384, _SHA512 = hashes.SHA256(), hashes.SHA384(), hashes.SHA512()


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One row of the table.

    Attributes:
        name: as in the `algorithm` parameter.
        key: `rsa`, `P-256` or `P-384`.
        hash: the hash of the signing string.
    """

    name: str
    key: str
    hash: hashes.HashAlgorithm


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        row.name: row
        for row in (
            Algorithm("rsa-sha256", "rsa", _SHA256),
            Algorithm("rsa-sha512", "rsa", _SHA512),
            Algorithm("ecdsa-sha256", "P-256", _SHA256),
            Algorithm("ecdsa-sha384", "P-384", _SHA384),
        )
    }
)
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384"}

Verify = Callable[[bytes, bytes], None]


def key_kind(key: object) -> str:
    """The table's name for a public or private key: `rsa`, `P-256`, `P-384`.

    Raises:
        FormatError: `key.unsupported`, `key.weak`.
    """
    match key:
        case rsa.RSAPublicKey() | rsa.RSAPrivateKey():
            if key.key_size < MIN_RSA_BITS:
                raise FormatError("key.weak", f"an RSA key of {key.key_size} bits is below {MIN_RSA_BITS}")
            return "rsa"
        case ec.EllipticCurvePublicKey() | ec.EllipticCurvePrivateKey() if key.curve.name in _CURVES:
            return _CURVES[key.curve.name]
        case _:
            raise FormatError("key.unsupported", f"no algorithm here signs with a {type(key).__name__}")


def algorithms_for(key: object) -> tuple[Algorithm, ...]:
    """The algorithms that a key can have, the usual one first.

    Raises:
        FormatError: `key.unsupported`, `key.weak`.
    """
    kind = key_kind(key)
    return tuple(row for row in ALGORITHMS.values() if row.key == kind)


def make_verifiers(key: CertificatePublicKeyTypes, *, pss_only: bool = False) -> Mapping[str, Verify]:
    """For each algorithm that the key can have, a function (signature, data) that raises `InvalidSignature`.

    Args:
        key: the public key.
        pss_only: its certificate restricts it to RSASSA-PSS (RFC 4055 section 1.2), which none of the algorithms is.

    Raises:
        FormatError: `key.unsupported`, `key.weak`.
    """
    if pss_only:
        raise FormatError(
            "key.unsupported", "the certificate allows its RSA key only PSS signatures, which are not made here"
        )
    return {row.name: _verifier(key, row) for row in algorithms_for(key)}


def _verifier(key: CertificatePublicKeyTypes, row: Algorithm) -> Verify:
    if isinstance(key, rsa.RSAPublicKey):
        verify_rsa, rsa_hash = key.verify, row.hash
        return lambda signature, data: verify_rsa(signature, data, _PKCS1, rsa_hash)
    if isinstance(key, ec.EllipticCurvePublicKey):
        verify_ec, ecdsa = key.verify, ec.ECDSA(row.hash)
        return lambda signature, data: verify_ec(signature, data, ecdsa)
    raise FormatError("key.unsupported", f"no algorithm here verifies with a {type(key).__name__}")


def verify_signature(verifiers: Mapping[str, Verify], algorithm: str, signature: bytes, data: bytes) -> None:
    """Check one signature with the algorithm that the message names, if the key has it.

    Raises:
        SignatureRejected: `signature.algorithm`, `signature.invalid`.
    """
    verify = verifiers.get(algorithm)
    if verify is None:
        raise SignatureRejected(
            "signature.algorithm",
            f"the certificate's key signs with {' or '.join(verifiers)}, the Signature header names {algorithm[:40]!r}",
        )
    try:
        verify(signature, data)
    except InvalidSignature as e:
        raise SignatureRejected(
            "signature.invalid", "the signature does not fit the signing string and the certificate's key"
        ) from e


Sign = Callable[[bytes], bytes]


def make_sign(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, algorithm: Algorithm) -> Sign:
    """A function that signs data with a private key: PKCS#1 v1.5 for RSA, DER for ECDSA.

    Raises:
        FormatError: `key.unsupported`, `key.weak`; `signature.algorithm` when the key cannot have this algorithm.
    """
    if key_kind(key) != algorithm.key:
        raise FormatError("signature.algorithm", f"a {key_kind(key)} key cannot sign with {algorithm.name}")
    if isinstance(key, rsa.RSAPrivateKey):
        sign_rsa, rsa_hash = key.sign, algorithm.hash
        return lambda data: sign_rsa(data, _PKCS1, rsa_hash)
    sign_ec, ecdsa = key.sign, ec.ECDSA(algorithm.hash)
    return lambda data: sign_ec(data, ecdsa)
