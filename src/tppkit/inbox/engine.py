"""The engines of an inbox: made from an address, safe in a file that is moved, and closed before a fork."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError

from tppkit._extras import missing_extra
from tppkit._files import as_path, is_private_sqlite_file, is_still_there, make_private, require_wait
from tppkit.errors import ConfigurationError, InboxError

DIALECTS = ("sqlite", "postgresql")

# Without the value, which may have a password.
_NO_ADDRESS = (
    "the inbox's database is not a SQLAlchemy address: give for example sqlite:///inbox.sqlite or"
    " postgresql+psycopg://user@host/name"
)


def make_engine(database: Any, wait_s: float) -> Engine:
    """Make the engine of an inbox, or return the given one.

    A SQLite file gets one connection, so that threads wait for each other in the pool and not for the file's lock.

    Args:
        database: a SQLAlchemy address, or an engine, also one for asyncio. A SQLite file that does not exist is made for its owner
            alone.
        wait_s: for an address: how long to wait, in seconds: half of it for a connection that other threads use, half for other
            processes of SQLite or a server of PostgreSQL that does not answer.

    Raises:
        ConfigurationError: `inbox.setting`, `inbox.sqlite`, `inbox.dialect`, `extra.missing`.
        InboxError: `inbox.unavailable`.
    """
    if not isinstance(database, str):
        engine = getattr(database, "sync_engine", database)
        if not isinstance(engine, Engine):
            raise ConfigurationError(
                "inbox.setting", f"a {type(database).__name__} is neither an address nor an engine"
            )
        _require_dialect(engine.dialect.name)
        return engine
    wait_s = require_wait(wait_s, code="inbox.setting")
    try:
        parsed = make_url(database)
    except (SQLAlchemyError, ValueError) as e:  # ValueError: the port
        raise ConfigurationError("inbox.setting", _NO_ADDRESS) from e
    _require_dialect(parsed.get_backend_name())
    try:
        if parsed.get_backend_name() == "sqlite":
            return _make_sqlite_engine(parsed, wait_s)
        arguments = {}
        if parsed.get_driver_name() in ("psycopg", "psycopg2") and "connect_timeout" not in parsed.query:
            arguments["connect_timeout"] = max(1, int(wait_s / 2))  # psycopg waits at least 2 seconds
        return create_engine(
            parsed, hide_parameters=True, pool_pre_ping=True, pool_timeout=wait_s / 2, connect_args=arguments
        )
    except ImportError as e:
        raise missing_extra("postgres", e) from e
    except OSError as e:
        raise InboxError("inbox.unavailable", f"the inbox's file cannot be created: {e.strerror}") from e


def _make_sqlite_engine(url: URL, wait_s: float) -> Engine:
    if not is_private_sqlite_file(url.database):
        raise ConfigurationError(
            "inbox.sqlite",
            "a database in memory is lost with its process, and one named by a URI is not private: give a path",
        )
    file = as_path(str(url.database))
    identity = make_private(file)
    engine = _one_connection(url, wait_s / 2, timeout=wait_s / 2)

    @event.listens_for(engine, "do_connect")
    def do_connect(*_: Any) -> None:
        if not is_still_there(file, identity):  # SQLite would make a new one, which others could read
            raise InboxError("inbox.unavailable", "the inbox's SQLite file was moved, replaced or deleted")

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        _use_wal(connection, wait_s / 2)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA temp_store=MEMORY")  # data of savepoints may be personal

    @event.listens_for(engine, "checkout")
    def checkout(*_: Any) -> None:
        if not is_still_there(file, identity):
            raise DisconnectionError  # the pool connects again, which fails

    return engine


def _use_wal(connection: sqlite3.Connection, wait_s: float) -> None:
    """Change a file to WAL mode; while another process does so, SQLite may fail at once instead of waiting."""
    end = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(0.005)
        else:
            return


def make_memory_engine(wait_s: float) -> Engine:
    """Make an engine for a SQLite database in memory, which all threads share."""
    return _one_connection("sqlite://", wait_s, check_same_thread=False)


def _one_connection(url: str | URL, wait_s: float, **arguments: Any) -> Engine:
    return create_engine(
        url, hide_parameters=True, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=wait_s,
        connect_args=arguments,
    )  # fmt: skip


def _require_dialect(name: str) -> None:
    if name not in DIALECTS:
        raise ConfigurationError("inbox.dialect", f"the inbox has no SQL for {name}; it knows {', '.join(DIALECTS)}")


# Connections must not cross a fork: two processes would write to one socket, and SQLite in the child would rely on locks that only
# the parent has.
_ENGINES = WeakSet[Engine]()


def close_at_fork(engine: Engine) -> None:
    """Keep unused connections from crossing a fork, except those of a SQLite database in memory, which would be lost."""
    if engine.dialect.name != "sqlite" or not _is_in_memory(engine.url):
        _ENGINES.add(engine)


def _before_fork() -> None:
    for engine in list(_ENGINES):
        if engine.dialect.name == "sqlite":
            with suppress(SQLAlchemyError):
                engine.dispose()


def _in_child() -> None:
    for engine in list(_ENGINES):
        engine.dispose(close=False)


def _is_in_memory(url: URL) -> bool:
    return url.database in (None, "", ":memory:")


os.register_at_fork(before=_before_fork, after_in_child=_in_child)
