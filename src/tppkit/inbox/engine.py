"""The engines of an inbox: made from an address, safe in a file that is moved, and closed before a fork."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tppkit._extras import missing_extra
from tppkit._files import as_path, is_private_sqlite_file, is_still_there, make_private, require_wait
from tppkit.errors import ConfigurationError
from tppkit.inbox.entry import InboxError

_WAIT = "tppkit_wait_s"  # an option of engines that were made from the address of a SQLite file
# Without the value, which may have a password.
_NO_ADDRESS = (
    "SQLAlchemy cannot use the address of the inbox's database: give for example sqlite:///inbox.sqlite or"
    " postgresql+psycopg://host/name, or an engine of your own"
)


def make_engine(database: Any, wait_s: float) -> Engine:
    """Make the engine of an inbox, or return the given one.

    A SQLite file gets one connection, so that threads wait for each other in the pool and not for the file's lock.

    Args:
        database: a SQLAlchemy address, or an engine. A new SQLite file is readable only for its owner.
        wait_s: for an address: seconds to wait, half of them for other threads, half for other processes or the server.

    Raises:
        ConfigurationError: `inbox.setting`, `inbox.sqlite`, `inbox.dialect`, `extra.missing`.
        InboxError: `inbox.unavailable`.
    """
    if not isinstance(database, Engine | str):
        raise ConfigurationError(
            "inbox.setting",
            f"an object of class {type(database).__name__} is neither an address nor an engine. In place of an AsyncEngine, give"
            " its address: AsyncInbox runs the store in threads",
        )
    try:
        url = make_url(database) if isinstance(database, str) else database.url
    except (SQLAlchemyError, ValueError) as e:  # ValueError: the port
        raise ConfigurationError("inbox.setting", _NO_ADDRESS) from e
    dialect = url.get_backend_name()
    if dialect not in ("sqlite", "postgresql"):
        raise ConfigurationError("inbox.dialect", f"the inbox has no SQL for {dialect}; it knows sqlite, postgresql")
    if isinstance(database, Engine):
        return database
    half_s = require_wait(wait_s, code="inbox.setting") / 2
    try:
        url.get_dialect()().create_connect_args(url)  # converts the arguments, before the first connection does
        if dialect == "sqlite":
            return _make_file_engine(url, half_s)
        arguments = {}
        if url.get_driver_name() in ("psycopg", "psycopg2") and "connect_timeout" not in url.query:
            arguments["connect_timeout"] = max(1, int(half_s))  # psycopg waits at least 2 seconds
        return create_engine(
            url, hide_parameters=True, poolclass=QueuePool, pool_pre_ping=True, pool_timeout=half_s, connect_args=arguments,
        )  # fmt: skip
    except ImportError as e:
        if url.get_driver_name() == "psycopg":
            raise missing_extra("postgres", e) from e
        message = f"{e.name}, the driver of the inbox's database, is not installed; postgresql+psycopg:// is supported"
        raise ConfigurationError("extra.missing", message) from e
    except (SQLAlchemyError, TypeError, ValueError) as e:  # an unknown driver or argument
        raise ConfigurationError("inbox.setting", _NO_ADDRESS) from e
    except OSError as e:
        raise InboxError("inbox.unavailable", f"the inbox's file cannot be created: {e.strerror}") from e


def _make_file_engine(url: URL, wait_s: float) -> Engine:
    if not is_private_sqlite_file(url.database):
        raise ConfigurationError(
            "inbox.sqlite",
            "a database in memory is lost with its process, and one named by a URI is not private: give a path",
        )
    engine = make_sqlite_engine(url, wait_s, timeout=wait_s)
    engine.update_execution_options(**{_WAIT: wait_s})
    file = as_path(str(url.database))
    identity = make_private(file)

    @event.listens_for(engine, "do_connect")  # SQLite would make a new file, which others could read
    @event.listens_for(engine, "checkout")
    def require_file(*_: Any) -> None:
        if not is_still_there(file, identity):
            raise InboxError("inbox.unavailable", "the inbox's SQLite file was moved, replaced or deleted")

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA temp_store=MEMORY")  # data of savepoints may be personal

    return engine


def use_wal(engine: Engine) -> None:
    """Switch the SQLite file of an engine of `make_engine` to WAL mode, which the file keeps; leave other engines as they are.

    Not for each connection, because a file that has no inbox, such as that of a mistyped name, must not be changed.

    Raises:
        SQLAlchemyError: the database fails.
    """
    if (wait_s := engine.get_execution_options().get(_WAIT)) is None:
        return
    end = time.monotonic() + wait_s
    with engine.connect() as db:
        while True:
            try:
                db.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
            except OperationalError as e:
                # While another process changes the mode, SQLite may fail at once instead of waiting.
                is_busy = getattr(e.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() >= end:
                    raise
                time.sleep(0.005)


def make_sqlite_engine(url: str | URL, wait_s: float, **arguments: Any) -> Engine:
    """Make an engine with one connection, which all threads share."""
    return create_engine(
        url, hide_parameters=True, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=wait_s,
        connect_args=arguments,
    )  # fmt: skip


# Connections must not cross a fork: two processes would write to one socket, and SQLite in the child would rely on locks that only
# the parent has.
_ENGINES = WeakSet[Engine]()


def close_at_fork(engine: Engine) -> None:
    """Keep unused connections from crossing a fork, except those of a SQLite database in memory, which would be lost."""
    if engine.dialect.name != "sqlite" or engine.url.database not in (None, "", ":memory:"):
        _ENGINES.add(engine)


def _before_fork() -> None:
    for engine in list(_ENGINES):
        if engine.dialect.name == "sqlite":
            with suppress(SQLAlchemyError):
                engine.dispose()


def _in_child() -> None:
    for engine in list(_ENGINES):
        engine.dispose(close=False)


os.register_at_fork(before=_before_fork, after_in_child=_in_child)
