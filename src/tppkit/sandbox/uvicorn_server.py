"""Run uvicorn servers in one event loop: listening sockets, settings, start and stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn

from tppkit.errors import ConfigurationError
from tppkit.sandbox.http1 import BoundedHttp

_LOGGER = logging.getLogger("tppkit.sandbox.http")

# Connections to accept in one turn of the event loop; connections that are closed for them are removed in later turns.
_ACCEPTED_AT_ONCE = 16
_BACKLOG = 256  # connections that the system queues in the meantime
_WARN_EVERY_S = 30.0


class QuietServer(uvicorn.Server):
    """One of several servers in a loop. It leaves signals to the caller, which starts and stops them all."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log one line where asyncio would log a traceback for each connection that it cannot accept."""
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_ExceptionHandler())
        await super().startup(sockets)
        for bound in sockets or ():
            bound.listen(_BACKLOG)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


async def serve(servers: Sequence[tuple[QuietServer, socket.socket]], *, on_ready: Callable[[], None]) -> None:
    """Serve until each server is asked to exit. The servers share the limit of connections, because they share the process's files.

    Args:
        servers: the servers with their listening sockets.
        on_ready: called once all servers answer.
    """
    connections = servers[0][0].server_state.connections
    for server, _ in servers:
        server.server_state.connections = connections
    running = asyncio.gather(*(server.serve([bound]) for server, bound in servers))
    while not running.done() and not all(server.started for server, _ in servers):
        await asyncio.sleep(0.01)
    try:
        if not running.done():
            on_ready()
    except BaseException:
        stop(servers)
        await running
        raise
    await running


def stop(servers: Sequence[tuple[QuietServer, socket.socket]]) -> None:
    """Ask each server to finish; `serve` then returns."""
    for server, _ in servers:
        server.should_exit = True


async def serve_until_stopped(
    servers: Sequence[tuple[QuietServer, socket.socket]], *, on_ready: Callable[[], None]
) -> None:
    """Serve until the process gets SIGINT or SIGTERM; `on_ready` is called once the servers answer."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, servers)
    await serve(servers, on_ready=on_ready)


def make_config(app: Any, *, http: Any = BoundedHttp, date_header: bool = True) -> uvicorn.Config:
    """Make the server configuration of a host; `date_header`: the server adds Date, not the application."""
    return uvicorn.Config(
        app,
        http=http,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=date_header,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
        backlog=_ACCEPTED_AT_ONCE,
    )


class _ExceptionHandler:
    """Logs errors that asyncio cannot raise. A lack of files for new connections is logged at most twice a minute."""

    _warned_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and "accept" in context.get("message", "")):
            loop.default_exception_handler(context)
        elif loop.time() - self._warned_at > _WARN_EVERY_S:
            self._warned_at = loop.time()
            _LOGGER.warning(
                "connections cannot be accepted: %s; raise the limit of open files (ulimit -n)", error.strerror
            )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: the IP address.
        port: the port; 0 chooses a free one.

    Raises:
        ConfigurationError: `port.unavailable`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        bound.bind((host, port))
        bound.listen()  # otherwise another process could bind the same port
    except (OSError, OverflowError) as e:
        bound.close()
        taken = isinstance(e, OSError) and e.errno in (errno.EADDRINUSE, errno.EACCES)
        message = f"{host} port {port} cannot be used: {e}{'; choose another port, with --port' if taken else ''}"
        raise ConfigurationError("port.unavailable", message) from e
    return bound
