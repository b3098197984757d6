"""Signature algorithms by key: the key, not the message, decides which algorithms are allowed.

| name              | key          | signature                                          |
|-------------------|--------------|----------------------------------------------------|
| rsa-sha256        | RSA >= 2048  | RSASSA-PKCS1-v1_5, SHA-256                         |
| rsa-sha512        | RSA >= 2048  | RSASSA-PKCS1-v1_5, SHA-512                         |
| rsa-pss-sha256    | RSA >= 2048  | RSASSA-PSS, SHA-256, salt of 32 bytes              |
| rsa-pss-sha512    | RSA >= 2048  | RSASSA-PSS, SHA-512, salt of 64 bytes              |
| ecdsa-sha256      | EC P-256     | ECDSA, SHA-256, DER                                |
| ecdsa-sha384      | EC P-384     | ECDSA, SHA-384, DER                                |
| ecdsa-p256-sha512 | EC P-256     | ECDSA, SHA-512, DER; hs2019 with P-256             |
| ecdsa-p256-sha256 | EC P-256     | ECDSA, SHA-256, raw r and s, 32 bytes each         |
| ecdsa-p384-sha384 | EC P-384     | ECDSA, SHA-384, raw r and s, 48 bytes each         |
| ecdsa-p521-sha512 | EC P-521     | ECDSA, SHA-512, raw r and s, 66 bytes each; JWS    |
| ed25519           | Ed25519      | EdDSA, 64 bytes                                    |

Each signature format has its own names for them: `CAVAGE`, `RFC9421`, `JWS`. None has HMAC or SHA-1.
Source: the registry of draft-cavage-http-signatures-10 appendix E, RFC 9421 section 3.3, RFC 7518 section 3.1, RFC 8037
section 3.1, ETSI TS 119 312 (sizes).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature, encode_dss_signature

from tppkit.certificates.key_facts import STRONG_KEYS
from tppkit.errors import FormatError, SignatureRejected

MIN_RSA_BITS = STRONG_KEYS["rsa"]


class Scheme(Enum):
    """How a signature is computed and encoded."""

    PKCS1 = "RSASSA-PKCS1-v1_5"
    PSS = "RSASSA-PSS"
    ECDSA_DER = "ECDSA, DER"
    ECDSA_RAW = "ECDSA, r and s bare"
    ED25519 = "Ed25519"


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A signature algorithm.

    Attributes:
        name: unique in this project; equal to the `algorithm` parameter of draft-cavage if that has one.
        key: `rsa`, `P-256`, `P-384`, `P-521` or `ed25519`.
        scheme: how the signature is computed and encoded.
        hash: the hash of the signed bytes; for Ed25519 its internal SHA-512.
    """

    name: str
    key: str
    scheme: Scheme
    hash: hashes.HashAlgorithm


_SHA256, _SHA384, _SHA512 = hashes.SHA256(), hashes.SHA384(), hashes.SHA512()

# The first row of a key is its usual algorithm.
ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        row.name: row
        for row in (
            Algorithm("rsa-sha256", "rsa", Scheme.PKCS1, _SHA256),
            Algorithm("rsa-sha512", "rsa", Scheme.PKCS1, _SHA512),
            Algorithm("rsa-pss-sha256", "rsa", Scheme.PSS, _SHA256),
            Algorithm("rsa-pss-sha512", "rsa", Scheme.PSS, _SHA512),
            Algorithm("ecdsa-sha256", "P-256", Scheme.ECDSA_DER, _SHA256),
            Algorithm("ecdsa-sha384", "P-384", Scheme.ECDSA_DER, _SHA384),
            Algorithm("ecdsa-p256-sha512", "P-256", Scheme.ECDSA_DER, _SHA512),
            Algorithm("ecdsa-p256-sha256", "P-256", Scheme.ECDSA_RAW, _SHA256),
            Algorithm("ecdsa-p384-sha384", "P-384", Scheme.ECDSA_RAW, _SHA384),
            Algorithm("ecdsa-p521-sha512", "P-521", Scheme.ECDSA_RAW, _SHA512),
            Algorithm("ed25519", "ed25519", Scheme.ED25519, _SHA512),
        )
    }
)

Names = Mapping[str, Algorithm]


