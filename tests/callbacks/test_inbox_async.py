"""The awaited inbox over every awaited store: the same decisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
import redis.asyncio
from inboxes import AT, UUID, login, make_effects, new_prefix, outcome, read_effects, received, receiver, scan
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tppkit.callbacks import (
    AsyncInbox,
    InboxSettings,
    Outcome,
    Receipt,
    ReceivedCallback,
    Retention,
    Retries,
    VerifiedCallback,
)
from tppkit.callbacks.stores import AsyncStore
from tppkit.callbacks.stores.postgresql import AsyncPostgresqlStore
from tppkit.callbacks.stores.redis import AsyncRedisStore
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore
from tppkit.errors import CallbackRejected, ConfigurationError, InboxError

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STORES = ("postgresql", "sqlalchemy", "redis")
TRANSACTIONAL = ("postgresql", "sqlalchemy")


@dataclass
class Case:
    """One store, how a handler writes with it, and a connection of the caller's own."""

    store: AsyncStore
    write: Callable[[Any, str], Awaitable[object]]
    effects: Callable[[], Awaitable[list[str]]]
    own: Callable[[], Any]

    async def handler(self, callback: VerifiedCallback, connection: Any) -> None:
        await self.write(connection, callback.request_id)


@asynccontextmanager
async def open_case(name: str, url: str) -> AsyncIterator[Case]:
    prefix = new_prefix("async")
    if name == "redis":
        async with redis.asyncio.Redis.from_url(url) as client:
            key = f"{{{prefix}}}:effects"

            async def lines() -> list[str]:
                return [line.decode() for line in await client.lrange(key, 0, -1)]

            store = AsyncRedisStore(client, prefix=f"{{{prefix}}}:")
            yield Case(store, lambda _, line: client.rpush(key, line), lines, lambda: None)
        return
    make_effects(url, prefix)

    async def effects() -> list[str]:
        return read_effects(url, prefix)

    insert = f"INSERT INTO {prefix}effects (line) VALUES "
    if name == "postgresql":

        @asynccontextmanager
        async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                yield connection

        store_pg = AsyncPostgresqlStore(connect, prefix=prefix)
        await store_pg.create_tables()
        yield Case(store_pg, lambda c, line: c.execute(f"{insert} (%s)", (line,)), effects, connect)
        return
    engine = create_async_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    make_session = async_sessionmaker(engine)
    store_orm = AsyncSqlalchemyStore(make_session, prefix=prefix)
    await store_orm.create_tables()
    yield Case(store_orm, lambda s, line: s.execute(text(f"{insert} (:line)"), {"line": line}), effects, make_session)
    await engine.dispose()


Scenario = Callable[[AsyncInbox, Case], Awaitable[None]]


@pytest.fixture
def run(request: pytest.FixtureRequest, store: str) -> Callable[[Scenario], None]:
    """Run a scenario in an event loop of its own, over the store that is asked for."""
    url = request.getfixturevalue("redis_url" if store == "redis" else "postgresql_url")

    async def scene(scenario: Scenario) -> None:
        async with open_case(store, url) as case:
            await scenario(AsyncInbox(receiver(), case.store), case)

    return lambda scenario: asyncio.run(scene(scenario))


async def raising(callback: VerifiedCallback, connection: Any) -> None:
    raise LookupError


