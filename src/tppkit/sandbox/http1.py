"""uvicorn's HTTP/1.1 protocol with limits: length of a head, duration of a request, pipelined requests, and connections.

It also passes the target exactly as on the wire. An ASGI scope has only path and query, so a trailing `?` or a fragment would be lost,
and a seal over another target than the sent one would verify. Of a target in absolute form, the application gets path and query, and the
authority as Host (RFC 9112 section 3.2.2).
"""

from __future__ import annotations

import asyncio
import logging
import re
import resource
import socket
import struct
import weakref
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import Any, ClassVar, Protocol, cast

from starlette.types import Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tppkit._text import printable
from tppkit.sandbox.connection import CONNECTION, wait_for_disconnect
from tppkit.web.sources import RAW_TARGET

_LOGGER = logging.getLogger("tppkit.sandbox.http")

MAX_HEAD_BYTES = 64 * 1024
REQUEST_TIMEOUT_S = 30.0
MAX_PIPELINED = 32  # requests that wait for the answer to an earlier one
MAX_CONNECTIONS = 1024  # of all ports
# The parser is given GET for any other method: it rejects unknown ones before it has read a header, so no host could answer them.
_PARSED = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT"})
# RFC 9110 section 9.1, before a target
_METHOD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (?=/|(?i:https?://))")
_REST_BYTES = len("  HTTP/1.1\r\n\r\n")  # of a head, without method, target and headers
_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(?=[/?#]|\Z)", re.IGNORECASE)  # no userinfo
_OTHER_FILES = 128  # that the process keeps open: databases, archive, deliveries, listening sockets


def connection_limit() -> int:
    """Return the limit of connections: half of the process's files. Those that are just accepted or being closed are not counted."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files < 0 else max(8, min(MAX_CONNECTIONS, (files - _OTHER_FILES) // 2))


class Connection(Protocol):
    """A connection that may be closed in favour of a newer one."""

    port: int  # to which the client has connected

    @property
    def idle_since(self) -> float | None:
        """Loop time since which the server waits for the client, None while the client waits for the server."""

    def end(self, reason: str) -> None:
        """Close the connection at once."""


def make_room(connections: set[Connection], limit: int) -> bool:
    """At the limit, close an idle connection: of those of the most crowded port, the one that has been idle the longest.

    Returns:
        False if none is idle.
    """
    if len(connections) < limit:
        return True
    idle = {each: since for each in connections if (since := each.idle_since) is not None}
    if not idle:
        return False
    crowd = Counter(each.port for each in connections)
    longest = min(idle, key=lambda each: (-crowd[each.port], idle[each]))
    connections.discard(longest)  # the loop removes it later; until then it must not be counted or chosen again
    longest.end("closed in favour of a newer connection")
    return True


class BoundedHttp(HttpToolsProtocol):
    """One client's connection, which is closed if it exceeds a limit of this module.

    Attributes:
        max_connections: limit of open connections of the servers that run together; a further one replaces an idle one.
    """

    max_connections: ClassVar[int] = connection_limit()
    _head_bytes = 0
    _in_head = True
    _has_begun = False  # the parser is inside a request
    _method = ""  # the client's method, if the parser was given GET instead
    _reason = ""
    _status = HTTPStatus.BAD_REQUEST  # of the answer to a request that is not accepted
    _active_at = 0.0
    _is_stopping = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for the first request."""
        room = make_room(cast("set[Connection]", self.connections), self.max_connections)
        super().connection_made(transport)
        self.port = transport.get_extra_info("sockname")[1]
        self._active_at = self.loop.time()
        self._expect_request()
        if not room:
            self.end("there are too many connections")

    @property
    def idle_since(self) -> float | None:
        """See `Connection`. A connection is also idle while the client sends a body or reads an answer.

        A client with pipelined requests counts as idle; otherwise a few such clients could block the port.
        """
        cycle = cast("RequestResponseCycle | None", self.cycle)
        busy = cycle is not None and not cycle.response_complete and not cycle.more_body
        return None if busy and not self.flow.write_paused and not self.pipeline else self._active_at

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the length of heads and trailers before they are parsed, because the parser buffers them without a limit."""
        self._active_at = self.loop.time()
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES + len(data):
            self.send_400_response(str(self._too_long()))
            return
        method = None if self._has_begun else _METHOD.match(data)
        if method is not None and method[1] not in _PARSED:
            self._method, data = method[1].decode(), b"GET" + data[method.end(1) :]
        super().data_received(data)

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body; the application limits its length."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        """Limit pipelined requests, and start the deadline of a request."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise self._fault("too many requests were sent before their answers were read")
        super().on_message_begin()
        self._has_begun = True
        if self._deadline is None:
            self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header. Trailers are ignored, because uvicorn would append them to the headers."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check length, version and Host when a head is complete, and put the raw target into the scope.

        Source: RFC 9112 section 3.2.
        """
        fields = sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        method = self._method or self.parser.get_method()
        if len(method) + len(self.url) + fields + _REST_BYTES > MAX_HEAD_BYTES:
            raise self._too_long()
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if version not in ("1.0", "1.1"):
            raise self._fault("the version is not HTTP/1.1; send the request as HTTP/1.1")
        if hosts > 1 or (version == "1.1" and not hosts):
            raise self._fault(f"the request has {hosts} Host headers; send exactly one")
        absolute = _ABSOLUTE.match(self.url)
        if absolute is not None:
            rest = self.url[absolute.end() :]
            self.url = rest if rest.startswith(b"/") else b"/" + rest
            # The host of the target applies, not that of the header.
            self.headers[:] = [(name, absolute[1] if name == b"host" else value) for name, value in self.headers]
        elif not self.url.startswith((b"/", b"*")):
            raise self._fault("the target is neither a path nor an http or https address without a user")
        self._in_head = False
        extensions = cast("dict[str, Any]", self.scope.setdefault("extensions", {}))
        extensions[RAW_TARGET] = {"target": bytes(self.url)}
        extensions[CONNECTION] = {"connection": weakref.proxy(self)}
        super().on_headers_complete()
        if self._method:  # the application runs in a later turn of the loop
            self.scope["method"], self._method = self._method, ""

    def on_message_complete(self) -> None:
        """Reset the limits when a request is complete."""
        self._cancel_deadline()
        self._in_head = True
        self._has_begun = False
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Record the time when an answer is complete."""
        self._active_at = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, unless the client would mistake it for the answer to an earlier request."""
        cycle, reason = cast("RequestResponseCycle | None", self.cycle), self._reason or msg
        earlier = cycle is not None and not cycle.response_complete and (not cycle.more_body or cycle.response_started)
        if earlier or self.pipeline:
            self.end(reason)
        else:
            _LOGGER.warning("a request was answered %s: %s", int(self._status), printable(reason))
            head = f"HTTP/1.1 {self._status} {self._status.phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(reason)}\r\n"
            self.transport.write(f"{head}Connection: close\r\n\r\n{reason}".encode("ascii"))
            self.transport.close()

    def _too_long(self) -> ValueError:
        self._status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        return self._fault(f"the head or trailer of the request is longer than {MAX_HEAD_BYTES} bytes")

    def _fault(self, reason: str) -> ValueError:
        """Return the error to raise, which stops the parser."""
        self._reason = reason
        return ValueError(reason)

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.end, "the request took too long to arrive")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def reset(self) -> None:
        """See `connection.Connection`."""
        linger = struct.pack("ii", 1, 0)  # closing then sends RST
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.end("reset by a requested fault")

    def cut(self) -> None:
        """See `connection.Connection`."""
        self.transport.close()

    @property
    def is_open(self) -> bool:
        """See `connection.Connection`."""
        return not self.transport.is_closing()

    async def wait(self, seconds: float, receive: Receive) -> None:
        """See `connection.Connection`."""
        if self._is_stopping:
            return
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(seconds):
                    await wait_for_disconnect(receive)
            except asyncio.CancelledError:  # the server stops, so the answer is sent at once
                self._is_stopping = True

    def end(self, reason: str) -> None:
        """Close the connection at once."""
        self._cancel_deadline()
        peer = self.transport.get_extra_info("peername") or ("unknown", 0)
        _LOGGER.info("connection from %s port %s ended: %s", *peer[:2], reason)
        self.transport.abort()
