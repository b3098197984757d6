"""PostgreSQL at a level stricter than its default: two that meet wait for each other, and neither is given up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from inboxes import AT, login, new_prefix, outcome, postgresql_case, receiver
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from tppkit.callbacks import AsyncInbox, Inbox, Outcome
from tppkit.callbacks.stores import AsyncStore
from tppkit.callbacks.stores.postgresql import AsyncPostgresqlStore, PostgresqlStore
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore

LEVELS = ("repeatable read", "serializable")
LEVEL = "SHOW transaction_isolation"
KINDS = ("driver", "server", "sqlalchemy")


def store_at(level: str, kind: str, url: str, prefix: str) -> PostgresqlStore | SqlalchemyStore:
    """A patient store whose connections have a level, set by the driver, the server's default or the engine."""
    patient = "-c lock_timeout=60s"
    if kind == "sqlalchemy":
        address = url.replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(
            address, isolation_level=level.upper(), connect_args={"options": patient}, poolclass=NullPool
        )
        return SqlalchemyStore(sessionmaker(engine), prefix=prefix)

    def connect() -> psycopg.Connection:
        if kind == "server":
            written = level.replace(" ", "\\ ")
            return psycopg.connect(url, options=f"{patient} -c default_transaction_isolation={written}")
        connection = psycopg.connect(url, options=patient)
        connection.isolation_level = psycopg.IsolationLevel[level.upper().replace(" ", "_")]
        return connection

    return PostgresqlStore(connect, prefix=prefix)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_deliveries_of_one_record_that_meet_are_both_answered(postgresql_url: str, level: str, kind: str):
    prefix, met = new_prefix("level"), threading.Event()
    case = postgresql_case(postgresql_url, prefix)
    inbox = Inbox(receiver(), store_at(level, kind, postgresql_url, prefix))
    seen: list[Any] = []

    def first(callback: Any, connection: Any) -> None:
        seen.append(connection.execute(text(LEVEL) if kind == "sqlalchemy" else LEVEL).fetchone()[0])
        met.set()
        wait_until_blocked(postgresql_url)

    def second() -> Outcome:
        met.wait(20)
        return inbox.handle(outcome("r2", ver=2), lambda *_: None, at=AT).outcome

    with ThreadPoolExecutor(1) as thread:
        told = thread.submit(second)
        assert inbox.handle(outcome("r1"), first, at=AT).outcome is Outcome.APPLIED
        assert told.result(20) is Outcome.APPLIED
    assert seen == ["read committed"]
    assert case.store.failed(limit=9) == []


def wait_until_blocked(url: str) -> None:
    """Return when another transaction waits for a lock."""
    deadline = time.monotonic() + 20
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("level", LEVELS)
def test_the_callers_own_transaction_keeps_its_level(postgresql_url: str, level: str):
    prefix = new_prefix("level")
    postgresql_case(postgresql_url, prefix)
    inbox = Inbox(receiver(), PostgresqlStore(lambda: psycopg.connect(postgresql_url), prefix=prefix))
    with psycopg.connect(postgresql_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level.upper().replace(" ", "_")]
        assert inbox.once(login("r1"), at=AT, within=connection).outcome is Outcome.APPLIED
        assert connection.execute(LEVEL).fetchone() == (level,)


@pytest.mark.parametrize("kind", ["driver", "sqlalchemy"])
def test_an_awaited_stores_own_transactions_are_read_committed(postgresql_url: str, kind: str):
    prefix, seen = new_prefix("level"), list[str]()
    postgresql_case(postgresql_url, prefix)

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(postgresql_url) as connection:
            await connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
            yield connection

    async def look(callback: Any, connection: Any) -> None:
        cursor = await connection.execute(text(LEVEL) if kind == "sqlalchemy" else LEVEL)
        row = cursor.fetchone()
        seen.append((await row if kind == "driver" else row)[0])

    async def scenario() -> None:
        address = postgresql_url.replace("postgresql:", "postgresql+psycopg:")
        engine = create_async_engine(address, isolation_level="SERIALIZABLE")
        driver, orm = (
            AsyncPostgresqlStore(connect, prefix=prefix),
            AsyncSqlalchemyStore(async_sessionmaker(engine), prefix=prefix),
        )
        store: AsyncStore = driver if kind == "driver" else orm
        assert (await AsyncInbox(receiver(), store).handle(login("r1"), look, at=AT)).outcome is Outcome.APPLIED
        await engine.dispose()

    asyncio.run(scenario())
    assert seen == ["read committed"]


