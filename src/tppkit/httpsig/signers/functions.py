"""A signer that calls functions of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit.errors import ConfigurationError
from tppkit.httpsig.signers.protocol import choose_algorithm


class CallableSigner:
    """Signs with functions of the caller, for example with a remote signing service.

        signer = CallableSigner(certificate.public_key, sign=lambda data: service.sign("seal-2026", data))

    Args:
        public_key: the key that verifies the signatures.
        sign: signs and blocks.
        sign_async: signs without blocking.
        algorithm: a name of `httpsig.algorithms.ALGORITHMS`; by default the key's usual one.

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
        """Return the signature of the caller's function.

        Raises:
            ConfigurationError: `signer.async-only`.
        """
        if self._sign is None:
            raise ConfigurationError("signer.async-only", "this signer has only sign_async; use the asynchronous call")
        return self._sign(data)

    async def sign_async(self, data: bytes) -> bytes:
        """Return the signature of the caller's asynchronous function.

        Raises:
            ConfigurationError: `signer.sync-only`, because a blocking function would stop all other tasks.
        """
        if self._sign_async is None:
            raise ConfigurationError(
                "signer.sync-only", "this signer blocks; pass sign_async, for example with asyncio.to_thread"
            )
        return await self._sign_async(data)