# The names of each format. `hs2019` is missing, because its meaning depends on the dialect.
CAVAGE: Names = MappingProxyType(
    {name: ALGORITHMS[name] for name in ("rsa-sha256", "rsa-sha512", "ecdsa-sha256", "ecdsa-sha384")}
)
#: The algorithms of RFC 9421, by the name in `alg`.
RFC9421: Names = MappingProxyType(
    {
        "rsa-v1_5-sha256": ALGORITHMS["rsa-sha256"],
        "rsa-pss-sha512": ALGORITHMS["rsa-pss-sha512"],
        "ecdsa-p256-sha256": ALGORITHMS["ecdsa-p256-sha256"],
        "ecdsa-p384-sha384": ALGORITHMS["ecdsa-p384-sha384"],
        "ed25519": ALGORITHMS["ed25519"],
    }
)
#: The algorithms of JSON Web Signatures, by the name in `alg`.
JWS: Names = MappingProxyType(
    {
        "PS256": ALGORITHMS["rsa-pss-sha256"],
        "PS512": ALGORITHMS["rsa-pss-sha512"],
        "RS256": ALGORITHMS["rsa-sha256"],
        "RS512": ALGORITHMS["rsa-sha512"],
        "ES256": ALGORITHMS["ecdsa-p256-sha256"],
        "ES384": ALGORITHMS["ecdsa-p384-sha384"],
        "ES512": ALGORITHMS["ecdsa-p521-sha512"],
        "Ed25519": ALGORITHMS["ed25519"],  # RFC 9864, instead of EdDSA
        "EdDSA": ALGORITHMS["ed25519"],
    }
)

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Verify = Callable[[bytes, bytes], None]
Sign = Callable[[bytes], bytes]

