"""A TLS context that resumes sessions: a second connection to a bank saves a round trip and the certificates.

HTTP libraries do not pass sessions to `ssl`, so the context remembers them, for sockets (`wrap_socket`) and event loops
(`wrap_bio`). Libraries limit the time of each read only, so a server that sends single bytes could block a caller for hours.
`deadline` limits the whole call for threads; in asyncio, use `asyncio.timeout`.
Source: RFC 8446 section 2.2 (TLS 1.3), RFC 5077 (TLS 1.2); Python's `ssl`, sections "TLS 1.3" and "SSL session".
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

# A resumed connection has no certificates, so the bank's certificate is verified again at least this often.
MAX_SESSION_S = 3600.0
MAX_SESSIONS = 64

Peer = tuple[str | None, int | None]


# A context variable, because HTTP libraries cannot pass the deadline of a call to an existing connection.
_DEADLINE: ContextVar[float | None] = ContextVar("tppkit_deadline", default=None)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limit the total time of reads and writes of this thread on TLS connections of an `Identity`, in a `with` block.

    Name resolution and TCP connection are limited by the HTTP library's connect timeout.

    Args:
        seconds: the time limit; an outer deadline that ends earlier stays in force.

    Raises:
        TimeoutError: from reads and writes after the limit; HTTP libraries convert it to their own timeout errors.
    """
    outer = _DEADLINE.get()
    ends_first = outer is not None and _left(outer) < seconds
    token = _DEADLINE.set(outer if ends_first else time.monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time for the whole call is over")
    return left


@contextmanager
def _limited(connection: socket.socket) -> Iterator[None]:
    """Limit one operation on a connection to the remaining time of the call."""
    end = _DEADLINE.get()
    if end is None:
        yield
        return
    before = connection.gettimeout()
    left = _left(end)
    connection.settimeout(left if before is None else min(before, left))
    try:
        yield
    finally:
        connection.settimeout(before)


class _Session(NamedTuple):
    session: ssl.SSLSession
    since: float


class ResumingContext(ssl.SSLContext):
    """A client's context with its own sessions, so that a new certificate starts without sessions.

    Args:
        protocol: see `ssl.SSLContext`; `ssl.PROTOCOL_TLS_CLIENT`.
        clock: monotonic seconds.
    """

    def __init__(self, protocol: int = ssl.PROTOCOL_TLS_CLIENT, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions: dict[Peer, _Session] = {}
        self._clock = clock
        self.sslsocket_class = _Socket
        self.sslobject_class = _Object

    def __new__(cls, protocol: int = ssl.PROTOCOL_TLS_CLIENT, **_: Any) -> ResumingContext:
        """See `ssl.SSLContext`, whose constructor takes the protocol."""
        return super().__new__(cls, protocol)

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """See `ssl.SSLContext`; resumes the session of the host and the connected port, which may be a proxy's."""
        peer = (_name(server_hostname), _port(sock))
        try:
            wrapped = super().wrap_socket(
                sock,
                server_side,
                do_handshake_on_connect,
                suppress_ragged_eofs,
                server_hostname,
                session or self._find(peer),
            )
        except ssl.SSLError:
            self.forget(peer)
            raise
        if isinstance(wrapped, _Socket):
            wrapped.peer = peer
        return wrapped

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """See `ssl.SSLContext`; resumes the session of the host with any port, because the port is not known here."""
        peer = (_name(server_hostname), None)
        wrapped = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session or self._find(peer))
        if isinstance(wrapped, _Object):
            wrapped.peer = peer
        return wrapped

    def _find(self, peer: Peer) -> ssl.SSLSession | None:
        found = self._sessions.get(peer)
        if found is None or self._clock() - found.since > MAX_SESSION_S:
            return None
        return found.session

    def remember(self, peer: Peer, session: ssl.SSLSession | None, *, resumed: bool) -> None:
        """Store the session of a connection that has received data."""
        if session is None or peer[0] is None:
            return
        before = self._sessions.pop(peer, None) if resumed else None
        self._sessions[peer] = _Session(session, before.since if before else self._clock())
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)), None)

    def forget(self, peer: Peer) -> None:
        """Drop the session of a host after TLS failed."""
        self._sessions.pop(peer, None)


class _Socket(ssl.SSLSocket):
    peer: Peer = (None, None)
    _remembered = False

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """See `ssl.SSLSocket`; limited by the deadline of the call."""
        with _limited(self), _forgotten_on_failure(self):
            data = super().read(len, buffer)
        if not self._remembered:
            _remember(self)
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """See `ssl.SSLSocket`; limited by the deadline of the call."""
        with _limited(self), _forgotten_on_failure(self):
            return super().send(data, flags)


class _Object(ssl.SSLObject):
    peer: Peer = (None, None)
    _remembered = False

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """See `ssl.SSLObject`."""
        with _forgotten_on_failure(self):
            data = super().read(len, buffer)
        if not self._remembered:
            _remember(self)
        return data

    def write(self, data: Any) -> int:
        """See `ssl.SSLObject`."""
        with _forgotten_on_failure(self):
            return super().write(data)

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`."""
        with _forgotten_on_failure(self):
            super().do_handshake()


def _remember(connection: _Socket | _Object) -> None:
    # Called at the first data, because in TLS 1.3 the server sends sessions between handshake and data.
    connection._remembered = True
    if isinstance(connection.context, ResumingContext):
        connection.context.remember(connection.peer, connection.session, resumed=bool(connection.session_reused))


@contextmanager
def _forgotten_on_failure(connection: _Socket | _Object) -> Iterator[None]:
    # In TLS 1.3, a server's rejection of the client certificate arrives with the first data.
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise
    except ssl.SSLError:
        if isinstance(connection.context, ResumingContext):
            connection.context.forget(connection.peer)
        raise


def _name(host: str | bytes | None) -> str | None:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else host


def _port(sock: socket.socket) -> int | None:
    try:
        address = sock.getpeername()
    except OSError:  # not connected yet
        return None
    return address[1] if isinstance(address, tuple) else None
