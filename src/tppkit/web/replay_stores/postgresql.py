"""Uses of ids in PostgreSQL: for several hosts. Needs the extra `postgres`."""

from __future__ import annotations

from typing import Any

from tppkit._extras import missing_extra
from tppkit.web.replay_stores.sql import TABLE, Rows, SqlReplayStore, Statements, Values

# Two processes that create the same table at once can collide in spite of IF NOT EXISTS.
_LOCK = "SELECT pg_advisory_xact_lock(1953525869)"
_WAIT_S = 5
_COLUMNS = "SELECT attname::text FROM pg_attribute WHERE attrelid = '{table}'::regclass AND NOT attisdropped"


class PostgresqlReplayStore(SqlReplayStore):
    """A store in a table that is made when it is not there; one connection a process, opened again when it broke.

    It waits at most 5 seconds for a connection, for a statement and for a network that has gone silent.

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
        statements = Statements(
            table, octets="BYTEA", columns=_COLUMNS, pyformat=True, skip_locked="FOR UPDATE SKIP LOCKED"
        )
        super().__init__("PostgreSQL", statements=statements, errors=(psycopg.Error,))
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._query("; ".join((_LOCK, *statements.create)), {})  # one transaction, as PostgreSQL has it
        self._migrate()

    def _connect(self) -> Any:
        connection = self._psycopg.connect(
            self._conninfo, autocommit=True, connect_timeout=_WAIT_S, tcp_user_timeout=_WAIT_S * 1000
        )
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (str(_WAIT_S * 1000),))
        return connection

    def _execute(self, connection: Any, sql: str, values: Values) -> Rows:
        # A statement that failed with its connection is not repeated: whether it was carried out is not known.
        cursor = connection.execute(sql.encode(), values or None)
        return cursor.fetchall() if cursor.description else []
