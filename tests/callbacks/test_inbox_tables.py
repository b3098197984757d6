"""The inbox's tables are created, or found, while others are at work."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inboxes import AT, Case, located, login, new_prefix, open_case, outcome, receiver
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from tppkit.callbacks import Inbox, Outcome
from tppkit.callbacks.stores.postgresql import AsyncPostgresqlStore, PostgresqlStore
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from tppkit.callbacks.stores.sqlite import SqliteStore
from tppkit.errors import ConfigurationError, InboxError

STORES = ("sqlite", "postgresql", "sqlalchemy-sqlite", "sqlalchemy-postgresql")


@contextmanager
def impatient(name: str, location: str, prefix: str, *, options: str = "-c statement_timeout=2s") -> Iterator[Any]:
    """A store of a process that starts: it waits for others shortly, or not at all."""
    if name == "sqlite":
        store = SqliteStore(Path(location), wait_s=0.05)
        yield store
        store.close()
    elif name == "postgresql":
        yield PostgresqlStore(lambda: psycopg.connect(location, options=options), prefix=prefix)
    else:
        arguments = {"timeout": 0.05} if name == "sqlalchemy-sqlite" else {"options": options}
        engine = create_engine(location, connect_args=arguments)
        yield SqlalchemyStore(sessionmaker(engine), prefix=prefix)
        engine.dispose()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    name = request.param
    return name, located(name, tmp_path, request.getfixturevalue), new_prefix("tables")


def start_while_handled(place: tuple[str, str, str], case: Case) -> list[str]:
    """Create the tables while a handler is in a transaction; says which of its effects are there."""

    def starts(callback: Any, connection: Any) -> None:
        case.handler(callback, connection)
        with impatient(*place) as store:
            store.create_tables()

    assert Inbox(receiver(), case.store).handle(login("r1"), starts, at=AT).outcome is Outcome.APPLIED
    return case.effects()


def test_a_process_that_starts_waits_for_no_handler(place: tuple[str, str, str]):
    with open_case(*place) as case:
        assert start_while_handled(place, case) == ["r1 -"]


@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_tables_that_are_up_to_date_are_not_written(name: str, request: pytest.FixtureRequest):
    place = name, located(name, Path(), request.getfixturevalue), new_prefix("current")
    with open_case(*place), impatient(*place, options="-c default_transaction_read_only=on") as store:
        store.create_tables()


def test_a_role_that_may_only_read_and_write_rows_can_start(postgresql_url: str):
    prefix = new_prefix("rights")
    role = f"{prefix}clerk"
    with open_case("postgresql", postgresql_url, prefix) as case:
        with psycopg.connect(postgresql_url) as connection:
            connection.execute(f"CREATE ROLE {role} LOGIN")
            for table in ("callbacks", "versions", "schema"):
                connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix}{table} TO {role}")
        store = PostgresqlStore(lambda: psycopg.connect(postgresql_url, user=role), prefix=prefix)
        store.create_tables()
        assert Inbox(receiver(), store).accept(login("r1"), at=AT).outcome is Outcome.STORED
        assert [one.outcome for one in Inbox(receiver(), case.store).work(case.handler, at=AT)] == [Outcome.APPLIED]


@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_tables_that_are_in_use_are_changed_within_a_second_or_not_at_all(name: str, request: pytest.FixtureRequest):
    place = name, located(name, Path(), request.getfixturevalue), new_prefix("inuse")
    url, prefix = request.getfixturevalue("postgresql_url"), place[2]
    with open_case(*place) as case, psycopg.connect(url) as connection:
        connection.execute(f"UPDATE {prefix}schema SET version = 1")
        for table in ("callbacks", "versions"):
            connection.execute(f"ALTER TABLE {prefix}{table} DROP COLUMN content")
        connection.commit()
        connection.execute(f"LOCK TABLE {prefix}callbacks IN ROW EXCLUSIVE MODE")  # as by one who writes
        with impatient(*place, options="-c statement_timeout=60s") as store, pytest.raises(InboxError) as caught:
            store.create_tables()
        assert caught.value.code == "inbox.unavailable"
        assert "LockNotAvailable" in repr(caught.value.__cause__)
        connection.commit()
        case.store.create_tables()  # type: ignore[attr-defined]
        assert Inbox(receiver(), case.store).accept(login("r1"), at=AT).outcome is Outcome.STORED


@contextmanager
def beside(place: tuple[str, str, str]) -> Iterator[tuple[Any, str]]:
    """A connection to where the tables are, and their prefix."""
    name, location, prefix = place
    if "postgresql" in name:
        connection: Any = psycopg.connect(location.replace("postgresql+psycopg:", "postgresql:"), autocommit=True)
    else:
        connection = sqlite3.connect(location.removeprefix("sqlite:///"), isolation_level=None)
    with closing(connection):
        yield connection, "tppkit_inbox_" if name == "sqlite" else prefix


@pytest.mark.parametrize("lost", ["callbacks", "versions", "schema"])
def test_a_table_that_is_absent_beside_the_others_is_created(place: tuple[str, str, str], lost: str):
    with open_case(*place) as case, beside(place) as (connection, own):
        connection.execute(f"DROP TABLE {own}{lost}")
        case.store.create_tables()  # type: ignore[attr-defined]
        assert Inbox(receiver(), case.store).handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
        with impatient(*place) as store:
            store.create_tables()


def test_tables_of_a_later_version_are_refused_and_left_alone(place: tuple[str, str, str]):
    with open_case(*place):
        pass
    with beside(place) as (connection, own), impatient(*place) as store:
        connection.execute(f"UPDATE {own}schema SET version = 99")
        connection.execute(f"DROP INDEX {own}callbacks_due")
        with pytest.raises(ConfigurationError) as caught:
            store.create_tables()
        assert caught.value.code == "inbox.schema"
        connection.execute(f"CREATE INDEX {own}callbacks_due ON {own}callbacks (due_at)")  # it was not made again


@pytest.mark.parametrize("kind", ["postgresql", "sqlalchemy"])
def test_an_awaited_store_that_starts_waits_for_no_handler(kind: str, postgresql_url: str):
    prefix = new_prefix("tables")
    place = "postgresql", postgresql_url, prefix
    options = "-c statement_timeout=2s -c default_transaction_read_only=on"

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(postgresql_url, options=options) as connection:
            yield connection

    async def start() -> None:
        if kind == "postgresql":
            await AsyncPostgresqlStore(connect, prefix=prefix).create_tables()
            return
        address = postgresql_url.replace("postgresql:", "postgresql+psycopg:")
        engine = create_async_engine(address, connect_args={"options": options})
        await AsyncSqlalchemyStore(async_sessionmaker(engine), prefix=prefix).create_tables()
        await engine.dispose()

    with open_case(*place) as case:

        def starts(callback: Any, connection: Any) -> None:
            case.handler(callback, connection)
            asyncio.run(start())

        assert Inbox(receiver(), case.store).handle(login("r1"), starts, at=AT).outcome is Outcome.APPLIED
