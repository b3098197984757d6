"""uvicorn's HTTP/1.1 protocol with bounds: how long a request's head may be, how long a request may take to arrive.

It also hands over the target exactly as it stood on the wire: an ASGI scope has only its path and query, so a trailing `?`, a
fragment or an absolute form would be lost, and a seal over something else than what was sent would verify.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tppkit.web.sources import RAW_TARGET

_LOGGER = logging.getLogger("tppkit.sandbox.http")

MAX_HEAD_BYTES = 64 * 1024
REQUEST_TIMEOUT_S = 30.0


class BoundedHttp(HttpToolsProtocol):
    """One client's connection; a head beyond `MAX_HEAD_BYTES` or a request slower than `REQUEST_TIMEOUT_S` ends it."""

    _head_bytes = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._no_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count a head's bytes before they are parsed: the parser itself would gather an endless header."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES + len(data):
                self._end("the request's head is too long")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._deadline is None:
            self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; trailers are ignored, because uvicorn would append them to the headers."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: put the raw target into the scope."""
        self._in_head = False
        extensions = cast("dict[str, Any]", self.scope.setdefault("extensions", {}))
        extensions[RAW_TARGET] = {"target": bytes(self.url)}
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._no_deadline()
        self._in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._end, "the request took too long to arrive")

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self, reason: str) -> None:
        self._no_deadline()
        peer = self.transport.get_extra_info("peername") or ("unknown", 0)
        _LOGGER.info("connection from %s port %s ended: %s", *peer[:2], reason)
        self.transport.abort()