class Tenants(Session):
    """The application's sessions: each says whose rows it may see, as row-level security has it."""


@event.listens_for(Tenants, "after_begin")
def say_whose(session: Session, transaction: object, connection: Connection) -> None:
    connection.execute(text("SELECT set_config('app.tenant', '7', true)"))


SEEN = text("SELECT current_setting('transaction_isolation'), current_setting('app.tenant')")


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_sessions_that_ask_something_when_they_begin_are_read_committed_too(
    postgresql_url: str, level: str, awaited: bool
):
    prefix, address = new_prefix("level"), postgresql_url.replace("postgresql:", "postgresql+psycopg:")
    postgresql_case(postgresql_url, prefix)
    seen: list[Any] = []

    def look(callback: Any, session: Session) -> None:
        seen.append(tuple(session.execute(SEEN).one()))

    async def look_too(callback: Any, session: AsyncSession) -> None:
        seen.append(tuple((await session.execute(SEEN)).one()))

    async def scenario() -> None:
        engine = create_async_engine(address, isolation_level=level.upper())
        make = async_sessionmaker(engine, sync_session_class=Tenants)
        inbox = AsyncInbox(receiver(), AsyncSqlalchemyStore(make, prefix=prefix))
        assert (await inbox.handle(login("r1"), look_too, at=AT)).outcome is Outcome.APPLIED
        async with make() as session:  # the same connection of the pool
            await look_too(None, session)
        await engine.dispose()

    if awaited:
        asyncio.run(scenario())
    else:
        engine = create_engine(address, isolation_level=level.upper())
        make = sessionmaker(engine, class_=Tenants)
        inbox = Inbox(receiver(), SqlalchemyStore(make, prefix=prefix))
        assert inbox.handle(login("r1"), look, at=AT).outcome is Outcome.APPLIED
        with make() as session:
            look(None, session)
        engine.dispose()
    assert seen == [("read committed", "7"), (level, "7")]


def test_a_connection_that_sessions_are_bound_to_keeps_its_level(postgresql_url: str):
    prefix, seen = new_prefix("level"), list[Any]()
    postgresql_case(postgresql_url, prefix)
    engine = create_engine(postgresql_url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="SERIALIZABLE")
    with engine.connect() as connection:
        inbox = Inbox(receiver(), SqlalchemyStore(sessionmaker(bind=connection), prefix=prefix))
        inbox.handle(login("r1"), lambda _, session: seen.append(session.scalar(text(LEVEL))), at=AT)
        seen.append(connection.scalar(text(LEVEL)))
    engine.dispose()
    assert seen == ["read committed", "serializable"]


def by_the_driver(connection: Any) -> None:
    connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)


def by_the_server(connection: Any) -> None:
    connection.cursor().execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    connection.commit()


@pytest.mark.parametrize("give", [by_the_driver, by_the_server])
@pytest.mark.parametrize("awaited", [False, True])
def test_a_pooled_connection_keeps_the_level_that_the_application_gave_it(
    postgresql_url: str, give: Callable[[Any], None], awaited: bool
):
    prefix, address = new_prefix("level"), postgresql_url.replace("postgresql:", "postgresql+psycopg:")
    postgresql_case(postgresql_url, prefix)
    seen: list[Any] = []

    def look(callback: Any, session: Session) -> None:
        seen.append(tuple(session.execute(SEEN).one()))

    async def look_too(callback: Any, session: AsyncSession) -> None:
        await session.run_sync(lambda own: look(None, own))

    async def scenario() -> None:
        engine = create_async_engine(address, pool_size=1, max_overflow=0)
        event.listen(engine.sync_engine, "connect", lambda dbapi, _: give(dbapi))
        make = async_sessionmaker(engine, sync_session_class=Tenants)
        inbox = AsyncInbox(receiver(), AsyncSqlalchemyStore(make, prefix=prefix))
        await inbox.handle(login("r1"), look_too, at=AT)
        async with make() as session:
            await look_too(None, session)
        await engine.dispose()

    if awaited:
        asyncio.run(scenario())
    else:
        engine = create_engine(address, pool_size=1, max_overflow=0)
        event.listen(engine, "connect", lambda dbapi, _: give(dbapi))
        make = sessionmaker(engine, class_=Tenants)
        inbox = Inbox(receiver(), SqlalchemyStore(make, prefix=prefix))
        inbox.handle(login("r1"), look, at=AT)
        with make() as session:
            look(None, session)
        engine.dispose()
    assert seen == [("read committed", "7"), ("serializable", "7")]
