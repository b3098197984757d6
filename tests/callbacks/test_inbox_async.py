"""The inbox for asyncio: the same inbox, with awaited statements and handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from inboxes import AT, core_url, login, new_prefix, outcome, receiver, scan
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

from refusals import refused
from tppkit.callbacks import AsyncInbox, Inbox, Unhandled
from tppkit.errors import ConfigurationError
from tppkit.inbox import Outcome
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.inbox.tasks import TaskConnection

MINUTE = timedelta(minutes=1)
Scenario = Callable[[AsyncInbox, AsyncEngine, "Effects"], Awaitable[Any]]
Run = Callable[[Scenario], Any]


class Effects:
    """A table of effects, and a handler that writes to it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self) -> None:
        async with self._engine.begin() as db:
            await db.execute(text("DROP TABLE IF EXISTS async_effects"))
            await db.execute(text("CREATE TABLE async_effects (id SERIAL, line TEXT)"))

    async def handler(self, callback: Any, connection: TaskConnection | AsyncConnection | AsyncSession) -> None:
        insert = text("INSERT INTO async_effects (line) VALUES (:line)")
        await connection.execute(insert, {"line": callback.request_id})

    async def lines(self) -> list[str]:
        async with self._engine.connect() as db:
            return list((await db.execute(text("SELECT line FROM async_effects ORDER BY id"))).scalars())


@pytest.fixture
def run(postgresql_url: str) -> Run:
    async def go(scenario: Scenario) -> Any:
        engine = create_async_engine(core_url(postgresql_url))
        effects, inbox = (
            Effects(engine),
            AsyncInbox(receiver(), store := InboxStore(core_url(postgresql_url), prefix=new_prefix("async"))),
        )
        await effects.create()
        await inbox.run(store.create_tables)
        try:
            return await scenario(inbox, engine, effects)
        finally:
            await engine.dispose()
            await inbox.run(store.close)

    return lambda scenario: asyncio.run(go(scenario))


def test_a_callback_takes_effect_once_however_often_it_comes(run):
    async def scenario(inbox: AsyncInbox, engine: AsyncEngine, effects: Effects) -> None:
        receipts = [await inbox.handle(outcome("r1"), effects.handler, at=AT) for _ in range(2)]
        assert [one.outcome for one in receipts] == [Outcome.APPLIED, Outcome.REPEATED]
        assert await effects.lines() == ["r1"]
        assert (await inbox.handle(scan("r2"), effects.handler, at=AT)).outcome is Unhandled.LOGIN

    run(scenario)


def test_a_store_of_an_address_does_not_block_the_event_loop(postgresql_url):
    async def handler(callback: Any, connection: TaskConnection) -> None:
        await connection.execute(text("SELECT pg_sleep(1)"))

    async def scenario(store: InboxStore) -> None:
        inbox, turns = AsyncInbox(receiver(), store), 0
        handling = asyncio.create_task(inbox.handle(outcome("r1"), handler, at=AT))
        while not handling.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert (await handling).outcome is Outcome.APPLIED
        assert turns > 2  # at most one if it were blocked
        await inbox.run(inbox.store.close)

    store = InboxStore(core_url(postgresql_url), prefix=new_prefix("address"))
    store.create_tables()
    asyncio.run(scenario(store))
    store.close()


def test_an_engine_for_asyncio_is_refused_with_advice():
    engine = create_async_engine("postgresql+psycopg://host/name")
    with refused(ConfigurationError, "inbox.setting", match=r'InboxStore\("postgresql'):
        AsyncInbox(receiver(), engine)
    with refused(ConfigurationError, "inbox.setting", match="give its address"):
        InboxStore(engine)


def test_an_accepted_callback_waits_for_a_worker_and_is_tried_again(run):
    async def fails(callback: Any, connection: TaskConnection) -> None:
        raise LookupError

    async def scenario(inbox: AsyncInbox, engine: AsyncEngine, effects: Effects) -> None:
        for n in range(2):
            assert (await inbox.accept(login(f"r{n}"), at=AT)).outcome is Outcome.STORED
        assert [one.outcome for one in await inbox.work(fails, at=AT)] == [Outcome.FAILED] * 2
        (first, second) = await inbox.run(inbox.inbox.failed)
        assert await inbox.run(inbox.inbox.discard, first, at=AT)
        worked = await inbox.work(effects.handler, at=AT + MINUTE)
        assert [one.entry.name for one in worked] == [second.entry.name] == await effects.lines()

    run(scenario)


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_an_effect_in_the_transaction_of_the_caller_is_undone_with_it(run, kind):
    async def fails(callback: Any, connection: Any) -> None:
        await connection.execute(text("INSERT INTO async_effects (line) VALUES ('lost')"))
        raise LookupError

    async def scenario(inbox: AsyncInbox, engine: AsyncEngine, effects: Effects) -> None:
        @asynccontextmanager
        async def begun() -> AsyncIterator[AsyncSession]:
            async with AsyncSession(engine) as session, session.begin():
                yield session

        within: Any = engine.begin if kind == "connection" else begun
        with pytest.raises(LookupError):
            await inbox.handle_within(login("r1"), fails, at=AT, within=within)
        receipt = await inbox.handle_within(login("r1"), effects.handler, at=AT, within=within)
        assert receipt.outcome is Outcome.APPLIED
        async with engine.begin() as db:
            receipt = await db.run_sync(lambda own: inbox.inbox.once(login("r2"), at=AT, within=own))
        assert (receipt.outcome, await effects.lines()) == (Outcome.APPLIED, ["r1"])

    run(scenario)


async def ends_as_cancelled(callback: Any, connection: Any) -> None:
    raise asyncio.CancelledError


async def returns_a_coroutine(callback: Any, connection: Any) -> object:
    return ends_as_cancelled(callback, connection)


@pytest.mark.parametrize("handler", [ends_as_cancelled, returns_a_coroutine, lambda *_: None])
def test_a_handler_that_cannot_be_awaited_to_its_end_has_failed(handler):
    async def scenario() -> list[str]:
        inbox = AsyncInbox(receiver(), MemoryStore())
        with refused(ConfigurationError, "callback.function"):
            await inbox.handle(login("r1"), handler, at=AT)
        return [one.reason for one in await inbox.run(inbox.inbox.failed)]

    assert asyncio.run(scenario()) == ["ConfigurationError [callback.function]"]


class Hides:
    """A context manager that suppresses exceptions, for `with` and `async with`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return True

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize("within", [Hides, object])
def test_a_function_that_opens_no_transaction_of_its_caller_is_rejected(within):
    with refused(ConfigurationError, "inbox.no-transaction"):
        Inbox(receiver(), MemoryStore()).handle_within(login("r1"), lambda *_: None, at=AT, within=within)
    inbox = AsyncInbox(receiver(), MemoryStore())
    with refused(ConfigurationError, "inbox.no-transaction"):
        asyncio.run(inbox.handle_within(login("r1"), ends_as_cancelled, at=AT, within=within))
