"""What proves to a server who calls: a seal. The connection's certificate is the `Identity`'s."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tppkit._clock import utc_now
from tppkit.client.identity import Identity
from tppkit.client.sealing import Sealing
from tppkit.httpsig.components import parse_origin
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Auth, Endpoint


class SealCredentials:
    """Seals the requests of rows with `Auth.SEAL`; one X-Request-ID has one seal, as in `Sealing`.

    Args:
        identity: its present seal signs.
        origin: `https://host[:port]`.
        now: the present time, aware.

    Raises:
        ConfigurationError: `seal.other-origin`.
    """

    def __init__(self, identity: Identity, *, origin: str, now: Callable[[], datetime] = utc_now) -> None:
        self._sealing = Sealing(identity, origin=parse_origin(origin), now=now)

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The sealed message.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-reused`, `seal.request-id-in-use`.
            ConfigurationError, TransportError: of the signer.
        """
        if row.auth is not Auth.SEAL:
            return message
        return message.with_headers(*self._sealing.seal(message, give_id=_id_of(message)).headers)

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """As `authorize`, awaiting the signer."""
        if row.auth is not Auth.SEAL:
            return message
        return message.with_headers(*(await self._sealing.seal_async(message, give_id=_id_of(message))).headers)


def _id_of(message: Message) -> Callable[[str], str]:
    # A dialect whose seal covers another header for the id gets the same id there.
    return lambda _: message.values("x-request-id")[0]
