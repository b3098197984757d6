"""Batches in PostgreSQL that meet what somebody else has: the rest of them goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from inboxes import AT, grant, login, new_prefix, open_case, outcome, postgresql_case, receiver
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from tppkit.callbacks import AsyncInbox, Inbox, InboxSettings, Outcome, Retention, Retries, VerifiedCallback
from tppkit.callbacks.stores import AsyncStore
from tppkit.callbacks.stores.postgresql import AsyncPostgresqlStore, PostgresqlStore
from tppkit.callbacks.stores.sqlalchemy import AsyncSqlalchemyStore

DAY = timedelta(days=1)
BATCH = [
    outcome("b1", record="t1"), outcome("held", record="h"), outcome("b2", record="h", ver=2), outcome("b3", record="t3"),
    login("b4"),
]  # fmt: skip
ANSWERS = [Outcome.APPLIED, Outcome.BUSY, Outcome.BUSY, Outcome.APPLIED, Outcome.APPLIED]


def orm(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_what_is_held_is_busy_and_the_rest_of_the_batch_applied(postgresql_url: str, name: str):
    url = postgresql_url if name == "postgresql" else orm(postgresql_url)
    with open_case(name, url, new_prefix("held")) as case, ThreadPoolExecutor(1) as thread:
        inbox, told = Inbox(receiver(), case.store), list[Outcome]()

        def hangs(*_: object) -> None:
            answers = thread.submit(inbox.handle_all, BATCH, case.handler, at=AT).result(60)
            told.extend(one.outcome for one in answers)  # type: ignore[union-attr]

        inbox.handle(outcome("held", record="h"), hangs, at=AT)
        assert told == ANSWERS
        assert inbox.failed() == []
        assert sorted(case.effects()) == ["b4 -", "t1 1", "t3 1"]
        again = [one.outcome for one in inbox.handle_all(BATCH, case.handler, at=AT)]  # type: ignore[union-attr]
        assert again == [Outcome.REPEATED, Outcome.REPEATED, Outcome.APPLIED, Outcome.REPEATED, Outcome.REPEATED]


@pytest.mark.parametrize("kind", ["driver", "sqlalchemy"])
def test_what_is_held_is_busy_in_an_awaited_batch_too(postgresql_url: str, kind: str):
    prefix = new_prefix("held")
    case = postgresql_case(postgresql_url, prefix)

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(postgresql_url) as connection:
            yield connection

    async def nothing(*_: object) -> None:
        pass

    async def deliver() -> list[Any]:
        engine = create_async_engine(orm(postgresql_url))
        driver, behind = AsyncPostgresqlStore(connect, prefix=prefix), async_sessionmaker(engine)
        store: AsyncStore = driver if kind == "driver" else AsyncSqlalchemyStore(behind, prefix=prefix)
        answers = await AsyncInbox(receiver(), store).handle_all(BATCH, nothing, at=AT)
        await engine.dispose()
        return [one.outcome for one in answers]  # type: ignore[union-attr]

    def hangs(*_: object) -> None:
        assert asyncio.run(deliver()) == ANSWERS

    assert Inbox(receiver(), case.store).handle(outcome("held", record="h"), hangs, at=AT).outcome is Outcome.APPLIED


@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_a_purge_leaves_what_a_handler_that_hangs_holds(postgresql_url: str, name: str):
    url = postgresql_url if name == "postgresql" else orm(postgresql_url)
    late = AT + timedelta(days=500)
    with open_case(name, url, new_prefix("purge")) as case, ThreadPoolExecutor(1) as thread:
        inbox, forgotten = Inbox(receiver(), case.store), list[int]()
        for record in ("held", "free"):
            inbox.handle(outcome(record, record=record), case.handler, at=AT)

        def hangs(*_: object) -> None:
            forgotten.append(thread.submit(inbox.purge, at=late).result(20))

        inbox.handle(outcome("r9", record="held", ver=2), hangs, at=late)
        assert forgotten == [3]  # both callbacks, and the one record
        assert inbox.handle(outcome("r8", record="held", ver=1), case.handler, at=late).outcome is Outcome.STALE


@pytest.mark.parametrize("name", ["postgresql", "sqlalchemy-postgresql"])
def test_a_purge_discards_what_nobody_holds_and_leaves_the_rest(postgresql_url: str, name: str):
    url = postgresql_url if name == "postgresql" else orm(postgresql_url)
    late, settings = AT + DAY, InboxSettings(retention=Retention(failed=DAY / 2), retries=Retries(attempts=1))
    with open_case(name, url, new_prefix("purge")) as case, ThreadPoolExecutor(1) as thread:
        inbox = Inbox(receiver(), case.store, settings=settings)

        def fails(*_: object) -> None:
            raise LookupError

        def hangs(*_: object) -> None:
            thread.submit(inbox.purge, at=late).result(20)
            assert [failure.entry.request_id for failure in inbox.failed()] == ["held"]
            raise LookupError

        inbox.handle_all([login("held"), login("free")], fails, at=AT)
        with pytest.raises(LookupError):
            inbox.handle(login("held"), hangs, at=late)
        inbox.purge(at=late)
        assert inbox.failed() == []


def patient(url: str, prefix: str) -> PostgresqlStore:
    """Waits for whom it meets, but finds out soon where both would."""
    options = "-c lock_timeout=60s -c deadlock_timeout=20ms"
    return PostgresqlStore(lambda: psycopg.connect(url, options=options), prefix=prefix)


def wait_until(ready: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def somebody_waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone() is not None


def meet(url: str, prefix: str, one: list[Any], other: list[Any]) -> tuple[list[Outcome], list[Outcome]]:
    """The answers to two batches of which the other begins when the one has had its first effect, and goes on until it waits."""
    case = postgresql_case(url, prefix)
    inbox = Inbox(receiver(), patient(url, prefix))
    begun, others = threading.Event(), threading.Event()

    def first(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        if not begun.is_set():
            begun.set()
            wait_until(lambda: others.is_set() or somebody_waits(url))

    def second(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        others.set()

    def after() -> list[Any]:
        begun.wait(20)
        return list(inbox.handle_all(other, second, at=AT))

    with ThreadPoolExecutor(1) as thread:
        later = thread.submit(after)
        answers = inbox.handle_all(one, first, at=AT)
        return [r.outcome for r in answers], [r.outcome for r in later.result(60)]  # type: ignore[union-attr]


def test_batches_with_the_same_records_in_another_order_wait_for_each_other(postgresql_url: str):
    one = [outcome(f"p{n}", record=f"t{n}") for n in range(3)]
    other = [outcome(f"q{n}", record=f"t{n}", ver=2) for n in reversed(range(3))]
    answers = meet(postgresql_url, new_prefix("meet"), one, other)
    assert answers == ([Outcome.APPLIED] * 3, [Outcome.APPLIED] * 3)


def test_batches_with_several_callbacks_of_a_record_in_another_order_wait_for_each_other(postgresql_url: str):
    calls = [outcome("p1", ver=1), outcome("p2", ver=2), grant("g1"), grant("g2"), grant("g3")]
    one, other = meet(postgresql_url, new_prefix("meet"), calls, calls[::-1])
    first = [Outcome.APPLIED] * 3 + [Outcome.STALE] * 2
    assert sorted(one) == sorted(first)
    assert other == [Outcome.REPEATED] * 5


def test_batches_that_wait_for_each_other_lose_one_callback_and_not_all(postgresql_url: str):
    prefix = new_prefix("meet")
    calls = [outcome("p1", ver=1), outcome("p2", ver=2)]
    one, other = meet(postgresql_url, prefix, calls, calls[1:])
    assert [*one, *other].count(Outcome.BUSY) == 1
    inbox = Inbox(receiver(), patient(postgresql_url, prefix))
    again = [one.outcome for one in inbox.handle_all(calls, lambda *_: None, at=AT)]  # type: ignore[union-attr]
    assert again == [Outcome.REPEATED, Outcome.REPEATED]


@pytest.mark.parametrize("is_over", [False, True], ids=["under way", "over"])
@pytest.mark.parametrize("way", ["handle_all", "work"])
def test_one_that_fails_and_that_another_delivery_gets_hold_of_is_busy(postgresql_url: str, way: str, is_over: bool):
    prefix, raised, got, told = new_prefix("gets"), threading.Event(), threading.Event(), threading.Event()

    class Unhurried(psycopg.Connection[Any]):
        """Once the handler has raised, and its savepoint is undone, the other goes first."""

        def wait(self, *args: Any, **settings: Any) -> Any:
            result = super().wait(*args, **settings)
            assert not raised.is_set() or got.wait(20)
            return result

    case = postgresql_case(postgresql_url, prefix)
    inbox = Inbox(receiver(), PostgresqlStore(lambda: Unhurried.connect(postgresql_url), prefix=prefix))
    others = Inbox(receiver(), patient(postgresql_url, prefix))

    def holds(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        if not is_over:
            got.set()
            told.wait(20)

    def delivered() -> Outcome:
        receipt = others.handle(batch[1], holds, at=AT + timedelta(minutes=1))  # the lease of a worker
        got.set()
        return receipt.outcome

    batch = [outcome(f"r{n}", record=f"t{n}") for n in (1, 2, 3)]
    with ThreadPoolExecutor(1) as thread:

        def fails(callback: VerifiedCallback, connection: Any) -> None:
            if callback.request_id == "r2":
                another.append(thread.submit(delivered))
                wait_until(lambda: somebody_waits(postgresql_url))
                raised.set()
                raise LookupError
            case.handler(callback, connection)

        another = list[Any]()
        if way == "work":
            for call in batch:
                inbox.accept(call, at=AT)
            answers = {one.entry.request_id: one.outcome for one in inbox.work(fails, at=AT)}
        else:
            receipts = inbox.handle_all(batch, fails, at=AT)
            answers = {f"r{n}": one.outcome for n, one in enumerate(receipts, 1)}  # type: ignore[union-attr]
        told.set()
        assert answers == {"r1": Outcome.APPLIED, "r2": Outcome.BUSY, "r3": Outcome.APPLIED}
        assert another[0].result(20) is Outcome.APPLIED
    assert sorted(case.effects()) == ["t1 1", "t2 1", "t3 1"]
    assert inbox.failed() == []
