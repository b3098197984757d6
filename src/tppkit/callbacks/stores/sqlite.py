"""The inbox in an SQLite file: the standard library is enough, and one host may have any number of processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tppkit._files import FilePath, require_database, require_wait
from tppkit.callbacks.stores.driving import TransactionEnded
from tppkit.callbacks.stores.programs import Mark
from tppkit.callbacks.stores.rows import Rows
from tppkit.callbacks.stores.sessions import no_transaction, transaction_ended
from tppkit.callbacks.stores.sql import SqlStore
from tppkit.callbacks.stores.sqlite_file import OnConnect, SqliteFile, Synchronous, run, unavailable
from tppkit.callbacks.stores.sqlite_group import SqliteGroup
from tppkit.callbacks.stores.statements import Dialect, Statement, Statements
from tppkit.errors import ConfigurationError, InboxError

_WAIT_S = 5.0
_LARGEST = 64  # operations that share a commit


class _Session:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._cursor.row_factory = None  # the caller's connection may make dictionaries

    def execute(self, statement: Statement) -> Rows:
        try:
            return self._cursor.execute(statement.sql, statement.values).fetchall()
        except sqlite3.Error as e:
            raise unavailable(e) from e

    def mark(self, mark: Mark) -> None:
        try:
            self._cursor.execute(mark)
        except sqlite3.ProgrammingError as e:  # closed, and a transaction with it
            raise transaction_ended() from e
        except sqlite3.Error as e:
            raise unavailable(e) from e


class SqliteStore(SqlStore):
    """A store in an SQLite file, for any number of threads and processes of one host.

    Handlers get the `sqlite3.Connection` and must not commit. What threads do at the same time shares a commit.

    Args:
        path: the file, which may be the application's own. A new one is readable for its owner only; one that is there keeps its mode.
        prefix: of the tables' names.
        synchronous: see `Synchronous`.
        wait_s: how long to wait for other processes, for handlers in other threads, and for a commit that is shared with them.
        on_connect: gets every connection that the store opens, in no transaction: for what SQLite knows for each connection alone,
            such as `PRAGMA foreign_keys = ON`, which no handler can set. The store's own settings are made behind it.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.sqlite` (older than 3.35, or no file), `inbox.setting`.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        prefix: str = "tppkit_inbox_",
        synchronous: Synchronous = Synchronous.FULL,
        wait_s: float = _WAIT_S,
        on_connect: OnConnect | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise ConfigurationError("inbox.sqlite", f"SQLite {sqlite3.sqlite_version} is older than 3.35")
        file = require_database(path, code="inbox.sqlite")
        super().__init__(Statements(Dialect.SQLITE, prefix=prefix))
        if synchronous not in tuple(Synchronous):
            raise ConfigurationError("inbox.setting", f"synchronous is {synchronous!r}, not {' or '.join(Synchronous)}")
        self._wait_s = require_wait(wait_s, code="inbox.setting")
        self._file = SqliteFile(file, synchronous=Synchronous(synchronous), wait_s=wait_s, on_connect=on_connect)
        self._group: SqliteGroup | None = None
        self._holder: int | None = None  # the thread whose turn it is
        self._start()
        _STORES.add(weakref.ref(self, _STORES.discard))

    def close(self) -> None:
        """Commit what is under way and close the file; the next use opens it again.

        Raises:
            ConfigurationError: `inbox.nested`, a handler called it.
            InboxError: `inbox.unavailable`, a handler went on for longer than `wait_s`; nothing is closed.
        """
        self._check_process()
        self._refuse_nested()
        with self._locked() as is_mine:
            if not is_mine:
                raise self._busy()
            self._close()

    def _close(self) -> None:
        self._end_group()
        self._file.close()

    def _close_before_fork(self) -> None:
        """Leave nothing open for a child to inherit.

        SQLite in the child would count on locks that only the parent has; when the parent ends, another process may take the log
        away under the child. A handler that forks, or one that is busy for long, keeps the connection open.
        """
        own = self._process == os.getpid() and self._holder != threading.get_ident()
        if own and self._file.is_open:
            with self._locked() as is_mine:
                if is_mine:
                    self._close()

    @contextmanager
    def _transaction(self, *, shared: bool = True) -> Iterator[_Session]:
        """A part of a transaction that is committed when no other thread waits to be part of it."""
        self._check_process()
        with self._turn(shared=shared) as group:
            group.enter()
            try:
                yield _Session(group.connection)
            except TransactionEnded as e:
                # The connection goes: the handler may have closed it, or set it otherwise since.
                group.error = InboxError("inbox.unavailable", f"for all that shared it: {e.error}")
                raise
            except Exception:
                group.undo()
                raise  # behind an interrupt it goes too: a statement may be half way
            group.keep()
        # Nothing is done before it is committed, whoever commits it.
        if not group.wait(self._wait_s):
            raise InboxError(
                "inbox.unavailable",
                f"the commit did not come within {self._wait_s:g} seconds: a handler takes long or hangs",
            )
        if not group.is_committed:
            error = group.error or InboxError("inbox.unavailable", "the commit was interrupted")
            # A constraint that is broken is the handler's fault; of several that shared the commit nobody knows whose.
            raise InboxError("inbox.unavailable", error.message) from (error.__cause__ if group.size == 1 else error)

    def _unshared(self) -> AbstractContextManager[_Session]:
        return self._transaction(shared=False)

    @contextmanager
    def _reading(self) -> Iterator[_Session]:
        with self._file.another() as connection:
            yield _Session(connection)

    @contextmanager
    def _turn(self, *, shared: bool) -> Iterator[SqliteGroup]:
        self._refuse_nested()
        try:
            with self._counting:
                self._waiting.add(threading.get_ident())
            with self._locked() as is_mine:
                if not is_mine:
                    raise self._busy()
                try:
                    self._leave_queue()
                    if self._group is not None and not (shared and self._group.is_joinable):
                        self._end_group()  # also where an interrupt came before its end
                    group = self._group = self._group or self._begin(shared=shared)
                    yield group
                finally:
                    self._end_unless_awaited()
        finally:
            if threading.get_ident() in self._waiting:
                self._give_up_turn()

    @contextmanager
    def _locked(self, wait_s: float | None = None) -> Iterator[bool]:
        """Wait for the lock; gives whether it was taken, and releases it."""
        taken = deque[bool]()
        try:
            # One step of the interpreter: an interrupt between taking the lock and knowing of it would leave it taken for ever.
            taken.extend(filter(None, map(self._lock.acquire, (True,), (self._wait_s if wait_s is None else wait_s,))))
            if taken:
                self._holder = threading.get_ident()
            yield bool(taken)
        finally:
            if taken:
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
            self._waiting.discard(threading.get_ident())
            self._left_open = False

    def _give_up_turn(self) -> None:
        """Wait no longer; who counted on this thread to commit must not wait for ever."""
        with self._counting:
            self._waiting.discard(threading.get_ident())
        while self._left_open:  # else whoever has the turn sees to it
            with self._locked(0.05) as is_mine:
                if is_mine:
                    self._end_unless_awaited()
                    return

    def _end_unless_awaited(self) -> None:
        with self._counting:
            group = self._group
            # Nobody joins what is over already: without the transaction each savepoint would be committed by itself.
            joinable = group is not None and group.is_joinable
            self._left_open = joinable and bool(self._waiting)
        if not self._left_open:
            self._end_group()

    def _end_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            self._end(group)

    def _begin(self, *, shared: bool) -> SqliteGroup:
        connection = self._file.open()
        run(connection, "BEGIN IMMEDIATE")
        return SqliteGroup(connection, largest=_LARGEST if shared else 1)

    def _end(self, group: SqliteGroup) -> None:
        try:
            if group.is_clean:
                self._file.require_there()
                group.commit()
        except InboxError as e:
            group.error = e
        finally:
            if not group.is_over:
                self._file.drop()
            group.end()

    def _within(self, connection: Any) -> _Session:
        try:
            require_transaction(connection)
            return _Session(connection)
        except sqlite3.ProgrammingError as e:  # closed
            raise unavailable(e) from e

    def _check_process(self) -> None:
        if self._process != os.getpid():
            self._start()
            self._file.leave_to_parent()

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._waiting = set[int]()  # the threads
        self._left_open = False  # for the next in the queue to commit
        self._holder = None
        self._group = None


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
