"""What a signature reveals about the bytes that were signed, given the public key.

A PKCS#1 signature contains the hash that was signed: the key, the scheme and the hash are known before anything is guessed, and each
guess costs one hash. Every other signature reveals nothing: each guess costs a verification.
Source: RFC 8017 sections 8.2.2 and 9.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tppkit.certificates import EidasCertificate
from tppkit.httpsig.algorithms import Algorithm, Scheme, der_from_raw
from tppkit.seals.diagnose.encodings import Decoded, decode_any

# By the name in a digest header, the likeliest first.
HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType({
    "SHA-256": hashes.SHA256(), "SHA-512": hashes.SHA512(), "SHA-384": hashes.SHA384(),
    "SHA-1": hashes.SHA1(), "MD5": hashes.MD5(),  # noqa: S303  # only to name the mistake
})  # fmt: skip
_NOT_BY_KEY = (InvalidSignature, ValueError, UnsupportedAlgorithm)


def digest_by(name: str, data: bytes) -> bytes:
    """The hash of data by a name of `HASHES`."""
    return hashlib.new(HASHES[name].name, data, usedforsecurity=False).digest()


class Made(NamedTuple):
    """How a signature was made, as far as it is known.

    Attributes:
        scheme: PKCS#1, PSS, ECDSA (with its encoding) or Ed25519.
        hash: name of the hash; empty if it is not known yet.
        recovered: the hash that a PKCS#1 signature contains; empty for other schemes.
        odd_salt: the PSS salt is not as long as the hash.
        certain: the padding alone proves that this key made the signature.
    """

    scheme: Scheme
    hash: str
    recovered: bytes = b""
    odd_salt: bool = False
    certain: bool = False

    def __str__(self) -> str:
        return f"{_SCHEMES[self.scheme]}{f', {self.hash}' if self.hash else ''}"


_SCHEMES: Mapping[Scheme, str] = MappingProxyType({
    Scheme.PKCS1: "PKCS#1", Scheme.PSS: "PSS", Scheme.ECDSA_DER: "ECDSA, DER", Scheme.ECDSA_RAW: "ECDSA, r and s bare",
    Scheme.ED25519: "Ed25519",
})  # fmt: skip


# How a signature was made if it is over these bytes, by one of these hashes.
_Check = Callable[[bytes, Sequence[str]], Made | None]


class Judge(NamedTuple):
    """One key and one reading of a signature, asked about each guess.

    Attributes:
        certificate: whose key it is.
        written: how the signature is encoded.
        made: what is known before a guess fits.
        due: the algorithm that the key should sign with; None if that is not known.
        cost: of one answer, in units of a hash.
        check: compares with a guess.
    """

    certificate: EidasCertificate
    written: Decoded
    made: Made
    due: Algorithm | None
    cost: int
    check: _Check

    def match(self, data: bytes, *, every_hash: bool) -> Made | None:
        """How the signature was made if it is over these bytes; by the usual hash unless all are asked for."""
        usual = "SHA-256" if self.due is None else _hash_of(self.due)
        return self.check(data, tuple(dict.fromkeys((usual, *HASHES))) if every_hash else (usual,))


def make_judges(
    text: str, certificates: Sequence[EidasCertificate], due: Callable[[EidasCertificate], Algorithm | None]
) -> tuple[Judge, ...]:
    """Each way to read a signature, under each key that can have made it; only the one that certainly did, if there is one.

    Args:
        text: the signature as written.
        certificates: whose keys may have made it, the likeliest first.
        due: the algorithm that the key of a certificate should sign with.
    """
    found: list[Judge] = []
    for written in decode_any(text):
        for certificate in certificates:
            for made, cost, check in _checks(certificate.public_key, written.raw):
                judge = Judge(certificate, written, made, due(certificate), cost, check)
                if made.certain:
                    return (judge,)
                found.append(judge)
    return tuple(found)


def _checks(key: object, signature: bytes) -> Iterator[tuple[Made, int, _Check]]:
    match key:
        case rsa.RSAPublicKey() if len(signature) == (key.key_size + 7) // 8:
            yield from _rsa_checks(key, signature)
        case ec.EllipticCurvePublicKey():
            yield from _ec_checks(key, signature)
        case ed25519.Ed25519PublicKey() if len(signature) == 64:
            made = Made(Scheme.ED25519, "SHA-512")
            yield made, 40, lambda data, names: made if _holds(key.verify, signature, data) else None


def _holds(verify: Callable[..., None], *values: object) -> bool:
    try:
        verify(*values)
    except _NOT_BY_KEY:
        return False
    return True


def _rsa_checks(key: rsa.RSAPublicKey, signature: bytes) -> Iterator[tuple[Made, int, _Check]]:
    for name, algorithm in HASHES.items():
        with suppress(*_NOT_BY_KEY):
            recovered = key.recover_data_from_signature(signature, padding.PKCS1v15(), algorithm)
            made = Made(Scheme.PKCS1, name, recovered, certain=_proves(key, key.key_size - 8 * len(recovered)))
            yield made, 1, partial(_check_pkcs1, made)
            return
    cost = key.key_size**2 * key.public_numbers().e.bit_length() // 2_800_000 + 1  # 25 for 2,048 bits and 65537
    yield Made(Scheme.PSS, ""), cost, partial(_check_pss, key, signature)


def _check_pkcs1(made: Made, data: bytes, names: Sequence[str]) -> Made | None:
    return made if digest_by(made.hash, data) == made.recovered else None


def _proves(key: rsa.RSAPublicKey, fixed: int) -> bool:
    """Whether so many fixed bits of padding prove that the private key made the block.

    Anyone can choose as many bits as the modulus has, divided by the exponent (a third with e = 3); 64 more rule out chance.
    """
    return (fixed - 64) * key.public_numbers().e >= key.key_size


def _check_pss(key: rsa.RSAPublicKey, signature: bytes, data: bytes, names: Sequence[str]) -> Made | None:
    for name in names:
        algorithm = HASHES[name]
        any_salt, usual = [
            padding.PSS(padding.MGF1(algorithm), length) for length in (padding.PSS.AUTO, padding.PSS.DIGEST_LENGTH)
        ]
        if _holds(key.verify, signature, data, any_salt, algorithm):
            return Made(Scheme.PSS, name, odd_salt=not _holds(key.verify, signature, data, usual, algorithm))
    return None


def _ec_checks(key: ec.EllipticCurvePublicKey, signature: bytes) -> Iterator[tuple[Made, int, _Check]]:
    size = (key.key_size + 7) // 8
    forms = [(Scheme.ECDSA_DER, signature)]
    with suppress(InvalidSignature):
        forms.append((Scheme.ECDSA_RAW, der_from_raw(signature, size=size)))
    for scheme, der in forms:
        with suppress(ValueError):
            if all(0 < number.bit_length() <= 8 * size for number in decode_dss_signature(der)):
                yield Made(scheme, ""), 40, partial(_check_ec, key, der, scheme)


def _check_ec(
    key: ec.EllipticCurvePublicKey, der: bytes, scheme: Scheme, data: bytes, names: Sequence[str]
) -> Made | None:
    fitting = (name for name in names if _holds(key.verify, der, data, ec.ECDSA(HASHES[name])))
    return next((Made(scheme, name) for name in fitting), None)


def _hash_of(algorithm: Algorithm) -> str:
    return algorithm.hash.name.upper().replace("SHA", "SHA-")


def findings_of_making(made: Made, due: Algorithm | None) -> Iterator[tuple[str, str]]:
    """The mistakes in how a signature was made, by name, each with its evidence.

    Args:
        made: how it was made.
        due: the algorithm that it should have been made with; None if that is not known.
    """
    if due is not None and made.scheme is not due.scheme:
        yield ("signature-scheme", f"it verifies as {made}; due is {_SCHEMES[due.scheme]}")
    elif made.odd_salt:
        yield ("pss-salt-length", f"{made.hash} has {HASHES[made.hash].digest_size} bytes")
    wanted = "" if due is None else _hash_of(due)
    if made.scheme is Scheme.ED25519:
        return
    if made.hash in ("SHA-1", "MD5"):
        yield ("signature-hash-weak", f"it is {made.hash}")
    elif wanted and made.hash != wanted:
        yield ("signature-hash", f"it is {made.hash}, due is {wanted}")
