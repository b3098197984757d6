"""The deadline of a whole call over TLS, for threads; in asyncio, use `asyncio.timeout`.

HTTP libraries limit the time of each read only, so a server that sends single bytes could block a caller for hours.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

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


class LimitedSocket(ssl.SSLSocket):
    """A connection whose reads and writes end with the `deadline`; for `ssl.SSLContext.sslsocket_class`."""

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """See `ssl.SSLSocket`; limited by the deadline of the call."""
        with _limited(self):
            return super().read(len, buffer)

    def send(self, data: Any, flags: int = 0) -> int:
        """See `ssl.SSLSocket`; limited by the deadline of the call."""
        with _limited(self):
            return super().send(data, flags)
