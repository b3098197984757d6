"""Keys and serial numbers of a test PKI, random or from a seed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tppkit._encoding import pem_fault
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.seeded_rsa import PUBLIC_EXPONENT, make_rsa_key

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_CURVES: Mapping[str, ec.EllipticCurve] = MappingProxyType({"p256": ec.SECP256R1(), "p384": ec.SECP384R1()})
_RSA_BITS: Mapping[str, int] = MappingProxyType({"rsa2048": 2048, "rsa3072": 3072, "rsa4096": 4096})

KEY_KINDS = (*_CURVES, *_RSA_BITS)
# In practice, TLS with QWACs and path validation of authorities do not support Ed25519.
SEAL_KEY_KINDS = (*KEY_KINDS, "ed25519")


class KeySource:
    """Makes the keys and serial numbers of one PKI.

    keys = KeySource("p256", seed=1)
    key, serial = keys.make_key("qwac"), keys.make_serial("qwac")

    Args:
        kind: Kind of every key, one of `KEY_KINDS`.
        seed: The same seed and label give the same key and serial number again. None uses the randomness of the machine. Anyone
            who knows the seed knows the keys. A seeded RSA key takes a third of a second (2048 bits) to three seconds (4096 bits).

    Raises:
        ConfigurationError: `pki.key-kind`.
    """

    def __init__(self, kind: str = "p256", *, seed: int | None = None) -> None:
        self.kind = require_kind(kind, KEY_KINDS)
        self._seed = seed
        self._prepared: dict[str, PrivateKey] = {}

    def prepare(self, labels: Iterable[str]) -> None:
        """Make these keys ahead, RSA keys in parallel: searching primes is nearly all the work of an RSA PKI."""
        if self.kind in _RSA_BITS and self._seed is None:
            names = list(labels)
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                self._prepared.update(zip(names, threads.map(self.make_key, names), strict=True))

    def make_key(self, label: str, *, kind: str | None = None) -> PrivateKey:
        """Make a private key; with a seed, the one that belongs to the label.

        Args:
            label: The name of the key.
            kind: One of `SEAL_KEY_KINDS`; that of the PKI by default.

        Raises:
            ConfigurationError: `pki.key-kind`.
        """
        kind = require_kind(kind or self.kind, SEAL_KEY_KINDS)
        prepared = self._prepared.pop(label, None) if kind == self.kind else None
        if prepared is not None:
            return prepared
        if kind in _RSA_BITS:
            bits = _RSA_BITS[kind]
            if self._seed is None:
                return rsa.generate_private_key(PUBLIC_EXPONENT, bits)
            return make_rsa_key(bits, self.random_bytes(f"key {kind} {label}", bits // 8))
        if kind == "ed25519":
            return ed25519.Ed25519PrivateKey.from_private_bytes(self.random_bytes(f"key {kind} {label}", 32))
        curve = _CURVES[kind]
        if self._seed is None:
            return ec.generate_private_key(curve)
        number = int.from_bytes(self.random_bytes(f"key {kind} {label}", 64), "big")
        return ec.derive_private_key(1 + number % (curve.group_order - 1), curve)

    def make_serial(self, label: str) -> int:
        """Make a positive serial number of 127 bits; with a seed, the one that belongs to the label."""
        return (int.from_bytes(self.random_bytes(f"serial {label}", 16), "big") >> 1) | 1 << 126

    def random_bytes(self, label: str, size: int) -> bytes:
        """Return random bytes; with a seed, those that belong to the label."""
        if self._seed is None:
            return secrets.token_bytes(size)
        return hashlib.shake_256(f"tppkit test pki\0{self._seed}\0{label}".encode()).digest(size)


def public_key_der(key: PrivateKey) -> bytes:
    """Return DER of the key's SubjectPublicKeyInfo."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def require_kind(kind: str, kinds: Sequence[str]) -> str:
    """Return the kind, if it is one of `kinds`.

    Raises:
        ConfigurationError: `pki.key-kind`.
    """
    if kind not in kinds:
        raise ConfigurationError("pki.key-kind", f"the key kind {kind!r} is not one of {', '.join(kinds)}")
    return kind


@without_locals
def load_key(data: bytes) -> PrivateKey:
    """Load an unencrypted private key from PEM.

    Raises:
        FormatError: `pem.malformed`.
    """
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        fault = pem_fault(data) or "this is not a private key in unencrypted PEM"
        raise FormatError("pem.malformed", fault) from e
    if not isinstance(key, PrivateKey):
        raise FormatError("pem.malformed", f"a test PKI has no key of the type {type(key).__name__}")
    return key


def kind_of_key(key: PrivateKey) -> str:
    """Return which of `SEAL_KEY_KINDS` a key is; `p256` if it is none of them."""
    return kind_of_public_key(key.public_key()) or "p256"


def kind_of_public_key(key: CertificatePublicKeyTypes) -> str | None:
    """Return which of `SEAL_KEY_KINDS` a public key is, or None."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "ed25519"
    if isinstance(key, rsa.RSAPublicKey):
        kind = f"rsa{key.key_size}"
        return kind if kind in _RSA_BITS and key.public_numbers().e >= PUBLIC_EXPONENT else None
    if isinstance(key, ec.EllipticCurvePublicKey):
        return next((kind for kind, curve in _CURVES.items() if curve.name == key.curve.name), None)
    return None
