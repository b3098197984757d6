"""Uses of ids in a SQLite file: for the processes of one host."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from tppkit._files import touch_private
from tppkit.web.replay_stores.sql import TABLE, Rows, SqlReplayStore, Statements, Values

_BUSY_S = 5.0


class SqliteReplayStore(SqlReplayStore):
    """A store in a file that only its owner can read; made when it is not there.

    Args:
        path: the file.
        table: the name of the table.

    Raises:
        ConfigurationError: `replay.table`.
        TransportError: `replay.unavailable`, later too.
    """

    def __init__(self, path: Path, *, table: str = TABLE) -> None:
        super().__init__("SQLite", statements=Statements(table, octets="BLOB"), errors=(sqlite3.Error,))
        self._path = path
        for sql in self._sql.create:
            self._query(sql, {})

    def _connect(self) -> sqlite3.Connection:
        # SQLite gives its side files the mode of the main one.
        touch_private(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _execute(self, connection: Any, sql: str, values: Values) -> Rows:
        rows: Rows = connection.execute(sql, values).fetchall()
        return rows