@pytest.mark.parametrize("store", STORES)
def test_a_callback_has_its_effect_once_however_often_it_comes(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        outcomes = [(await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome for _ in range(2)]
        assert outcomes == [Outcome.APPLIED, Outcome.REPEATED]
        assert (await inbox.handle(outcome("r2"), case.handler, at=AT)).outcome is Outcome.STALE
        with pytest.raises(CallbackRejected):
            await inbox.handle(outcome("r1", ver=2), case.handler, at=AT)
        assert await case.effects() == ["r1"]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_of_many_tasks_one_has_the_effect(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        for n in range(5):
            receipts = await asyncio.gather(*(inbox.handle(login(f"r{n}"), case.handler, at=AT) for _ in range(4)))
            assert [receipt.outcome for receipt in receipts].count(Outcome.APPLIED) == 1
        assert await case.effects() == [f"r{n}" for n in range(5)]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_an_accepted_callback_waits_for_a_worker_and_is_tried_again(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        assert (await inbox.accept(outcome("r1"), at=AT)).outcome is Outcome.STORED
        assert (await inbox.accept(outcome("r1"), at=AT)).outcome is Outcome.REPEATED
        (failed,) = await inbox.work(raising, at=AT)
        assert failed.outcome is Outcome.FAILED
        (failure,) = await inbox.failed()
        assert (failure.reason, failure.due_at) == ("LookupError", AT + 10 * SECOND)
        assert await inbox.release(failure, at=AT + SECOND)
        (done,) = await inbox.work(case.handler, at=AT + SECOND)
        assert done.outcome is Outcome.APPLIED
        assert await inbox.purge(at=AT + 8 * DAY) == 1
        assert await case.effects() == ["r1"]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_handlers_error_is_raised_and_the_callback_comes_again(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        with pytest.raises(LookupError):
            await inbox.handle(outcome("r1"), raising, at=AT)
        assert len(await inbox.failed()) == 1
        assert (await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome is Outcome.APPLIED

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_what_failed_is_turned_over_and_put_away(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        batch = [login(f"r{n}") for n in range(5)]
        await inbox.handle_all(batch, raising, at=AT)
        found, last = [], None
        while page := await inbox.failed(limit=2, after=last):
            found += [failure.entry.request_id for failure in page]
            last = page[-1]
            assert await inbox.discard(last, at=AT)
            assert not await inbox.discard(last, at=AT)
        assert sorted(found) == [f"r{n}" for n in range(5)]
        left = {failure.entry.request_id for failure in await inbox.failed()}
        answers = {one.callback.request_id: one.outcome for one in await inbox.handle_all(batch, case.handler, at=AT)}  # type: ignore[union-attr]
        assert answers == {name: "applied" if name in left else "repeated" for name in found}
        assert sorted(await case.effects()) == sorted(left)

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_purge_discards_what_failed_for_good_where_it_is_told_to(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        settings = InboxSettings(retention=Retention(failed=30 * DAY), retries=Retries(attempts=1))
        once = AsyncInbox(receiver(), case.store, settings=settings)
        await once.handle_all([login("r1"), login("r2")], raising, at=AT)
        await inbox.handle_all([login("r3")], raising, at=AT)  # tried again by itself
        assert await once.purge(at=AT + 30 * DAY) == 0
        assert len(await once.failed()) == 3
        await once.purge(at=AT + 30 * DAY + SECOND)
        assert [failure.entry.request_id for failure in await once.failed()] == ["r3"]
        assert await once.purge(at=AT + 37 * DAY + 2 * SECOND) == 2

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_handler_of_which_nothing_can_be_awaited_is_a_failure(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await inbox.handle(outcome("r1"), lambda *_: None, at=AT)  # type: ignore[arg-type,return-value]
        assert caught.value.code == "callback.function"
        assert [failure.entry.request_id for failure in await inbox.failed()] == ["r1"]

    run(scenario)


@pytest.mark.parametrize("way", ["handle", "within"])
@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_a_handler_that_hides_an_error_of_the_database_has_had_no_effect(run, store: str, way: str):
    async def swallows(callback: VerifiedCallback, connection: Any) -> None:
        statement = "SELECT 1 FROM nowhere"
        with suppress(psycopg.Error, SQLAlchemyError):
            await connection.execute(statement if store == "postgresql" else text(statement))

    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        handle = inbox.handle if way == "handle" else partial(inbox.handle_within, within=case.own)
        with pytest.raises(ConfigurationError) as caught:
            await handle(outcome("r1"), swallows, at=AT)
        assert caught.value.code == "inbox.handler-aborted"
        assert (await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome is Outcome.APPLIED

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_several_are_handled_together_and_each_has_its_own_answer(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        batch = [login("r1"), login("r2")._replace(headers=()), login("r1"), login("r3")]
        answers = await inbox.handle_all(batch, case.handler, at=AT)
        told = [one.code if isinstance(one, CallbackRejected) else one.outcome.value for one in answers]
        assert told == ["applied", "callback.header-missing", "repeated", "applied"]
        assert sorted(await case.effects()) == ["r1", "r3"]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_of_no_callbacks_there_are_no_receipts(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        assert await inbox.handle_all([], case.handler, at=AT) == []

    run(scenario)


def test_the_cursors_that_a_connection_makes_otherwise_are_the_applications(postgresql_url: str):
    prefix = new_prefix("async")
    make_effects(postgresql_url, prefix)

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        kind = psycopg.AsyncRawCursor
        async with await psycopg.AsyncConnection.connect(postgresql_url, cursor_factory=kind) as connection:
            yield connection

    async def handler(callback: VerifiedCallback, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"INSERT INTO {prefix}effects (line) VALUES ($1)", [callback.request_id])

    async def scenario() -> None:
        store = AsyncPostgresqlStore(connect, prefix=prefix)
        await store.create_tables()
        assert (await AsyncInbox(receiver(), store).handle(login("r1"), handler, at=AT)).outcome is Outcome.APPLIED

    asyncio.run(scenario())
    assert read_effects(postgresql_url, prefix) == ["r1"]


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_what_is_cancelled_was_never_received(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def slow(callback: VerifiedCallback, connection: Any) -> None:
            await case.write(connection, "half")
            await asyncio.sleep(30)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inbox.handle(outcome("r1"), slow, at=AT), timeout=0.5)
        assert await case.effects() == []
        assert (await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome is Outcome.APPLIED

    run(scenario)


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_an_effect_in_the_callers_transaction_is_committed_and_rolled_back_with_it(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async with case.own() as connection:
            for end, expected in (("rollback", "applied"), ("commit", "applied"), ("commit", "repeated")):
                receipt = await inbox.once(outcome("r1"), at=AT, within=connection)
                assert receipt.outcome == expected
                if receipt.outcome is Outcome.APPLIED:
                    await case.write(connection, end)
                await getattr(connection, end)()
        assert await case.effects() == ["commit"]

    run(scenario)


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_a_callback_that_fails_in_a_worker_spoils_no_other(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        for n in range(3):
            await inbox.accept(login(f"r{n}"), at=AT + n * SECOND)

        async def second_fails(callback: VerifiedCallback, connection: Any) -> None:
            await case.handler(callback, connection)
            if callback.request_id == "r1":
                raise LookupError

        assert [one.outcome for one in await inbox.work(second_fails, at=AT + MINUTE)] == [
            "applied",
            "failed",
            "applied",
        ]
        assert await case.effects() == ["r0", "r2"]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_handler_that_ends_as_cancelled_fails_alone(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        for n in range(3):
            await inbox.accept(login(f"r{n}"), at=AT + n * SECOND)

        async def second_awaits_what_was_cancelled(callback: VerifiedCallback, connection: Any) -> None:
            await case.handler(callback, connection)
            if callback.request_id == "r1":
                task = asyncio.ensure_future(asyncio.sleep(60))
                task.cancel()
                await task

        worked = await inbox.work(second_awaits_what_was_cancelled, at=AT + MINUTE)
        assert [one.outcome for one in worked] == ["applied", "failed", "applied"]
        assert [one.reason for one in await inbox.failed()] == ["ConfigurationError [callback.function]"]

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_a_worker_that_is_cancelled_during_a_handler_ends_as_cancelled(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        await inbox.accept(login("r1"), at=AT)
        begun = asyncio.Event()

        async def hangs(callback: VerifiedCallback, connection: Any) -> None:
            begun.set()
            await asyncio.sleep(60)

        worker = asyncio.ensure_future(inbox.work(hangs, at=AT))
        await begun.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert await inbox.failed() == []

    run(scenario)


@pytest.mark.filterwarnings("ignore:transaction already deassociated")  # SQLAlchemy tells it in its own way
@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("store", ["sqlalchemy"])
def test_a_handler_that_ends_the_transaction_of_the_sessions_connection_is_found_out(run, end: str):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def ends(callback: VerifiedCallback, session: Any) -> None:
            await getattr(await session.connection(), end)()

        with pytest.raises(ConfigurationError) as caught:
            await inbox.handle(login("r1"), ends, at=AT)
        assert caught.value.code == "inbox.handler-committed"

    run(scenario)


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_a_connection_that_commits_each_statement_is_no_transaction(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async with case.own() as own:
            if hasattr(own, "set_autocommit"):
                await own.set_autocommit(True)
            else:
                await own.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            with pytest.raises(ConfigurationError) as caught:
                await inbox.once(outcome("r1"), at=AT, within=own)
            assert caught.value.code == "inbox.no-transaction"
        assert (await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome is Outcome.APPLIED

    run(scenario)


@pytest.mark.parametrize("store", ["redis"])
def test_redis_has_no_transaction_for_the_caller(run):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await inbox.once(outcome("r1"), at=AT, within=None)
        assert caught.value.code == "inbox.no-transaction"

    run(scenario)


def test_a_server_that_is_not_there_is_told():
    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect("postgresql://127.0.0.1:1/none", connect_timeout=2) as c:
            yield c

    inbox = AsyncInbox(receiver(), AsyncPostgresqlStore(connect))
    with pytest.raises(InboxError) as caught:
        asyncio.run(inbox.accept(login("r1"), at=AT))
    assert caught.value.code == "inbox.unavailable"


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_what_only_the_commit_refuses_is_the_handlers_failure_and_stops_no_other(run, store: str, postgresql_url: str):
    table = new_prefix("deferred") + "t"
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, other INT REFERENCES {table} DEFERRABLE INITIALLY DEFERRED)"
        )
    statement = f"INSERT INTO {table} VALUES (1, 2)"

    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def dangling(callback: VerifiedCallback, connection: Any) -> None:
            await case.handler(callback, connection)
            if "bad" in callback.request_id:
                await connection.execute(statement if store == "postgresql" else text(statement))

        with pytest.raises((psycopg.IntegrityError, SQLAlchemyError)):
            await inbox.handle(login("bad1"), dangling, at=AT)
        answers = await inbox.handle_all([login("bad2"), login("r2")], dangling, at=AT)
        assert [one.outcome for one in answers] == [Outcome.FAILED, Outcome.APPLIED]  # type: ignore[union-attr]
        for request_id in ("bad3", "r3"):
            await inbox.accept(login(request_id), at=AT)
        worked = {one.entry.request_id: one.outcome for one in await inbox.work(dangling, at=AT)}
        assert worked == {"bad3": Outcome.FAILED, "r3": Outcome.APPLIED}
        assert sorted([failure.entry.request_id for failure in await inbox.failed()]) == ["bad1", "bad2", "bad3"]
        assert sorted(await case.effects()) == ["r2", "r3"]

    run(scenario)


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_a_handler_that_commits_and_raises_is_told_what_it_did(run, store: str):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def commits(callback: VerifiedCallback, connection: Any) -> None:
            # psycopg's own commit() is forbidden here
            await (connection.execute("COMMIT") if store == "postgresql" else connection.commit())
            raise LookupError

        with pytest.raises(ConfigurationError) as caught:
            await inbox.handle(login("r1"), commits, at=AT)
        assert caught.value.code == "inbox.handler-committed"
        with pytest.raises(ConfigurationError) as caught:
            await inbox.once(login("r1"), at=AT, within=None)
        assert caught.value.code == "inbox.no-transaction"

    run(scenario)


@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_a_store_that_fails_behind_each_handler_takes_an_attempt_of_each(run, store: str, postgresql_url: str):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def cut(callback: VerifiedCallback, connection: Any) -> None:
            sql = "SELECT pg_backend_pid()"
            row = (await connection.execute(sql if store == "postgresql" else text(sql))).fetchone()
            own = (await row if store == "postgresql" else row)[0]
            with psycopg.connect(postgresql_url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (own,))

        for n in range(3):
            await inbox.accept(login(f"r{n}"), at=AT + n * SECOND)
        for n in range(1, 4):
            worked = await inbox.work(cut, at=AT + n * HOUR)  # the longest pause of `Retries`
            assert [one.outcome for one in worked] == [Outcome.FAILED] * 3
            failures = [(one.entry.request_id, one.attempts, one.reason) for one in await inbox.failed()]
            assert failures == [(f"r{k}", n, "InboxError [inbox.unavailable]") for k in range(3)]
        worked = await inbox.work(case.handler, at=AT + 4 * HOUR)
        assert [one.outcome for one in worked] == [Outcome.APPLIED] * 3
        assert sorted(await case.effects()) == ["r0", "r1", "r2"]

    run(scenario)


@pytest.mark.parametrize("way", ["handle_all", "work"])
@pytest.mark.parametrize("store", TRANSACTIONAL)
def test_it_is_found_out_whose_handler_ended_the_transaction_of_others(run, store: str, way: str):
    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        async def second_ends(callback: VerifiedCallback, connection: Any) -> None:
            await case.handler(callback, connection)
            if callback.request_id == "r1":
                await (connection.execute("ROLLBACK") if store == "postgresql" else connection.rollback())

        calls = [outcome(f"r{n}", ver=n + 1) for n in range(3)]
        for n, call in enumerate(calls):
            if way == "work":
                await inbox.accept(call, at=AT - MINUTE + n * SECOND)
        with pytest.raises(ConfigurationError) as caught:
            await (inbox.work(second_ends, at=AT) if way == "work" else inbox.handle_all(calls, second_ends, at=AT))
        assert caught.value.code == "inbox.handler-committed"
        (failure,) = await inbox.failed()
        assert failure.entry.request_id == "r1"
        assert (failure.reason, failure.attempts) == ("ConfigurationError [inbox.handler-committed]", 1)
        if way == "work":
            assert len(await inbox.work(case.handler, at=AT)) == 2  # the others, at once
        else:
            await inbox.handle_all([calls[0], calls[2]], case.handler, at=AT)
        assert await case.effects() == ["r0", "r2"]

    run(scenario)


def test_a_handler_that_closes_an_awaited_connection_is_found_out(postgresql_url: str):
    async def scenario() -> None:
        async with open_case("postgresql", postgresql_url) as case:
            with pytest.raises(ConfigurationError) as caught:
                await AsyncInbox(receiver(), case.store).handle(login("r1"), lambda _, c: c.close(), at=AT)
            assert caught.value.code == "inbox.handler-committed"

    asyncio.run(scenario())


@pytest.mark.parametrize("store", ["sqlalchemy"])
def test_a_handler_that_hides_a_flush_that_failed_is_told_so(run):
    class Kept(DeclarativeBase):
        """The application's tables."""

    class Payment(Kept):
        __tablename__ = "async_payments"
        record: Mapped[str] = mapped_column(primary_key=True)

    async def hides(callback: VerifiedCallback, session: Any) -> None:
        await (await session.connection()).run_sync(Kept.metadata.create_all)
        session.add(Payment(record="t1"))
        await session.flush()
        session.expunge_all()
        session.add(Payment(record="t1"))
        with suppress(SQLAlchemyError):
            await session.flush()

    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await inbox.handle(outcome("r1"), hides, at=AT)
        assert caught.value.code == "inbox.handler-aborted"
        assert (await inbox.handle(outcome("r1"), case.handler, at=AT)).outcome is Outcome.APPLIED

    run(scenario)


@pytest.mark.parametrize("store", STORES)
def test_no_handler_gets_an_unreadable_callback_or_a_login_get(run):
    def unreadable(request_id: str) -> ReceivedCallback:
        return received(request_id, f"/cb/{UUID}", b'{"amount":["EUR:-12.50"]}')

    async def scenario(inbox: AsyncInbox, case: Case) -> None:
        batch = [unreadable("r2"), scan("r3"), outcome("r4")]
        receipts = [await inbox.accept(unreadable("r1"), at=AT), await inbox.handle(scan("r1"), case.handler, at=AT)]
        receipts += [one for one in await inbox.handle_all(batch, case.handler, at=AT) if isinstance(one, Receipt)]
        assert [one.outcome for one in receipts] == ["unreadable", "login", "unreadable", "login", "applied"]
        await case.store.add([inbox._admission.admit(scan("r5"), at=AT).entry])  # as an earlier version did
        for failure in await inbox.failed():
            assert await inbox.release(failure, at=AT)
        worked = await inbox.work(case.handler, at=AT + SECOND)
        assert sorted(one.outcome for one in worked) == ["failed"] * 3
        assert await case.effects() == ["r4"]

    run(scenario)
