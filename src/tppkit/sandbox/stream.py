"""An answer that is sent row by row, within a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from typing import Any, Self

from tppkit.errors import TransportError
from tppkit.sandbox.connection import wait_for_disconnect
from tppkit.web.sources import Receive

_LOGGER = logging.getLogger("tppkit.sandbox.host")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Stream:
    """A streamed answer whose first chunk has been read.

    Args:
        first: the first chunk.
        chunks: the following chunks.
        deadline: loop time at which the connection to a client that has not read everything is closed.
    """

    def __init__(self, first: bytes, chunks: AsyncGenerator[bytes, None], deadline: float) -> None:
        self._first = first
        self._chunks = chunks
        self._deadline = deadline

    @classmethod
    async def open(cls, chunks: AsyncGenerator[bytes, None], *, deadline_s: float) -> Self:
        """Read the first chunk, so that an error before it can be answered with a refusal."""
        deadline = asyncio.get_running_loop().time() + deadline_s
        return cls(await anext(chunks, b""), chunks, deadline)

    async def send(self, receive: Receive, send: Send) -> None:
        """Send all chunks after `http.response.start`. Without the last event the server closes the connection."""
        disconnected = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            async with aclosing(self._chunks), asyncio.timeout_at(self._deadline):
                await send(_body(self._first, more=True))
                async for chunk in self._chunks:
                    if disconnected.done():
                        return
                    await send(_body(chunk, more=True))
                await send(_body(b"", more=False))
        except TimeoutError:
            _LOGGER.warning("  a report was cut off: the client did not read it in time")
        except TransportError as e:
            _LOGGER.warning("  a report was cut off: %s", e)
        finally:
            disconnected.cancel()


def _body(chunk: bytes, *, more: bool) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": chunk, "more_body": more}
