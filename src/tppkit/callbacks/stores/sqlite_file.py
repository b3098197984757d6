"""An inbox's SQLite file and the one connection to it: opened when it is needed, and anew when a handler has spoilt it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from tppkit._files import FileIdentity, is_still_there, make_private
from tppkit.errors import ConfigurationError, InboxError, TppkitError

_LARGEST_WAL = 64 * 1024 * 1024
_CHECKPOINT_PAGES = 4000

OnConnect = Callable[[sqlite3.Connection], object]


class Synchronous(StrEnum):
    """What is safe when the power fails, in SQLite's words.

    Attributes:
        FULL: every commit waits for the disk: what was acknowledged stays.
        NORMAL: the last commits can be lost when the machine dies (not when the process does), so an acknowledged callback
            can be gone. Only for effects that are checked against the service anyway.
    """

    FULL = "FULL"
    NORMAL = "NORMAL"


class SqliteFile:
    """A file and the connection to it, for whoever has the turn.

    Args:
        path: the file.
        synchronous: see `Synchronous`.
        wait_s: how long to wait for other processes.
        on_connect: gets every new connection, in no transaction; the inbox's own settings are made behind it.
    """

    def __init__(
        self, path: Path, *, synchronous: Synchronous, wait_s: float, on_connect: OnConnect | None = None
    ) -> None:
        self._path, self._synchronous, self._wait_s, self._on_connect = path, synchronous, wait_s, on_connect
        self._connection: sqlite3.Connection | None = None
        self._identity: FileIdentity | None = None
        self._inherited: sqlite3.Connection | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def open(self) -> sqlite3.Connection:
        """The connection, in no transaction: one that an interrupt left in one, or that a handler closed later, is given up.

        Raises:
            InboxError: `inbox.unavailable`; also when the file that was opened before is no longer there, or on_connect failed.
            ConfigurationError: `inbox.setting`, on_connect left a transaction open.
        """
        if self._connection is not None and not _is_idle(self._connection):
            self.drop()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    @contextmanager
    def another(self) -> Iterator[sqlite3.Connection]:
        """A further connection, for one who only reads and so need not wait for the turn to write.

        Raises:
            InboxError: `inbox.unavailable`; as by `open`.
            ConfigurationError: `inbox.setting`.
        """
        with closing(self._connect()) as connection:
            yield connection

    def close(self) -> None:
        """Close the file; what is there then is opened by the next use."""
        self.drop()
        self._identity = None

    def drop(self) -> None:
        """Give up a connection that a handler may have closed or set otherwise; the same file is opened by the next use."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.rollback()  # which close() does not do while a cursor of a handler's is half way
            with suppress(sqlite3.Error):
                connection.close()

    def leave_to_parent(self) -> None:
        """Use nothing of the parent's in a child: SQLite's connections must not cross a fork, and this one is never closed here."""
        self._inherited, self._connection, self._identity = self._connection, None, None

    def require_there(self) -> None:
        """Refuse to go on without the file that was opened: what is written to one without a name is lost.

        Raises:
            InboxError: `inbox.unavailable`.
        """
        if not is_still_there(self._path, self._identity):
            raise InboxError(
                "inbox.unavailable",
                f"the inbox's file {self._path} was moved, replaced or deleted: start the process again",
            )

    def _connect(self) -> sqlite3.Connection:
        if self._identity is not None:
            self.require_there()
        try:
            # SQLite gives its side files the mode of the main one; itself it would make that readable for others, so it makes none.
            identity = self._identity or make_private(self._path)
            there = f"{self._path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                there, uri=True, isolation_level=None, check_same_thread=False, timeout=self._wait_s
            )
        except (OSError, sqlite3.Error) as e:
            raise unavailable(e) from e
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        self._identity = identity
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self._on_connect is not None:
            _hand(connection, self._on_connect)
        run(connection, "PRAGMA journal_mode = WAL")
        run(connection, f"PRAGMA synchronous = {self._synchronous.value}")
        run(connection, f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
        run(connection, f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        run(connection, "PRAGMA temp_store = MEMORY")  # what savepoints keep; it may hold bodies


def _hand(connection: sqlite3.Connection, on_connect: OnConnect) -> None:
    try:
        on_connect(connection)
    except TppkitError:
        raise
    except Exception as e:
        raise InboxError("inbox.unavailable", f"on_connect of the inbox's SQLite file raised {type(e).__name__}") from e
    if in_transaction(connection):
        raise ConfigurationError("inbox.setting", "on_connect left a transaction open on the inbox's connection")


def _is_idle(connection: sqlite3.Connection) -> bool:
    try:
        return not connection.in_transaction
    except sqlite3.ProgrammingError:  # closed
        return False


def in_transaction(connection: sqlite3.Connection) -> bool:
    """Whether a connection is in a transaction; one that is closed is in none."""
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False


def run(connection: sqlite3.Connection, sql: str) -> None:
    """Run a statement of the inbox's own.

    Raises:
        InboxError: `inbox.unavailable`.
    """
    try:
        connection.execute(sql)
    except sqlite3.Error as e:
        raise unavailable(e) from e


def unavailable(error: Exception) -> InboxError:
    """SQLite failed, or the file system under it."""
    return InboxError("inbox.unavailable", f"the inbox's SQLite file fails: {error}")
