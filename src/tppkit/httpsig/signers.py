"""Who signs: a key in memory now; every other key store fits the same protocol."""

from __future__ import annotations

from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import Algorithm, algorithms_for, make_sign


class Signer(Protocol):
    """Signs bytes with one key and one algorithm."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of every signature."""

    @property
    def public_key(self) -> CertificatePublicKeyTypes:
        """The key that verifies them."""

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`: PKCS#1 v1.5 for RSA, DER for ECDSA."""


class KeySigner:
    """Signs with a private key in memory.

    Args:
        key: RSA of at least 2048 bits, EC P-256 or EC P-384.
        algorithm: a name of `httpsig.algorithms`; the key's usual one when absent.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """

    def __init__(self, key: PrivateKeyTypes, *, algorithm: str | None = None) -> None:
        rows = {row.name: row for row in algorithms_for(key)}
        name = algorithm or next(iter(rows))
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) or name not in rows:
            raise FormatError("signature.algorithm", f"this key signs with {' or '.join(rows)}, not with {name[:40]!r}")
        self.algorithm = rows[name]
        self.public_key: CertificatePublicKeyTypes = key.public_key()
        self.sign = make_sign(key, self.algorithm)


def load_private_key(pem: bytes, *, password: bytes | None = None) -> PrivateKeyTypes:
    """Read a private key from PEM (PKCS#8, PKCS#1 or SEC1).

    Raises:
        ConfigurationError: `key.unreadable`; the message holds nothing of the key.
    """
    try:
        return load_pem_private_key(pem, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as e:
        reason = (
            "it is encrypted and no password was given"
            if "not given" in str(e)
            else "it is damaged, or the password is wrong"
        )
        raise ConfigurationError("key.unreadable", f"the private key cannot be read: {reason}") from None
