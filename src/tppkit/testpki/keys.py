"""Keys and serial numbers of a test PKI: random, or the same again from a seed."""

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

from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki.seeded_rsa import PUBLIC_EXPONENT, make_rsa_key

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_CURVES: Mapping[str, tuple[ec.EllipticCurve, int]] = MappingProxyType(
    {
        # Group orders: NIST SP 800-186 section 3.2.1.
        "p256": (ec.SECP256R1(), 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
        "p384": (
            ec.SECP384R1(),
            0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
        ),
    }
)
_RSA_BITS: Mapping[str, int] = MappingProxyType({"rsa2048": 2048, "rsa3072": 3072, "rsa4096": 4096})

KEY_KINDS = (*_CURVES, *_RSA_BITS)
SEAL_KEY_KINDS = (
    *KEY_KINDS,
    "ed25519",
)  # TLS with QWACs, and path validation of authorities, know no Ed25519 in practice


class KeySource:
    """Makes the keys and serial numbers of one PKI.

    Args:
        kind: kind of every key, one of `KEY_KINDS`.
        seed: the same seed gives the same keys and serials again, by label; None takes the machine's randomness. Seeded
            keys are known to everybody who knows the seed: for tests only. Seeded RSA keys take a third of a second (2048
            bits) to three seconds (4096 bits) each.

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
        """A new private key; with a seed, the one that belongs to the label.

        Args:
            label: whose key it is.
            kind: one of `SEAL_KEY_KINDS`; the PKI's own by default.

        Raises:
            ConfigurationError: `pki.key-kind`.
        """
        kind = require_kind(kind or self.kind, SEAL_KEY_KINDS)
        prepared = self._prepared.pop(label, None) if kind == self.kind else None
        if prepared is not None:
            return prepared
        if kind in _RSA_BITS:
            return self._make_rsa_key(_RSA_BITS[kind], f"key {kind} {label}")
        if kind == "ed25519":
            return ed25519.Ed25519PrivateKey.from_private_bytes(self.random_bytes(f"key {kind} {label}", 32))
        curve, order = _CURVES[kind]
        if self._seed is None:
            return ec.generate_private_key(curve)
        number = int.from_bytes(self.random_bytes(f"key {kind} {label}", 64), "big")
        return ec.derive_private_key(1 + number % (order - 1), curve)

    def _make_rsa_key(self, bits: int, label: str) -> rsa.RSAPrivateKey:
        if self._seed is None:
            return rsa.generate_private_key(PUBLIC_EXPONENT, bits)
        return make_rsa_key(bits, self.random_bytes(label, bits // 8))

    def make_serial(self, label: str) -> int:
        """A positive serial number of 127 bits; with a seed, the one that belongs to the label."""
        return (int.from_bytes(self.random_bytes(f"serial {label}", 16), "big") >> 1) | 1 << 126

    def random_bytes(self, label: str, size: int) -> bytes:
        """Bytes from the machine; with a seed, those that belong to the label."""
        if self._seed is None:
            return secrets.token_bytes(size)
        return hashlib.shake_256(f"tppkit test pki\0{self._seed}\0{label}".encode()).digest(size)


def public_key_der(key: PrivateKey) -> bytes:
    """DER of the key's SubjectPublicKeyInfo."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def require_kind(kind: str, kinds: Sequence[str]) -> str:
    """The kind, when it is one of `kinds`.

    Raises:
        ConfigurationError: `pki.key-kind`.
    """
    if kind not in kinds:
        raise ConfigurationError("pki.key-kind", f"the key kind {kind!r} is not one of {', '.join(kinds)}")
    return kind


def load_key(data: bytes) -> PrivateKey:
    """An unencrypted private key of a test PKI, in PEM.

    Raises:
        FormatError: `pem.malformed`.
    """
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        raise FormatError("pem.malformed", "this is no private key in unencrypted PEM") from e
    if not isinstance(key, PrivateKey):
        raise FormatError("pem.malformed", f"a {type(key).__name__} is no key of a test PKI")
    return key


def kind_of_key(key: PrivateKey) -> str:
    """Which of `SEAL_KEY_KINDS` a key is; `p256` for a key that is none of them."""
    return kind_of_public_key(key.public_key()) or "p256"


def kind_of_public_key(key: CertificatePublicKeyTypes) -> str | None:
    """Which of `SEAL_KEY_KINDS` a public key is; None for a key that is none of them."""
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "ed25519"
    if isinstance(key, rsa.RSAPublicKey):
        kind = f"rsa{key.key_size}"
        return kind if kind in _RSA_BITS and key.public_numbers().e >= PUBLIC_EXPONENT else None
    if isinstance(key, ec.EllipticCurvePublicKey):
        return next((kind for kind, (curve, _) in _CURVES.items() if curve.name == key.curve.name), None)
    return None
