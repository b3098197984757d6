"""Operations on an SQLite file that share a commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tppkit.callbacks.stores.sqlite_file import in_transaction, run
from tppkit.errors import InboxError


class SqliteGroup:
    """Operations of several threads, one after another in one transaction.

    The first can undo the whole transaction. It has no savepoint, for under one SQLite keeps a copy of every page until its end, and
    walks through all of them at the end of each savepoint within.

    Nothing is committed unless every operation ended well, and nobody is told that it is before it is: so whatever an interrupt cuts
    off, at any statement here, was not done.

    Args:
        connection: of the file, in a transaction of its own.
        largest: how many operations may share the commit.

    Attributes:
        connection: of the file, in the transaction.
        is_clean: what is in the transaction may be committed.
        is_over: it was committed or undone; else the connection must go.
        is_committed: all of it is in the file.
        error: what the store failed by.
    """

    def __init__(self, connection: sqlite3.Connection, *, largest: int) -> None:
        self.connection, self._largest = connection, largest
        self.size = 0
        self.is_clean, self.is_over, self.is_committed = True, False, False
        # No Event: that is written in Python, and an interrupt in it can leave its lock taken for ever.
        self._pending, self._is_ended = threading.Lock(), False
        self._pending.acquire()
        self.error: InboxError | None = None

    @property
    def is_joinable(self) -> bool:
        """Whether a further operation may share the commit."""
        return self.is_clean and self.size < self._largest

    def enter(self) -> None:
        """Begin an operation."""
        self.is_clean = False
        self.size += 1
        if self.size > 1:
            run(self.connection, "SAVEPOINT tppkit_group")

    def keep(self) -> None:
        """End an operation well; without the transaction, SQLite or a handler has ended it for all."""
        with self._failing():
            if not in_transaction(self.connection):
                raise InboxError("inbox.unavailable", "the inbox's transaction was ended before its commit")
            if self.size > 1:
                run(self.connection, "RELEASE SAVEPOINT tppkit_group")
            self.is_clean = True

    def undo(self) -> None:
        """End an operation that failed."""
        with self._failing():
            if self.size == 1:
                run(self.connection, "ROLLBACK")
                self.is_over = True
                return
            run(self.connection, "ROLLBACK TO SAVEPOINT tppkit_group")
            run(self.connection, "RELEASE SAVEPOINT tppkit_group")
            self.is_clean = True

    def commit(self) -> None:
        """Commit what every operation left behind."""
        with self._failing():
            try:
                run(self.connection, "COMMIT")
            except InboxError:
                with suppress(InboxError):  # SQLite may have done it, as where the disk is full
                    run(self.connection, "ROLLBACK")
                    self.is_over = True
                raise
            self.is_over = self.is_committed = True

    def end(self) -> None:
        """Let go on who waits for the commit."""
        self._is_ended = True
        self._pending.release()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the commit; gives whether there is nothing to wait for any more."""
        if self._pending.acquire(timeout=timeout_s):
            self._pending.release()
        return self._is_ended  # also where an interrupt has kept another who waited from releasing it

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except InboxError as e:
            self.error = e
