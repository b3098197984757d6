"""What a fault can do with the connection of a request, which the ASGI messages of an answer cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from starlette.types import Receive

CONNECTION = "tppkit.connection"  # a scope extension: {"connection": a `Connection`}


class Connection(Protocol):
    """The connection of a request, as servers and transports of the sandbox offer it.

    Example:
        connection_of(scope["extensions"]).reset()
    """

    def reset(self) -> None:
        """Reset the connection; the client gets nothing of what was just sent."""

    def cut(self) -> None:
        """Close the connection after what was sent."""

    @property
    def is_open(self) -> bool:
        """Whether the client can still get an answer."""

    async def wait(self, seconds: float, receive: Receive) -> None:
        """Let real time pass for the client, at most as long as it stays connected."""


def connection_of(extensions: Mapping[str, Any]) -> Connection:
    """Return the connection to which a request's extensions belong."""
    connection: Connection = extensions[CONNECTION]["connection"]
    return connection


def is_lost(extensions: Mapping[str, Any]) -> bool:
    """Whether the client of a request is no longer connected; False for a server without such connections."""
    try:
        return CONNECTION in extensions and not connection_of(extensions).is_open
    except ReferenceError:  # the server has dropped the connection
        return True


async def wait_for_disconnect(receive: Receive) -> None:
    """Read what the client sends until it has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
