"""One deadline for a whole call, whatever many steps it takes.

HTTP libraries limit each read, so a server that sends a byte now and then holds a caller for hours. Within `deadline`, the TLS
connections of an `Identity` give every step only what is left of the whole. In asyncio, `asyncio.timeout` does the same.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class _Deadline(NamedTuple):
    end: float
    clock: Callable[[], float]

    def left(self) -> float:
        left = self.end - self.clock()
        if left <= 0:
            raise TimeoutError("the time for the whole call is over")
        return left


# Of the running call: HTTP libraries have no way to hand it down to a connection that may be an old one.
_DEADLINE: ContextVar[_Deadline | None] = ContextVar("tppkit_deadline", default=None)


@contextmanager
def deadline(seconds: float, *, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Limit everything that this thread reads from and writes to TLS connections of an `Identity` until the end of the block.

    What takes place before TLS, name resolution and TCP connection, is limited by the HTTP library's own connect timeout.

    Args:
        seconds: for all of it; a deadline around this one that ends earlier stays in force.
        clock: seconds that only go forward.

    Raises:
        TimeoutError: from reads and writes when the time is over; HTTP libraries make their own timeout errors of it.
    """
    outer = _DEADLINE.get()
    new = _Deadline(clock() + seconds, clock)
    token = _DEADLINE.set(outer if outer is not None and outer.left() < seconds else new)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


@contextmanager
def limited(connection: socket.socket) -> Iterator[None]:
    """Give one step on a connection only what is left of the running call's time."""
    running = _DEADLINE.get()
    if running is None:
        yield
        return
    before = connection.gettimeout()
    left = running.left()
    connection.settimeout(left if before is None else min(before, left))
    try:
        yield
    finally:
        connection.settimeout(before)
