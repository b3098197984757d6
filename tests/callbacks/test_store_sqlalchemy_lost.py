"""The store behind SQLAlchemy sessions when the database is lost, or the task cancelled, in the middle of its work."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from inboxes import AT, login, make_effects, new_prefix, read_effects, receiver
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from tppkit.callbacks import AsyncInbox, Inbox, Outcome
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from tppkit.errors import InboxError


@pytest.fixture
def address(postgresql_url: str) -> str:
    return postgresql_url.replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def engine(address: str) -> Iterator[Engine]:
    engine = create_engine(address)
    yield engine
    engine.dispose()


@pytest.fixture
def prefix(postgresql_url: str, engine: Engine) -> str:
    """Of tables that are there, with one for effects."""
    prefix = new_prefix("lost")
    SqlalchemyStore(sessionmaker(engine), prefix=prefix).create_tables()
    make_effects(postgresql_url, prefix)
    return prefix


def cut(url: str, connection: Connection) -> None:
    """Have the server end a connection."""
    with psycopg.connect(url, autocommit=True) as other:
        process = connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
        # Its process has ended when it is told of no more, or SQLAlchemy might still find the connection alive.
        other.execute("SELECT pg_terminate_backend(%s, 20000)", (process,))


def write(connection: Connection, prefix: str, line: str) -> None:
    connection.execute(text(f"INSERT INTO {prefix}effects (line) VALUES (:line)"), {"line": line})


def test_a_connection_that_is_lost_when_the_store_begins_still_commits_and_rolls_back_for_the_application(
    postgresql_url: str, engine: Engine, prefix: str
):
    with engine.connect() as connection:
        inbox = Inbox(receiver(), SqlalchemyStore(sessionmaker(bind=connection), prefix=prefix))
        inbox.accept(login("r0"), at=AT)
        cut(postgresql_url, connection)
        with pytest.raises(InboxError) as caught:
            inbox.accept(login("r1"), at=AT)
        assert caught.value.code == "inbox.unavailable"
        assert not connection.in_transaction()
        write(connection, prefix, "undone")
        connection.rollback()
        write(connection, prefix, "kept")
        connection.commit()
        assert inbox.accept(login("r1"), at=AT).outcome is Outcome.STORED
    assert read_effects(postgresql_url, prefix) == ["kept"]


def cancel_at(connection: AsyncConnection, statement: str) -> None:
    """Cancel the task that sends a statement, once."""

    def cancel(own: Connection, cursor: Any, sent: str, *_: Any) -> None:
        if statement in sent:
            event.remove(connection.sync_connection, "before_cursor_execute", cancel)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    event.listen(connection.sync_connection, "before_cursor_execute", cancel)


def test_a_task_cancelled_when_the_store_begins_leaves_the_applications_connection_usable(
    postgresql_url: str, address: str, prefix: str
):
    async def scenario() -> None:
        engine = create_async_engine(address)
        async with engine.connect() as connection:
            inbox = AsyncInbox(receiver(), AsyncSqlalchemyStore(async_sessionmaker(bind=connection), prefix=prefix))
            cancel_at(connection, "READ COMMITTED")
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(inbox.accept(login("r1"), at=AT))
            assert not connection.in_transaction()
            await connection.run_sync(write, prefix, "undone")
            await connection.rollback()
            await connection.run_sync(write, prefix, "kept")
            await connection.commit()
            assert (await inbox.accept(login("r1"), at=AT)).outcome is Outcome.STORED
        await engine.dispose()

    asyncio.run(scenario())
    assert read_effects(postgresql_url, prefix) == ["kept"]


def test_a_savepoint_that_only_the_lost_connection_ended_is_not_told_as_the_handlers_doing(
    postgresql_url: str, engine: Engine, prefix: str
):
    inbox = Inbox(receiver(), SqlalchemyStore(sessionmaker(engine), prefix=prefix))
    for number in range(2):
        inbox.accept(login(f"r{number}"), at=AT)
    event.listen(engine, "rollback_savepoint", lambda connection, *_: cut(postgresql_url, connection), once=True)

    def fails(callback: Any, session: Session) -> None:
        raise LookupError

    assert [one.outcome for one in inbox.work(fails, at=AT)] == [
        Outcome.FAILED
    ] * 2  # each alone, behind the one for both
    assert [failure.reason for failure in inbox.failed()] == ["LookupError"] * 2


class Way:
    """The application's own way to its database, as through a tunnel: what SQLAlchemy passes on as it is when it is closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._port = socket.create_server(("127.0.0.1", 0))
        self._address = self._port.getsockname()

    def close(self) -> None:
        self._port.close()

    def connect(self) -> psycopg.Connection[Any]:
        with socket.create_connection(self._address):
            return psycopg.connect(self._url)

    async def connect_awaited(self) -> psycopg.AsyncConnection[Any]:
        _, writer = await asyncio.open_connection(*self._address)
        writer.close()
        return await psycopg.AsyncConnection.connect(self._url)


@pytest.fixture
def way(postgresql_url: str) -> Iterator[Way]:
    way = Way(postgresql_url)
    yield way
    way.close()


def test_an_error_of_the_system_when_connecting_is_the_stores_and_replaces_no_handlers(
    address: str, engine: Engine, prefix: str, way: Way
):
    direct = Inbox(receiver(), SqlalchemyStore(sessionmaker(engine), prefix=prefix))
    engine = create_engine(address, creator=way.connect, poolclass=NullPool)
    inbox = Inbox(receiver(), SqlalchemyStore(sessionmaker(engine), prefix=prefix))

    def fails(callback: Any, session: Session) -> None:
        if callback.request_id == "r2":
            way.close()
        raise PermissionError

    for request_id in ("r1", "r2"):  # the failure of the second cannot be kept
        with pytest.raises(PermissionError):
            inbox.handle(login(request_id), fails, at=AT)
    with pytest.raises(InboxError) as caught:
        inbox.accept(login("r3"), at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert [one.reason for one in direct.failed()] == ["PermissionError"]


def test_an_error_of_the_system_when_connecting_is_the_awaited_stores_and_replaces_no_handlers(
    address: str, prefix: str, way: Way
):
    async def fails(callback: Any, session: AsyncSession) -> None:
        if callback.request_id == "r2":
            way.close()
        raise PermissionError

    async def scenario() -> None:
        engine = create_async_engine(address, async_creator=way.connect_awaited, poolclass=NullPool)
        inbox = AsyncInbox(receiver(), AsyncSqlalchemyStore(async_sessionmaker(engine), prefix=prefix))
        for request_id in ("r1", "r2"):
            with pytest.raises(PermissionError):
                await inbox.handle(login(request_id), fails, at=AT)
        with pytest.raises(InboxError) as caught:
            await inbox.accept(login("r3"), at=AT)
        assert caught.value.code == "inbox.unavailable"
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
        async with async_sessionmaker(engine)() as session:
            with pytest.raises(InboxError) as caught:
                await inbox.once(login("r4"), at=AT, within=session)
        assert caught.value.code == "inbox.unavailable"

    asyncio.run(scenario())
