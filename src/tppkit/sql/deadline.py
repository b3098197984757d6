"""Time limits for PostgreSQL connections.

The server applies `statement_timeout`, and kernels apply the timeouts of TCP. Neither ends the wait for a server that hangs behind a
pooler or load balancer that still acknowledges packets. So psycopg, an extra, gets its own limit.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, event

if TYPE_CHECKING:
    import psycopg

_SERVER_FIRST_S = 0.5  # the server's own limit ends a statement first, which keeps the connection


def limit_waits(engine: Engine, wait_s: float) -> None:
    """Limit how long an engine's connections wait for PostgreSQL to answer a statement.

    Args:
        engine: an engine that has not connected yet; one with another driver than psycopg and psycopg2 is not changed.
        wait_s: seconds; psycopg waits half a second longer for a statement, because the server has the same limit.
    """
    if engine.dialect.driver not in ("psycopg", "psycopg2"):
        return
    timeout = f"-c statement_timeout={int(wait_s * 1000)}"
    limited = _connection_class(wait_s + _SERVER_FIRST_S) if engine.dialect.driver == "psycopg" else None

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: list[Any], names: dict[str, Any]) -> Any:
        # Add the limit to the options of the address.
        names["options"] = f"{names.get('options', '')} {timeout}".strip()
        names.setdefault("tcp_user_timeout", int(wait_s * 1000))
        return limited.connect(*arguments, **names) if limited else None


def _connection_class(wait_s: float) -> type[psycopg.Connection[Any]]:
    """A connection class whose connections close when a statement is not answered within `wait_s` seconds."""
    import psycopg

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
