"""The store behind SQLAlchemy sessions when the database is lost, or the task cancelled, in the middle of its work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from inboxes import AT, login, make_effects, new_prefix, read_effects, receiver
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

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

    with pytest.raises(InboxError) as caught:
        inbox.work(fails, at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert inbox.failed() == []
