"""One client's TLS connection: a protocol to the socket, a transport to uvicorn's HTTP protocol."""

from __future__ import annotations

import asyncio
import copy
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, cast

from OpenSSL import SSL
from uvicorn.config import Config
from uvicorn.server import ServerState

from tppkit.sandbox.http1 import BoundedHttp, Connection, make_room
from tppkit.sandbox.tls_session import TlsFailure, TlsSession

_LOGGER = logging.getLogger("tppkit.sandbox.tls")

_CHUNK = 65_536  # bytes of plaintext encrypted at a time, so that a large response is not held twice encrypted
_LINGER_S = 1.0  # time for a rejected peer to read its alert: an immediate close would discard it

_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _AppWithTls:
    """The ASGI application of one connection; it adds the client's certificates to the scope of each request."""

    app: _App
    extension: Mapping[str, object]

    def __call__(self, scope: _Scope, receive: Any, send: Any) -> Awaitable[None]:
        scope["extensions"] = {**scope.get("extensions", {}), "tls": dict(self.extension)}
        return self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Listener:
    """The settings that the connections of one protocol class share."""

    handshake_timeout_s: float
    context: SSL.Context
    choose: Callable[[], SSL.Context]  # for one handshake
    inner: type[BoundedHttp]


class _Phase(Enum):
    HANDSHAKE = auto()
    OPEN = auto()
    CLOSING = auto()  # no more reads and writes; earlier writes are still being sent
    CLOSED = auto()


class TlsConnection(asyncio.Protocol, asyncio.Transport):
    """One client's connection: a protocol to the socket, a transport to uvicorn's HTTP protocol.

    At most one timer runs: for the handshake, for a peer that does not read, or for closing after an alert.
    """

    listener: ClassVar[Listener]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        # uvicorn calls shutdown() on these; after the handshake, the HTTP protocol replaces this one.
        self._connections = cast("set[Connection]", server_state.connections)
        self._began = self._loop.time()
        self._phase = _Phase.HANDSHAKE
        self._timer: asyncio.TimerHandle | None = None
        self._write_paused = False
        self._unsent = bytearray()
        self._http: asyncio.Protocol | None = None

    # As the socket's protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        self.port = transport.get_extra_info("sockname")[1]
        if not make_room(self._connections, self.listener.inner.max_connections):
            self.end("there are too many connections")
            return
        self._session = TlsSession(self.listener.choose())
        self._disable_nagle()
        self._connections.add(self)
        self._arm(self.listener.handshake_timeout_s, self.end, "handshake timeout")

    def data_received(self, data: bytes) -> None:
        if self._phase in (_Phase.HANDSHAKE, _Phase.OPEN):
            self._session.feed(data)
            self._advance()

    def eof_received(self) -> bool:
        if self._http is not None and self._phase is _Phase.OPEN:
            self._http.eof_received()
            self.close()
        return False  # as in uvicorn: a client that stops sending gets no more answers

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._http is not None:
            self._http.pause_writing()
            self._watch_reader()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._http is not None:
            self._http.resume_writing()
        if self._phase is _Phase.OPEN:
            self._disarm()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._phase is _Phase.HANDSHAKE:
            self._log("closed by the client during the handshake")
        self._phase = _Phase.CLOSED
        self._disarm()
        self._connections.discard(self)
        if self._http is not None:
            self._http.connection_lost(None)  # given exc, uvicorn would leave its keep-alive timer running
            self._http = None

    @property
    def idle_since(self) -> float:
        """See `Connection`; during the handshake the server waits for the client."""
        return self._began

    def shutdown(self) -> None:
        """Give up the handshake when the server stops; after it, uvicorn calls the HTTP protocol instead."""
        if self._phase is _Phase.HANDSHAKE:
            self._log("server is shutting down")
        self.abort()

    # As the HTTP protocol's transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":  # uvicorn derives the scheme https from it
            return self.listener.context
        return self._socket.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._http or self

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._http = cast("asyncio.Protocol", protocol)

    def is_closing(self) -> bool:
        return self._phase is not _Phase.OPEN or self._socket.is_closing()

    def is_reading(self) -> bool:
        return self._socket.is_reading()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._socket.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._unsent:  # the head and the body of an answer are sent together
            self._loop.call_soon(self._send)
        self._unsent += data
        if len(self._unsent) >= _CHUNK:
            self._send()

    def can_write_eof(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise NotImplementedError("a TLS connection is closed as a whole")

    def close(self) -> None:
        self._send()
        if self._phase is _Phase.OPEN:
            self._phase = _Phase.CLOSING
            self._session.queue_close_notify()
            self._flush()
            self._socket.close()
            self._watch_reader()

    def abort(self) -> None:
        self._phase = _Phase.CLOSED
        self._socket.abort()

    # Between the socket and the HTTP protocol.

    def _send(self) -> None:
        view, self._unsent = memoryview(self._unsent), bytearray()
        try:
            for start in range(0, len(view), _CHUNK):
                if not self.is_closing():
                    self._session.write(view[start : start + _CHUNK])
                    self._flush()
        except TlsFailure as failure:
            self._refuse(str(failure))

    def _advance(self) -> None:
        try:
            if self._phase is _Phase.HANDSHAKE and self._session.handshake():
                self._open()
            self._deliver()
            if self._flush() and self._write_paused:  # answers of TLS itself, such as to a KeyUpdate
                self.end("asks for more than it reads")
        except TlsFailure as failure:
            self._refuse(str(failure))

    def _open(self) -> None:
        config = copy.copy(self._config)
        session = self._session
        peer = {"client_cert_chain": session.client_certificates(), "client_cert_error": session.certificate_error}
        config.loaded_app = _AppWithTls(config.loaded_app, peer)
        self._disarm()
        self._phase = _Phase.OPEN
        self._connections.discard(self)
        self._http = self.listener.inner(
            config=config, server_state=self._server_state, app_state=self._app_state, _loop=self._loop
        )
        self._http.connection_made(self)

    def _deliver(self) -> None:
        while self._http is not None and not self.is_closing():
            plaintext = self._session.read()
            if plaintext is None:
                break
            if plaintext:
                self._http.data_received(plaintext)
            else:
                self.eof_received()

    def _flush(self) -> bool:
        output = self._session.take_output()
        if output and not self._socket.is_closing():
            self._socket.write(output)
        return bool(output)

    def _refuse(self, reason: str) -> None:
        self._log(reason)
        self._phase = _Phase.CLOSING
        self._flush()
        if not self._socket.is_closing():
            self._socket.write_eof()
        self._arm(_LINGER_S, self._socket.abort)

    def _watch_reader(self, unread_before: int | None = None) -> None:
        unread = self._socket.get_write_buffer_size()
        if unread_before is not None and unread >= unread_before:
            self.end(f"left {unread} bytes unread")
        else:
            self._arm(self.listener.handshake_timeout_s, self._watch_reader, unread)

    def _disable_nagle(self) -> None:
        raw = self._socket.get_extra_info("socket")
        if raw.family in (socket.AF_INET, socket.AF_INET6):  # asyncio does it only if the socket names TCP
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end(self, reason: str) -> None:
        """Close the connection at once."""
        self._log(reason)
        self.abort()

    def _log(self, reason: str) -> None:
        peer = self._socket.get_extra_info("peername") or ("unknown", 0)
        _LOGGER.info("TLS connection from %s port %s ended: %s", *peer[:2], reason)

    def _arm(self, delay_s: float, callback: Callable[..., None], *arguments: object) -> None:
        self._disarm()
        self._timer = self._loop.call_later(delay_s, callback, *arguments)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
