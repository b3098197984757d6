"""Uses of ids in PostgreSQL: for several hosts. Needs the extra `postgres`."""

from __future__ import annotations

import threading
from typing import Any

from tppkit._extras import missing_extra
from tppkit.web.replay import unavailable
from tppkit.web.replay_stores.sql import TABLE, SqlReplayStore, Statements, Values

# Two processes that create the same table at once can collide in spite of IF NOT EXISTS.
_LOCK = "SELECT pg_advisory_xact_lock(1953525869)"


class PostgresqlReplayStore(SqlReplayStore):
    """A store in a table that is made when it is not there; one connection, opened again when it broke.

    Args:
        conninfo: a libpq address.
        table: the name of the table.

    Raises:
        ConfigurationError: `extra.missing`, `replay.table`.
        TransportError: `replay.unavailable`, later too.
    """

    def __init__(self, conninfo: str, *, table: str = TABLE) -> None:
        try:
            import psycopg
        except ImportError as e:
            raise missing_extra("postgres", e) from e
        statements = Statements(table, octets="BYTEA", pyformat=True, skip_locked="FOR UPDATE SKIP LOCKED")
        super().__init__(self._run, statements)
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._run("; ".join((_LOCK, *self._sql.create)), {})  # one transaction, as PostgreSQL has it

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                cursor = self._open().execute(sql.encode(), values or None)
                return cursor.fetchall() if cursor.description else []
            except (self._psycopg.Error, OSError) as e:
                raise unavailable("PostgreSQL", e) from e

    def _open(self) -> Any:
        # A statement that failed with its connection is not repeated: whether it was carried out is not known.
        if self._connection is None or self._connection.closed:
            self._connection = self._psycopg.connect(self._conninfo, autocommit=True, connect_timeout=5)
        return self._connection
