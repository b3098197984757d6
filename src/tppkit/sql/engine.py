"""Engines for SQLite files and PostgreSQL: private files, limited waiting, and no connection that crosses a fork."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from sqlalchemy import URL, Engine, MetaData, QueuePool, Table, create_engine, event, inspect, make_url
from sqlalchemy.exc import SQLAlchemyError

from tppkit._files import as_path, is_private_sqlite_file, is_still_there, make_private, require_wait
from tppkit.errors import ConfigurationError

if TYPE_CHECKING:
    import psycopg

_RETRY_S = 0.005
_SERVER_FIRST_S = 0.5  # the server's own limit ends a statement first, which keeps the connection


def make_engine(
    address: str | URL, *, code: str, wait_s: float, limits_statements: bool = True, **options: Any
) -> Engine:
    """Make an engine, without connecting. Its errors and its log have no values of statements.

    A SQLite file that does not exist is made for its owner alone. If it is moved, replaced or deleted later, connecting fails.

    Args:
        address: for example `sqlite:///ids.sqlite` or `postgresql+psycopg://host/name`.
        code: code of the error for an address that cannot be used.
        wait_s: how long to wait for a connection that another thread uses, for a lock of SQLite, and for connecting to PostgreSQL,
            each in seconds.
        limits_statements: whether a statement may take `wait_s` at most on PostgreSQL.
        options: more arguments of `sqlalchemy.create_engine`.

    Raises:
        ConfigurationError: the given code, or `extra.missing`.
        SQLAlchemyError: the address cannot be parsed, or its driver is unknown.
        OSError: the file cannot be made.
    """
    require_wait(wait_s, code=code)
    options |= {"hide_parameters": True, "pool_timeout": wait_s}
    try:
        url = make_url(address)
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ConfigurationError(code, f"{url.get_backend_name()} is neither sqlite nor postgresql")
        dialect = url.get_dialect()
        if dialect.is_async:
            raise ConfigurationError(code, f"{url.drivername} is for asyncio, and would block the event loop here")
        dialect().create_connect_args(url)  # converts the arguments, before the first connection does
        if url.get_backend_name() == "sqlite":
            engine = _make_file_engine(url, code, wait_s, options)
        else:
            engine = create_engine(url, pool_pre_ping=True, connect_args=_connecting(url, wait_s), **options)
            if limits_statements:
                _limit_waits(engine, wait_s)
    except ImportError as e:
        message = f"{e.name or url.get_driver_name()}, the driver of the database, is not installed: pip install 'tppkit[postgres]' for postgresql+psycopg://"
        raise ConfigurationError("extra.missing", message) from e
    except (TypeError, ValueError) as e:  # the port, or an argument; without the value, which may have a password
        message = "the address has a part of a wrong type: give for example sqlite:///tpp.sqlite or postgresql+psycopg://host/name"
        raise ConfigurationError(code, message) from e
    close_at_fork(engine)
    return engine


def _connecting(url: URL, wait_s: float) -> dict[str, Any]:
    if url.get_driver_name() not in ("psycopg", "psycopg2") or "connect_timeout" in url.query:
        return {}
    return {"connect_timeout": max(1, round(wait_s))}  # psycopg waits at least 2 seconds


def _limit_waits(engine: Engine, wait_s: float) -> None:
    """Limit how long an engine's connections wait for PostgreSQL to answer a statement.

    The server applies `statement_timeout`, and kernels apply the timeouts of TCP. Neither ends the wait for a server that hangs behind a
    pooler or load balancer that still acknowledges packets. So psycopg, an extra, gets its own limit.

    Args:
        engine: an engine that has not connected yet; one with another driver than psycopg and psycopg2 is not changed.
        wait_s: seconds; psycopg waits half a second longer for a statement, because the server has the same limit.
    """
    if engine.dialect.driver not in ("psycopg", "psycopg2"):
        return
    timeout = f"-c statement_timeout={int(wait_s * 1000)}"
    limited = _connection_class(wait_s + _SERVER_FIRST_S) if engine.dialect.driver == "psycopg" else None

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: list[Any], names: dict[str, Any]) -> Any:
        # Add the limit to the options of the address.
        names["options"] = f"{names.get('options', '')} {timeout}".strip()
        names.setdefault("tcp_user_timeout", int(wait_s * 1000))
        return limited.connect(*arguments, **names) if limited else None


def _connection_class(wait_s: float) -> type[psycopg.Connection[Any]]:
    """A connection class whose connections close when a statement is not answered within `wait_s` seconds."""
    import psycopg

    class LimitedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *settings: Any, **more: Any) -> Any:
            return super().wait(self._limited(gen), *settings, **more)

        def _limited(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            end = time.monotonic() + wait_s
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted  # psycopg comes back ten times a second, also with nothing ready
                    if time.monotonic() >= end:
                        self.close()
                        raise psycopg.OperationalError("the server does not answer in time")
                    wanted = steps.send(ready)
            except StopIteration as e:
                return e.value

    return LimitedConnection


def _make_file_engine(url: URL, code: str, wait_s: float, options: dict[str, Any]) -> Engine:
    if not is_private_sqlite_file(url.database):
        raise ConfigurationError(
            code, "a SQLite database is named by the path of a file: one in memory is lost, a URI is not private"
        )
    engine = create_engine(url, connect_args={"timeout": wait_s}, **options)
    file = as_path(str(url.database))
    identity = make_private(file)  # SQLite's journals get the same mode

    @event.listens_for(engine, "do_connect")  # SQLite would make a new file, which others could read
    @event.listens_for(engine, "checkout")
    def require_file(*_: Any) -> None:
        if not is_still_there(file, identity):
            raise sqlite3.OperationalError("the SQLite file was moved, replaced or deleted")

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA temp_store=MEMORY")  # data of savepoints may be personal

    return engine


def make_memory_engine(wait_s: float) -> Engine:
    """Make an engine for a SQLite database in memory, with one connection, because another one would have another database.

    Args:
        wait_s: how long to wait for the thread that uses the connection, in seconds.
    """
    return create_engine(
        "sqlite://", hide_parameters=True, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=wait_s,
        connect_args={"check_same_thread": False},
    )  # fmt: skip


def use_wal(engine: Engine, *, wait_s: float) -> None:
    """Switch the SQLite file of an engine to WAL mode, which the file keeps: readers then do not wait for a writer.

    Not for each connection, because a file that has none of our tables, such as that of a mistyped name, must not be changed.

    Args:
        engine: one of `make_engine`; one of PostgreSQL is left as it is.
        wait_s: how long to wait for other processes, in seconds.

    Raises:
        SQLAlchemyError: the file cannot be opened.
        sqlite3.Error: the mode cannot be changed.
    """
    if engine.dialect.name != "sqlite":
        return
    end = time.monotonic() + wait_s
    with closing(engine.raw_connection()) as connection:  # the mode cannot be changed in a transaction
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as e:
                # While another process changes the mode, SQLite may fail at once instead of waiting.
                if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
                time.sleep(_RETRY_S)


def create_tables(engine: Engine, *tables: MetaData) -> str | None:
    """Create the tables that are absent, also if another process does the same.

    Returns:
        The name of a table that existed and lacks a column, because it is another one or of another version; None if there is none.

    Raises:
        SQLAlchemyError: the database fails.
    """
    each = [table for metadata in tables for table in metadata.sorted_tables]
    try:
        with engine.begin() as db:  # one commit: each waits for the disk
            for table in each:
                table.create(db, checkfirst=True)
    except SQLAlchemyError:
        _create_one_by_one(engine, each)
    with engine.connect() as db:
        inspector = inspect(db)
        for table in each:
            found = {column["name"] for column in inspector.get_columns(table.name)}
            if not found.issuperset(table.columns.keys()):
                return table.name
    return None


def _create_one_by_one(engine: Engine, tables: list[Table]) -> None:
    for table in tables:
        try:
            table.create(engine, checkfirst=True)
        except SQLAlchemyError:  # another process may have made it meanwhile
            if not inspect(engine).has_table(table.name):
                raise


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
