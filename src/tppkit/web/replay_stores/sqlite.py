"""Uses of ids in a SQLite file: for the processes of one host."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from tppkit._files import PRIVATE
from tppkit.web.replay import unavailable
from tppkit.web.replay_stores.sql import TABLE, SqlReplayStore, Statements, Values

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
        super().__init__(self._run, Statements(table, octets="BLOB"))
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        for sql in self._sql.create:
            self._run(sql, {})

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        if self._process != os.getpid():  # a connection must not cross a fork, nor may a lock that somebody held there
            self._inherited, self._connection = self._connection, None
            self._lock, self._process = threading.Lock(), os.getpid()
        with self._lock:
            try:
                return self._open().execute(sql, values).fetchall()
            except (sqlite3.Error, OSError) as e:
                raise unavailable("SQLite", e) from e

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            # SQLite gives its side files the mode of the main one.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE))
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._connection = connection
        return self._connection
