"""Uses of ids in a SQLite file: for the processes of one host."""

from __future__ import annotations

import sqlite3
from typing import Any

from tppkit._files import FileIdentity, FilePath, is_still_there, make_private, require_database
from tppkit.errors import TransportError
from tppkit.web.replay_stores.sql import TABLE, WAIT_S, Rows, SqlReplayStore, Statements, Values

_COLUMNS = "SELECT name FROM pragma_table_info('{table}')"


class SqliteReplayStore(SqlReplayStore):
    """A store in a file; one that is not there is made for its owner alone.

    Where the file is moved, replaced or deleted, the ids are not seen by other processes any more, so every call fails until the
    process is started again.

    Args:
        path: the file.
        table: the name of the table.
        wait_s: how long a call waits for its turn, and then for other processes, each in seconds.

    Raises:
        ConfigurationError: `replay.table`, `web.setting`.
        TransportError: `replay.unavailable`, later too.
    """

    def __init__(self, path: FilePath, *, table: str = TABLE, wait_s: float = WAIT_S) -> None:
        file = require_database(path, code="web.setting")
        statements = Statements(table, octets="BLOB", columns=_COLUMNS)
        super().__init__("SQLite", statements=statements, errors=(sqlite3.Error,), wait_s=wait_s)
        self._path = file
        self._file: FileIdentity | None = None
        for sql in self._sql.create:
            self._query(sql, {})
        self._migrate()

    def _connect(self, *, until: float) -> sqlite3.Connection:
        # SQLite gives its side files the mode of the main one.
        self._file = make_private(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=self._wait_s)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _execute(self, connection: Any, sql: str, values: Values, *, until: float) -> Rows:
        rows: Rows = connection.execute(sql, values).fetchall()
        if not is_still_there(self._path, self._file):
            raise TransportError(
                "replay.unavailable",
                f"the replay guard's file {self._path} was moved, replaced or deleted: start the process again",
            )
        return rows
