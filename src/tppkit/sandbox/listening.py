"""Sockets and server settings that every host of the sandbox shares."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tppkit.errors import ConfigurationError
from tppkit.sandbox.http1 import BoundedHttp


class QuietServer(uvicorn.Server):
    """One of several servers in a loop: signals are handled once, by whoever started them all."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def make_config(app: Any, *, http: Any = BoundedHttp) -> uvicorn.Config:
    """How every host is served."""
    return uvicorn.Config(
        app,
        http=http,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Args:
        host: an address.
        port: 0 takes a free one.

    Raises:
        ConfigurationError: `port.unavailable`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio sets TCP_NODELAY only where it sees TCP
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen()  # until somebody listens, another could bind the same port
    except (OSError, OverflowError) as e:
        bound.close()
        raise ConfigurationError("port.unavailable", f"{host} port {port} cannot be used: {e}") from e
    return bound
