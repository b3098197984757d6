"""The inbox in an SQLite file: the standard library is enough, and one host may have any number of processes."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tppkit._files import PRIVATE
from tppkit.callbacks.stores.driving import drive
from tppkit.callbacks.stores.entry import Entry, Outcome
from tppkit.callbacks.stores.programs import Mark, Rows
from tppkit.callbacks.stores.sql import SqlStore, perform
from tppkit.callbacks.stores.statements import Dialect, Statement, Statements
from tppkit.errors import ConfigurationError, InboxError

_BUSY_MS = 5000
_LARGEST_WAL = 64 * 1024 * 1024


class Synchronous(StrEnum):
    """What is safe when the power fails, in SQLite's words.

    Attributes:
        FULL: every commit waits for the disk: what was acknowledged stays.
        NORMAL: the last commits can be lost when the machine dies (not when the process does), so an acknowledged callback
            can be gone. Only for effects that are checked against the service anyway.
    """

    FULL = "FULL"
    NORMAL = "NORMAL"


@dataclass(slots=True)
class _Session:
    connection: sqlite3.Connection

    def execute(self, statement: Statement) -> Rows:
        try:
            cursor = self.connection.cursor()
            cursor.row_factory = None  # the caller's connection may make dictionaries
            return cursor.execute(statement.sql, statement.values).fetchall()
        except sqlite3.Error as e:
            raise _unavailable(e) from e

    def mark(self, mark: Mark) -> None:
        self.execute(Statement(mark.value, {}))

    def after_effect(self) -> None:
        if not self.connection.in_transaction:
            raise ConfigurationError(
                "inbox.handler-committed",
                "the handler ended the inbox's transaction: commit() and executescript() do that",
            )


@dataclass(slots=True)
class _Waiting:
    """Entries that a thread wants stored, and what became of it."""

    entries: Sequence[Entry]
    outcomes: list[Outcome] | None = None
    error: BaseException | None = None


class SqliteStore(SqlStore):
    """A store in an SQLite file, for any number of threads and processes of one host.

    Handlers get the `sqlite3.Connection` and must not commit. Entries that threads store at the same time share a commit.

    Args:
        path: the file; made readable for its owner only. The inbox's tables may stand in the application's own file.
        prefix: of the tables' names.
        synchronous: see `Synchronous`.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.sqlite` (older than 3.35).
    """

    def __init__(
        self, path: Path, *, prefix: str = "tppkit_inbox_", synchronous: Synchronous = Synchronous.FULL
    ) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise ConfigurationError("inbox.sqlite", f"SQLite {sqlite3.sqlite_version} is older than 3.35")
        super().__init__(Statements(Dialect.SQLITE, prefix=prefix))
        self._path, self._synchronous = path, synchronous
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._queue: deque[_Waiting] = deque()
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`; whoever comes to the file first commits for those who came meanwhile."""
        self._check_process()
        mine = _Waiting(entries)
        self._queue.append(mine)
        with self._lock:
            if mine.outcomes is None and mine.error is None:
                self._add_queued()
        if mine.error is not None:
            raise mine.error
        return mine.outcomes or []

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[_Session]:
        self._check_process()
        with self._lock:
            connection = self._open()
            _run(connection, "BEGIN IMMEDIATE")
            try:
                yield _Session(connection)
                _run(connection, "COMMIT")
            except BaseException:
                if connection.in_transaction:
                    _run(connection, "ROLLBACK")
                raise

    def _within(self, connection: Any) -> _Session:
        return _Session(connection)

    def _add_queued(self) -> None:
        group: list[_Waiting] = []
        try:
            with self._transaction() as session:
                self._drain_into(group)  # only now: more have come while this waited for the file
                program = self._programs.add([entry for one in group for entry in one.entries])
                outcomes = iter(drive(program, lambda step: perform(step, session, None)))
            for one in group:
                one.outcomes = [next(outcomes) for _ in one.entries]
        except BaseException as e:
            self._drain_into(group)
            for one in group:
                one.error = e
            raise

    def _drain_into(self, group: list[_Waiting]) -> None:
        while self._queue:
            group.append(self._queue.popleft())

    def _check_process(self) -> None:
        # SQLite's connections must not cross a fork; the parent's is kept, so that it is never closed here.
        if self._process != os.getpid():
            self._process, self._lock, self._queue = os.getpid(), threading.RLock(), deque()
            self._inherited, self._connection = self._connection, None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                # SQLite gives its side files the mode of the main one.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE))
                connection = sqlite3.connect(
                    self._path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
                )
            except (OSError, sqlite3.Error) as e:
                raise _unavailable(e) from e
            _run(connection, "PRAGMA journal_mode = WAL")
            _run(connection, f"PRAGMA synchronous = {self._synchronous.value}")
            _run(connection, f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
            self._connection = connection
        return self._connection


def _run(connection: sqlite3.Connection, sql: str) -> None:
    try:
        connection.execute(sql).fetchall()
    except sqlite3.Error as e:
        raise _unavailable(e) from e


def _unavailable(error: Exception) -> InboxError:
    return InboxError("inbox.unavailable", f"the inbox's SQLite file fails: {error}")
