"""What proves to a server who calls: a seal or a key. The connection's certificate is the `Identity`'s."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import SecretStr

from tppkit._clock import utc_now
from tppkit._encoding import encode_base64
from tppkit.client.identity import Identity
from tppkit.client.sealing import Sealing
from tppkit.errors import ConfigurationError
from tppkit.httpsig.components import parse_origin
from tppkit.httpsig.message import Message
from tppkit.protocol.endpoint import Auth, Endpoint

_KEY = re.compile(r"[!-9;-~]+")


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


class ApiKeyCredentials:
    """Sends a key alone in the Authorization header of rows with `Auth.API_KEY`.

    Args:
        key: the key; its representation is hidden.

    Raises:
        ConfigurationError: `credentials.malformed`.

    Example:
        Calls(LEGACY, base_url, credentials=ApiKeyCredentials(SecretStr(os.environ["API_KEY"])))
    """

    _auth = Auth.API_KEY

    def __init__(self, key: SecretStr | str) -> None:
        text = key.get_secret_value() if isinstance(key, SecretStr) else key
        if not _KEY.fullmatch(text):
            raise ConfigurationError(
                "credentials.malformed", "the key is not printable ASCII without spaces and colons"
            )
        self._key = SecretStr(text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key!r})"

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message with the key."""
        if row.auth is not self._auth:
            return message
        return message.with_headers(("Authorization", self._proof(self._key.get_secret_value())))

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message with the key."""
        return self.authorize(row, message)

    def _proof(self, key: str) -> str:
        return key


class BasicCredentials(ApiKeyCredentials):
    """Sends a key as the user name of HTTP Basic, with an empty password, in rows with `Auth.BASIC`.

    Arguments and errors are those of `ApiKeyCredentials`. Source: RFC 7617 section 2.

    Example:
        Calls(GATEWAY, base_url, credentials=BasicCredentials(SecretStr(os.environ["API_KEY"])))
    """

    _auth = Auth.BASIC

    def _proof(self, key: str) -> str:
        return f"Basic {encode_base64(f'{key}:'.encode())}"
