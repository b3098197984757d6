"""PostgreSQL connections that do not wait forever. Needs the extra `postgres`.

`statement_timeout` is the server's, and TCP's time-outs are those of kernels: neither ends the wait for a server that hangs behind a
pooler or balancer that still acknowledges.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg


def connection_class(wait_s: float) -> type[psycopg.Connection[Any]]:
    """A connection class whose connections close when a statement is not answered within `wait_s` seconds."""

    class LimitedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *settings: Any, **more: Any) -> Any:
            return super().wait(self._limited(gen), *settings, **more)

        def _limited(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            end = time.monotonic() + wait_s
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted  # psycopg comes back ten times a second, also with nothing ready
                    if time.monotonic() >= end:
                        self.close()
                        raise psycopg.OperationalError("the server does not answer in time")
                    wanted = steps.send(ready)
            except StopIteration as e:
                return e.value

    return LimitedConnection
