"""The inbox in an SQLite file: the standard library is enough, and one host may have any number of processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from tppkit._files import FileIdentity, is_still_there, make_private, require_database, require_wait
from tppkit.callbacks.stores.programs import Mark, Rows
from tppkit.callbacks.stores.sessions import no_transaction
from tppkit.callbacks.stores.sql import SqlStore
from tppkit.callbacks.stores.statements import Dialect, Statement, Statements
from tppkit.errors import ConfigurationError, InboxError

_WAIT_S = 5.0
_LARGEST_WAL = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 4000
_LARGEST_GROUP = 64


class Synchronous(StrEnum):
    """What is safe when the power fails, in SQLite's words.

    Attributes:
        FULL: every commit waits for the disk: what was acknowledged stays.
        NORMAL: the last commits can be lost when the machine dies (not when the process does), so an acknowledged callback
            can be gone. Only for effects that are checked against the service anyway.
    """

    FULL = "FULL"
    NORMAL = "NORMAL"


class _Session:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._cursor.row_factory = None  # the caller's connection may make dictionaries

    def execute(self, statement: Statement) -> Rows:
        try:
            return self._cursor.execute(statement.sql, statement.values).fetchall()
        except sqlite3.Error as e:
            raise _unavailable(e) from e

    def mark(self, mark: Mark) -> None:
        try:
            self._cursor.execute(mark)
        except sqlite3.Error as e:
            raise _unavailable(e) from e


class _Group:
    """Operations of several threads that share a commit."""

    def __init__(self) -> None:
        self.size = 0
        self.ended = threading.Event()
        self.error: InboxError | None = None

    def leave(self, connection: sqlite3.Connection, undo: str | None = None) -> None:
        """Give up the savepoint of one operation; without it, SQLite or a handler has ended the transaction for all."""
        try:
            if not connection.in_transaction:
                raise InboxError("inbox.unavailable", "the inbox's transaction was ended before its commit")
            for sql in filter(None, (undo, "RELEASE SAVEPOINT tppkit_group")):
                _run(connection, sql)
        except InboxError as e:
            self.error = self.error or e


class SqliteStore(SqlStore):
    """A store in an SQLite file, for any number of threads and processes of one host.

    Handlers get the `sqlite3.Connection` and must not commit. What threads do at the same time shares a commit.

    Args:
        path: the file; made readable for its owner only. The inbox's tables may stand in the application's own file.
        prefix: of the tables' names.
        synchronous: see `Synchronous`.
        wait_s: how long to wait for other processes, for handlers in other threads, and for a commit that is shared with them.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.sqlite` (older than 3.35, or no file), `inbox.setting`.
    """

    def __init__(
        self,
        path: Path,
        *,
        prefix: str = "tppkit_inbox_",
        synchronous: Synchronous = Synchronous.FULL,
        wait_s: float = _WAIT_S,
    ) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise ConfigurationError("inbox.sqlite", f"SQLite {sqlite3.sqlite_version} is older than 3.35")
        require_database(path, code="inbox.sqlite")
        super().__init__(Statements(Dialect.SQLITE, prefix=prefix))
        self._path, self._synchronous = path, synchronous
        self._wait_s = require_wait(wait_s, code="inbox.setting")
        self._group: _Group | None = None
        self._holder: int | None = None  # the thread whose turn it is
        self._start()
        self._connection: sqlite3.Connection | None = None
        self._file: FileIdentity | None = None
        self._inherited: sqlite3.Connection | None = None
        _STORES.add(weakref.ref(self, _STORES.discard))

    def close(self) -> None:
        """Commit what is under way and close the file; the next use opens it again.

        Raises:
            ConfigurationError: `inbox.nested`, a handler called it.
            InboxError: `inbox.unavailable`, a handler went on for longer than `wait_s`; nothing is closed.
        """
        self._check_process()
        self._refuse_nested()
        if not self._lock.acquire(timeout=self._wait_s):
            raise self._busy()
        try:
            self._close()
        finally:
            self._lock.release()

    def _close(self) -> None:
        self._end_group()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _close_before_fork(self) -> None:
        """Leave nothing open for a child to inherit.

        SQLite in the child would count on locks that only the parent has; when the parent ends, another process may take the log
        away under the child. A handler that forks, or one that is busy for long, keeps the connection open.
        """
        own = self._process == os.getpid() and self._holder != threading.get_ident()
        if own and self._connection is not None and self._lock.acquire(timeout=self._wait_s):
            try:
                self._close()
            finally:
                self._lock.release()

    @contextmanager
    def _transaction(self) -> Iterator[_Session]:
        """A savepoint in a transaction that is committed when no other thread waits to be part of it."""
        self._check_process()
        with self._turn() as group:
            connection = self._open()
            _run(connection, "SAVEPOINT tppkit_group")
            try:
                yield _Session(connection)
            except BaseException:
                group.leave(connection, "ROLLBACK TO SAVEPOINT tppkit_group")
                raise
            group.leave(connection)
        # Nothing is done before it is committed, whoever commits it.
        if not group.ended.wait(self._wait_s):
            raise InboxError(
                "inbox.unavailable",
                f"the commit did not come within {self._wait_s:g} seconds: a handler takes long or hangs",
            )
        if group.error is not None:
            raise InboxError("inbox.unavailable", group.error.message) from group.error

    @contextmanager
    def _reading(self) -> Iterator[_Session]:
        """A connection of its own: the other one is for who has the turn to write."""
        try:
            make_private(self._path)
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=self._wait_s)
        except (OSError, sqlite3.Error) as e:
            raise _unavailable(e) from e
        with closing(connection):
            yield _Session(connection)

    @contextmanager
    def _turn(self) -> Iterator[_Group]:
        self._refuse_nested()
        with self._counting:
            self._waiting += 1
        try:
            taken = self._lock.acquire(timeout=self._wait_s)
        except BaseException:  # an interrupt
            self._give_up_turn()
            raise
        if not taken:
            self._give_up_turn()
            raise self._busy()
        try:
            self._holder = threading.get_ident()
            self._leave_queue()
            group = self._group = self._group or self._begin()
            group.size += 1
            try:
                yield group
            finally:
                self._end_unless_awaited()
        finally:
            self._holder = None
            self._lock.release()

    def _busy(self) -> InboxError:
        return InboxError(
            "inbox.unavailable", f"the inbox was busy for {self._wait_s:g} seconds: a handler takes long or hangs"
        )

    def _refuse_nested(self) -> None:
        if self._holder == threading.get_ident():
            raise ConfigurationError(
                "inbox.nested", "a handler used the inbox that called it; it would wait for itself"
            )

    def _leave_queue(self) -> None:
        with self._counting:
            self._waiting -= 1
            self._left_open = False

    def _give_up_turn(self) -> None:
        """Wait no longer; who counted on this thread to commit must not wait for ever."""
        with self._counting:
            self._waiting -= 1
        while self._left_open:  # else whoever has the turn sees to it
            if self._lock.acquire(timeout=0.05):
                try:
                    self._end_unless_awaited()
                finally:
                    self._lock.release()
                return

    def _end_unless_awaited(self) -> None:
        with self._counting:
            self._left_open = self._group is not None and self._waiting > 0 and self._group.size < _LARGEST_GROUP
        if not self._left_open:
            self._end_group()

    def _end_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            self._end(group)

    def _begin(self) -> _Group:
        _run(self._open(), "BEGIN IMMEDIATE")
        return _Group()

    def _end(self, group: _Group) -> None:
        connection = self._open()
        try:
            if group.error is not None:
                raise group.error
            if not is_still_there(self._path, self._file):
                raise InboxError(
                    "inbox.unavailable",
                    f"the inbox's file {self._path} was moved, replaced or deleted: start the process again",
                )
            _run(connection, "COMMIT")
        except InboxError as e:
            group.error = e
            if connection.in_transaction:
                _run(connection, "ROLLBACK")
        finally:
            group.ended.set()

    def _within(self, connection: Any) -> _Session:
        require_transaction(connection)
        return _Session(connection)

    def _check_process(self) -> None:
        # SQLite's connections must not cross a fork; the parent's is kept, so that it is never closed here.
        if self._process != os.getpid():
            self._start()
            self._inherited, self._connection = self._connection, None

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._waiting = 0
        self._left_open = False  # for the next in the queue to commit
        self._holder = None
        self._group = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                # SQLite gives its side files the mode of the main one.
                self._file = make_private(self._path)
                connection = sqlite3.connect(
                    self._path, isolation_level=None, check_same_thread=False, timeout=self._wait_s
                )
            except (OSError, sqlite3.Error) as e:
                raise _unavailable(e) from e
            try:
                self._set_up(connection)
            except InboxError:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        _run(connection, "PRAGMA journal_mode = WAL")
        _run(connection, f"PRAGMA synchronous = {self._synchronous.value}")
        _run(connection, f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
        _run(connection, f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        _run(connection, "PRAGMA temp_store = MEMORY")  # what savepoints keep; it may hold bodies


# What is registered to be done before a fork stays so for ever: one hook for all stores, none of which it keeps alive. It takes no lock,
# which a child could inherit taken: a copy is made in one step.
_STORES = set[weakref.ref[SqliteStore]]()


def _close_before_fork() -> None:
    for one in _STORES.copy():
        store = one()
        if store is not None:
            store._close_before_fork()


os.register_at_fork(before=_close_before_fork)


def require_transaction(connection: sqlite3.Connection) -> None:
    """Refuse a connection that is in no transaction and begins none with its next statement.

    Raises:
        ConfigurationError: `inbox.no-transaction`.
    """
    mode = getattr(connection, "autocommit", -1)  # from Python 3.12 on; -1: isolation_level tells
    if not connection.in_transaction and ((mode == -1 and connection.isolation_level is None) or mode is True):
        raise no_transaction()


def _run(connection: sqlite3.Connection, sql: str) -> None:
    try:
        connection.execute(sql)
    except sqlite3.Error as e:
        raise _unavailable(e) from e


def _unavailable(error: Exception) -> InboxError:
    return InboxError("inbox.unavailable", f"the inbox's SQLite file fails: {error}")