_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_PKCS1 = padding.PKCS1v15()
# RFC 8017 section 9.2, note 1: the prefix of the hash in a PKCS#1 signature.
_DIGEST_INFO = MappingProxyType(
    {
        "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
        "sha384": bytes.fromhex("3041300d060960864801650304020205000430"),
        "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
    }
)
# Hash with hashlib: its objects are created faster than those of `cryptography`.
_HASHED = MappingProxyType({"sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512})


def key_kind(key: object) -> str:
    """Return the table's name for a public or private key: `rsa`, `P-256`, `P-384`, `P-521`, `ed25519`.

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
        case ed25519.Ed25519PublicKey() | ed25519.Ed25519PrivateKey():
            return "ed25519"
        case _:
            name = getattr(getattr(key, "curve", None), "name", type(key).__name__)
            raise FormatError("key.unsupported", f"the key ({name}) is not supported; use P-256, P-384, Ed25519 or RSA")


def algorithms_for(key: object, *, names: Names = ALGORITHMS, pss_only: bool = False) -> Names:
    """Return the algorithms that a key can use, by the names of a format, the default first.

    Args:
        key: public or private.
        names: the names of the format; by default those of this project.
        pss_only: the key's certificate restricts it to RSASSA-PSS (RFC 4055 section 1.2).

    Raises:
        FormatError: `key.weak`; `key.unsupported`, also if the format has no algorithm for this key.
    """
    kind = key_kind(key)
    fitting = {
        name: row for name, row in names.items() if row.key == kind and not (pss_only and row.scheme is not Scheme.PSS)
    }
    if not fitting:
        only = "only PSS signatures of its RSA key" if pss_only else f"a key of the kind {kind}"
        raise FormatError("key.unsupported", f"none of {', '.join(names)} fits {only}")
    return MappingProxyType(fitting)


def make_verifiers(
    key: CertificatePublicKeyTypes, *, names: Names = CAVAGE, pss_only: bool = False
) -> Mapping[str, Verify]:
    """Return for each algorithm of the key a function (signature, data) that raises `InvalidSignature`.

        verify = make_verifiers(certificate.public_key)["rsa-sha256"]
        verify(signature, data)

    Args:
        key: the public key.
        names: the names of the format.
        pss_only: the key's certificate restricts it to RSASSA-PSS (RFC 4055 section 1.2).

    Raises:
        FormatError: `key.unsupported`, `key.weak`.
    """
    rows = algorithms_for(key, names=names, pss_only=pss_only)
    return {name: _verifier(key, row) for name, row in rows.items()}


def _verifier(key: CertificatePublicKeyTypes, row: Algorithm) -> Verify:
    hashed, prehashed = _HASHED[row.hash.name], Prehashed(row.hash)
    if isinstance(key, rsa.RSAPublicKey):
        if row.scheme is Scheme.PKCS1:
            return _pkcs1_verifier(key, _DIGEST_INFO[row.hash.name], hashed)
        verify_rsa, pad = key.verify, _padding(row)
        return lambda signature, data: verify_rsa(signature, hashed(data).digest(), pad, prehashed)
    if isinstance(key, ec.EllipticCurvePublicKey):
        verify_ec, ecdsa = key.verify, ec.ECDSA(prehashed)
        if row.scheme is Scheme.ECDSA_DER:
            return lambda signature, data: verify_ec(signature, hashed(data).digest(), ecdsa)
        size = (key.key_size + 7) // 8
        return lambda signature, data: verify_ec(der_from_raw(signature, size=size), hashed(data).digest(), ecdsa)
    return cast("ed25519.Ed25519PublicKey", key).verify  # `algorithms_for` refuses other keys


def _pkcs1_verifier(key: rsa.RSAPublicKey, digest_info: bytes, hashed: Callable[[bytes], hashlib._Hash]) -> Verify:
    # RFC 8017 section 8.2.2. Faster than `key.verify`, which looks up the hash by name each time. The length is checked because
    # `cryptography` also accepts a signature without its leading zeros.
    recover, size = key.recover_data_from_signature, (key.key_size + 7) // 8

    def verify(signature: bytes, data: bytes) -> None:
        if len(signature) != size or recover(signature, _PKCS1, None) != digest_info + hashed(data).digest():
            raise InvalidSignature

    return verify


def verify_signature(verifiers: Mapping[str, Verify], algorithm: str, signature: bytes, data: bytes) -> None:
    """Verify a signature with the algorithm that the message names, if the key can use it.

    Raises:
        SignatureRejected: `signature.algorithm`, `signature.invalid`.
    """
    verify = verifiers.get(algorithm)
    if verify is None:
        raise SignatureRejected(
            "signature.algorithm",
            f"the certificate's key is for {' or '.join(verifiers)}, but the signature names {algorithm[:40]!r}",
        )
    try:
        verify(signature, data)
    except InvalidSignature as e:
        raise SignatureRejected(
            "signature.invalid", "the signature does not fit the signing string and the certificate's key"
        ) from e


def make_sign(key: PrivateKey, algorithm: Algorithm) -> Sign:
    """Return a function that signs data with a private key.

    Raises:
        FormatError: `key.unsupported`, `key.weak`; `signature.algorithm`, the key cannot use this algorithm.
    """
    if key_kind(key) != algorithm.key:
        raise FormatError("signature.algorithm", f"a {key_kind(key)} key cannot sign with {algorithm.name}")
    hashed, prehashed = _HASHED[algorithm.hash.name], Prehashed(algorithm.hash)
    if isinstance(key, rsa.RSAPrivateKey):
        sign_rsa, pad = key.sign, _padding(algorithm)
        return lambda data: sign_rsa(hashed(data).digest(), pad, prehashed)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign
    sign_ec, ecdsa = key.sign, ec.ECDSA(prehashed)
    if algorithm.scheme is Scheme.ECDSA_DER:
        return lambda data: sign_ec(hashed(data).digest(), ecdsa)
    size = (key.key_size + 7) // 8
    return lambda data: raw_from_der(sign_ec(hashed(data).digest(), ecdsa), size=size)


def _padding(row: Algorithm) -> padding.AsymmetricPadding:
    if row.scheme is Scheme.PKCS1:
        return _PKCS1
    return padding.PSS(padding.MGF1(row.hash), padding.PSS.DIGEST_LENGTH)


def hash_data(data: bytes, algorithm: hashes.HashAlgorithm) -> bytes:
    """Hash data for devices and services that sign a hash."""
    return _HASHED[algorithm.name](data).digest()


def der_from_raw(signature: bytes, *, size: int) -> bytes:
    """Encode an ECDSA signature as DER, from r and s of `size` bytes each.

    Raises:
        InvalidSignature: it has another length.
    """
    if len(signature) != 2 * size:
        raise InvalidSignature
    return encode_dss_signature(int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big"))


def raw_from_der(signature: bytes, *, size: int) -> bytes:
    """Encode an ECDSA signature as r and s of `size` bytes each, from DER.

    Raises:
        ValueError: it is not DER of two numbers of that size.
    """
    r, s = decode_dss_signature(signature)
    try:
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")
    except OverflowError as e:
        raise ValueError(f"a number of the signature does not fit in {size} bytes") from e
