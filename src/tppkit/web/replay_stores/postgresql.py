"""Uses of ids in PostgreSQL: for several hosts. Needs the extra `postgres`."""

from __future__ import annotations

import time
from collections.abc import Generator
from math import ceil
from typing import Any

from tppkit._extras import missing_extra
from tppkit.web.replay_stores.sql import TABLE, WAIT_S, Rows, SqlReplayStore, Statements, Values

try:
    import psycopg
except ImportError as e:
    raise missing_extra("postgres", e) from e

# Two processes that create the same table at once can collide in spite of IF NOT EXISTS.
_LOCK = "SELECT pg_advisory_xact_lock(1953525869)"
_COLUMNS = "SELECT attname::text FROM pg_attribute WHERE attrelid = '{table}'::regclass AND NOT attisdropped"
_SHORTEST_CONNECT_S = 2  # as libpq has it
# The server ends a statement itself before we end its connection, which costs a new one.
_SERVERS_SHARE = 0.8


class PostgresqlReplayStore(SqlReplayStore):
    """A store in a table that is made when it is not there; one connection a process, opened again when it broke.

    Where the server or the network says nothing any more, the connection is given up: a call fails in time, whatever they do.

    Args:
        conninfo: a libpq address.
        table: the name of the table.
        wait_s: how long a call waits for its turn and for its statement together, in seconds; opening a connection takes 2 seconds
            at least until it is given up, for each address of `conninfo`.

    Raises:
        ConfigurationError: `replay.table`, `web.setting`; `extra.missing`, when this module is imported.
        TransportError: `replay.unavailable`, later too.
    """

    def __init__(self, conninfo: str, *, table: str = TABLE, wait_s: float = WAIT_S) -> None:
        statements = Statements(
            table, octets="BYTEA", columns=_COLUMNS, pyformat=True, skip_locked="FOR UPDATE SKIP LOCKED"
        )
        super().__init__("PostgreSQL", statements=statements, errors=(psycopg.Error,), wait_s=wait_s)
        self._conninfo = conninfo
        self._query("; ".join((_LOCK, *statements.create)), {})  # one transaction, as PostgreSQL has it
        self._migrate()

    def _connect(self, *, until: float) -> _Connection:
        left_s = max(_SHORTEST_CONNECT_S, ceil(until - time.monotonic()))
        connection = _Connection.connect(
            self._conninfo, autocommit=True, connect_timeout=left_s, tcp_user_timeout=ceil(self._wait_s * 1000)
        )
        limit_ms = ceil(self._wait_s * 1000 * _SERVERS_SHARE)
        self._execute(
            connection,
            "SELECT set_config('statement_timeout', %(limit)s, false)",
            {"limit": str(limit_ms)},
            until=until,
        )
        return connection

    def _execute(self, connection: Any, sql: str, values: Values, *, until: float) -> Rows:
        # A statement that failed with its connection is not repeated: whether it was carried out is not known.
        connection.until = until
        cursor = connection.execute(sql.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


class _Connection(psycopg.Connection[Any]):
    """A connection that is closed when a statement is not answered in time.

    `statement_timeout` is the server's, and TCP's time-outs are those of kernels: neither ends the wait for a server that stands still
    behind a kernel or a balancer which goes on to acknowledge.

    Attributes:
        until: when the monotonic clock shows this, a statement has failed.
    """

    until: float

    def wait(self, gen: Generator[Any, Any, Any], *settings: Any, **more: Any) -> Any:
        """Carry the steps of a statement out, as psycopg does."""
        return super().wait(self._in_time(gen), *settings, **more)

    def _in_time(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted  # ten times a second at least, with nothing ready
                if time.monotonic() >= self.until:
                    self.close()
                    raise psycopg.OperationalError("the server does not answer in time")
                wanted = steps.send(ready)
        except StopIteration as e:
            return e.value
