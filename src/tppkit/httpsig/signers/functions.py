"""A signer made of the caller's functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.errors import ConfigurationError
from tppkit.httpsig.signers.protocol import choose_algorithm


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
