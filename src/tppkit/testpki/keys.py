"""Keys and serial numbers of a test PKI: random, or the same again from a seed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tppkit.errors import ConfigurationError

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

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


class KeySource:
    """Makes the keys and serial numbers of one PKI.

    Args:
        kind: one of `KEY_KINDS`.
        seed: the same seed gives the same keys and serials again, by label; None takes the machine's randomness. Seeded
            keys are known to everybody who knows the seed: for tests only.

    Raises:
        ConfigurationError: `pki.key-kind`; `pki.seeded-rsa`, RSA keys cannot be made from a seed.
    """

    def __init__(self, kind: str = "p256", *, seed: int | None = None) -> None:
        if kind not in KEY_KINDS:
            raise ConfigurationError("pki.key-kind", f"the key kind {kind!r} is not one of {', '.join(KEY_KINDS)}")
        if seed is not None and kind in _RSA_BITS:
            raise ConfigurationError(
                "pki.seeded-rsa", f"{kind} keys cannot be made from a seed, only {' and '.join(_CURVES)}"
            )
        self.kind = kind
        self._seed = seed

    def make_key(self, label: str) -> PrivateKey:
        """A new private key; with a seed, the one that belongs to the label."""
        if self.kind in _RSA_BITS:
            return rsa.generate_private_key(65537, _RSA_BITS[self.kind])
        curve, order = _CURVES[self.kind]
        if self._seed is None:
            return ec.generate_private_key(curve)
        return ec.derive_private_key(
            1 + int.from_bytes(self._derive(f"key {self.kind} {label}", 64), "big") % (order - 1), curve
        )

    def make_serial(self, label: str) -> int:
        """A positive serial number of 127 bits; with a seed, the one that belongs to the label."""
        raw = secrets.token_bytes(16) if self._seed is None else self._derive(f"serial {label}", 16)
        return (int.from_bytes(raw, "big") >> 1) | 1 << 126

    def _derive(self, label: str, size: int) -> bytes:
        return hashlib.shake_256(f"tppkit test pki\0{self._seed}\0{label}".encode()).digest(size)
