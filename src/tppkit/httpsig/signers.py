"""Who signs: a key in memory, a device, a service, a function of the caller's. All fit one protocol.

A signer knows its public key and its one algorithm. `sign` blocks; `sign_async` does not hold up an event loop. A signer that
has only one of the two says so with `signer.sync-only` or `signer.async-only`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, algorithms_for, make_sign


class Signer(Protocol):
    """Signs bytes with one key and one algorithm."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of every signature."""

    @property
    def public_key(self) -> CertificatePublicKeyTypes:
        """The key that verifies them."""

    def sign(self, data: bytes) -> bytes:
        """The signature over `data`, in the form of the algorithm's scheme."""

    async def sign_async(self, data: bytes) -> bytes:
        """The same without holding up the event loop."""


class KeySigner:
    """Signs with a private key in memory.

    Args:
        key: RSA of at least 2048 bits, EC P-256 or P-384, or Ed25519.
        algorithm: a name of `httpsig.ALGORITHMS`; the key's usual one when absent.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """

    def __init__(self, key: PrivateKeyTypes, *, algorithm: str | None = None) -> None:
        self.algorithm = choose_algorithm(key, algorithm)
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
            raise FormatError("key.unsupported", f"a {type(key).__name__} does not sign")
        self.public_key: CertificatePublicKeyTypes = key.public_key()
        self.sign = make_sign(key, self.algorithm)

    async def sign_async(self, data: bytes) -> bytes:
        """At once: a signature by a key in memory takes less time than a change of threads."""
        return self.sign(data)


class CallableSigner:
    """Signs through functions of the caller's, for example one that asks a signing service.

    Args:
        public_key: the key that verifies the signatures.
        sign: signs and blocks.
        sign_async: signs without blocking.
        algorithm: a name of `httpsig.ALGORITHMS`; the key's usual one when absent.

    Raises:
        ConfigurationError: `signer.no-function`, neither function is given.
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """

    def __init__(
        self,
        public_key: CertificatePublicKeyTypes,
        *,
        sign: Callable[[bytes], bytes] | None = None,
        sign_async: Callable[[bytes], Awaitable[bytes]] | None = None,
        algorithm: str | None = None,
    ) -> None:
        if sign is None and sign_async is None:
            raise ConfigurationError("signer.no-function", "a signer needs sign, sign_async or both")
        self.algorithm = choose_algorithm(public_key, algorithm)
        self.public_key = public_key
        self._sign = sign
        self._sign_async = sign_async

    def sign(self, data: bytes) -> bytes:
        """The signature that the caller's function gives.

        Raises:
            ConfigurationError: `signer.async-only`.
        """
        if self._sign is None:
            raise ConfigurationError(
                "signer.async-only", "this signer signs only with await; use the asynchronous call"
            )
        return self._sign(data)

    async def sign_async(self, data: bytes) -> bytes:
        """The signature that the caller's asynchronous function gives.

        Raises:
            ConfigurationError: `signer.sync-only`; a function that blocks would hold up every other task.
        """
        if self._sign_async is None:
            raise ConfigurationError(
                "signer.sync-only", "this signer blocks; give sign_async, for example through asyncio.to_thread"
            )
        return await self._sign_async(data)


def choose_algorithm(key: object, name: str | None) -> Algorithm:
    """The algorithm of this name, or the usual one of the key.

    Args:
        key: public or private.
        name: a name of `httpsig.ALGORITHMS`.

    Raises:
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
    """
    rows = algorithms_for(key, names=ALGORITHMS)
    if name is not None and name not in rows:
        raise FormatError("signature.algorithm", f"this key signs with {' or '.join(rows)}, not with {name[:40]!r}")
    return rows[name] if name is not None else next(iter(rows.values()))


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
