"""Tasks of an event loop that use a store: the effects of one task on the others, and on the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from inbox_cases import AT, SOURCE, apply, apply_in_task, effects, entry, open_store
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError, Outcome, Worker
from tppkit.inbox.store import InboxStore
from tppkit.inbox.tasks import Tasks

Handler = Callable[[Any, Any], Awaitable[object]]


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store(request.param, tmp_path, request, wait_s=2)


@pytest.fixture
def file_store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store("sqlite", tmp_path, request, wait_s=1)


async def receive(tasks: Tasks, keys: Iterable[str], handler: Handler = apply_in_task) -> list[Any]:
    """Deliver at once; gives outcomes and exceptions."""
    calls = [tasks.run(tasks.store.handle, entry(key), tasks.effect(handler), at=AT) for key in keys]
    return await asyncio.gather(*calls, return_exceptions=True)


def at_b(act: Callable[[Any], Awaitable[object]]) -> Handler:
    """A handler that writes, and acts for the entry `b`."""

    async def handler(one: Any, db: Any) -> None:
        await apply_in_task(one, db)
        if one.key == "b":
            await act(db)

    return handler


async def in_connection(db: Any, act: Callable[[Any], object]) -> None:
    """Call a function with SQLAlchemy's `Connection`."""
    await db.run_sync(act) if hasattr(db, "run_sync") else act(db)


async def fail(_: Any) -> None:
    raise KeyError


def test_each_entry_takes_effect_once_in_every_event_loop(store):
    tasks = Tasks(store)
    outcomes = asyncio.run(receive(tasks, "abcdabcd"))
    assert sorted(outcomes) == [Outcome.APPLIED] * 4 + [Outcome.REPEATED] * 4
    assert sorted(effects(store)) == list("abcd")
    assert asyncio.run(receive(tasks, "ae")) == [Outcome.REPEATED, Outcome.APPLIED]


def test_a_failing_handler_rolls_back_only_its_own_writes(store):
    outcomes = asyncio.run(receive(Tasks(store), "abc", at_b(fail)))
    assert [type(one) for one in outcomes] == [Outcome, KeyError, Outcome]
    assert [(one.entry.key, one.reason) for one in store.failed(SOURCE)] == [("b", "KeyError")]
    assert sorted(effects(store)) == ["a", "c"]


ENDS: dict[str, Callable[[Any], object]] = {
    "commit": lambda db: db.commit(),
    "rollback": lambda db: db.rollback(),
    "close": lambda db: db.close(),
    "text": lambda db: db.exec_driver_sql("COMMIT"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_handler_that_ends_the_transaction_stops_no_other(store, end):
    tasks = Tasks(store)
    first, ended, last = asyncio.run(receive(tasks, "abc", at_b(lambda db: in_connection(db, ENDS[end]))))
    assert (first, ended.code, last) == (Outcome.APPLIED, "inbox.handler-committed", Outcome.APPLIED)
    assert [key for key in sorted(effects(store)) if key != "b"] == ["a", "c"]


def test_a_transaction_that_cannot_be_rolled_back_is_not_committed(file_store):
    async def handler(one: Any, db: Any) -> None:
        await apply_in_task(one, db)
        driver = db.connection.driver_connection
        driver.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == 32 else sqlite3.SQLITE_OK
        )  # savepoints
        raise LookupError

    def allow(db: Any, *_: Any) -> None:
        db.set_authorizer(None)

    event.listen(file_store.engine, "checkin", allow)
    tasks = Tasks(file_store)
    assert [type(one) for one in asyncio.run(receive(tasks, "a", handler))] == [LookupError]
    assert effects(file_store) == []
    assert asyncio.run(receive(tasks, "a")) == [Outcome.APPLIED]


def test_a_cancelled_task_leaves_nothing_and_stops_no_other(store):
    tasks = Tasks(store)

    async def cancel() -> Any:
        begun = asyncio.Event()

        async def hangs(one: Any, db: Any) -> None:
            await apply_in_task(one, db)
            begun.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(tasks.run(store.handle, entry("a"), tasks.effect(hangs), at=AT))
        others = asyncio.create_task(receive(tasks, "bcd"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await others

    assert asyncio.run(cancel()) == [Outcome.APPLIED] * 3
    assert (store.failed(SOURCE), sorted(effects(store))) == ([], ["b", "c", "d"])


def test_a_task_that_is_cancelled_while_it_waits_is_never_run(file_store):
    tasks = Tasks(file_store)

    async def cancel() -> Any:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def waits(one: Any, db: Any) -> None:
            begun.set()
            await goes_on.wait()

        first = asyncio.create_task(receive(tasks, "a", waits))
        await begun.wait()
        second = asyncio.create_task(tasks.run(file_store.accept, entry("b")))
        await asyncio.sleep(0.05)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        goes_on.set()
        return await first

    assert asyncio.run(cancel()) == [Outcome.APPLIED]
    assert file_store.accept(entry("b")) is Outcome.STORED


def test_a_file_that_another_program_locks_does_not_block_the_event_loop(file_store, tmp_path):
    tasks = Tasks(file_store)

    async def meet() -> tuple[Any, int]:
        call, turns = asyncio.create_task(receive(tasks, "a")), 0
        while not call.done():
            await asyncio.sleep(0.01)
            turns += 1
        return call.result()[0], turns

    with closing(sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        error, turns = asyncio.run(meet())
        assert isinstance(error, InboxError)
        assert "database is locked" in str(error)
        assert turns > 2  # at most one if it were blocked
        other.execute("ROLLBACK")
    assert asyncio.run(receive(tasks, "a")) == [Outcome.APPLIED]


def test_an_event_loop_that_ends_within_a_handler_leaves_no_transaction(store):
    tasks = Tasks(store)

    async def waits(one: Any, db: Any) -> None:
        await apply_in_task(one, db)
        await asyncio.sleep(60)

    async def end() -> None:
        calls = [asyncio.create_task(receive(tasks, key, waits)) for key in "ab"]
        await asyncio.wait(calls, timeout=0.1)

    asyncio.run(end())
    assert store.handle(entry("c"), apply, at=AT) is Outcome.APPLIED
    assert asyncio.run(receive(tasks, "ab")) == [Outcome.APPLIED] * 2
    assert sorted(effects(store)) == ["a", "b", "c"]


def test_tasks_wait_no_longer_than_configured_for_a_handler_that_hangs(file_store):
    tasks = Tasks(file_store)

    async def hangs(one: Any, db: Any) -> None:
        (other,) = await receive(tasks, "b")
        assert "does a handler hang?" in str(other)

    assert asyncio.run(receive(tasks, "a", hangs)) == [Outcome.APPLIED]


async def set_done_flag(store: InboxStore, db: Any) -> None:
    await Tasks(store).within(db, lambda own: store.handle_within(entry("late"), None, at=AT, within=own))


def in_session(db: Any) -> None:
    with Session(bind=db) as session, session.begin():
        session.execute(text("SELECT 1"))


LATE: dict[str, Callable[[InboxStore, Any], Awaitable[object]]] = {
    "done flag": set_done_flag,
    "statement": lambda _, db: apply_in_task(entry("late"), db),
    "savepoint": lambda _, db: in_connection(db, lambda own: own.begin_nested()),
    "session": lambda _, db: in_connection(db, in_session),
    "commit": lambda _, db: in_connection(db, ENDS["commit"]),
    "rollback": lambda _, db: in_connection(db, ENDS["rollback"]),
    "close": lambda _, db: in_connection(db, ENDS["close"]),
}


@pytest.mark.parametrize("late", LATE)
def test_a_task_that_a_failed_handler_left_running_reaches_no_other_transaction(store, late):
    tasks, left = Tasks(store), list[Any]()

    async def meet() -> None:
        is_next, has_run = asyncio.Event(), asyncio.Event()

        async def use_later(db: Any) -> None:
            await is_next.wait()
            try:
                await LATE[late](store, db)
            finally:
                has_run.set()

        async def handler(one: Any, db: Any) -> None:
            if one.key == "a":
                left.append(asyncio.create_task(use_later(db)))
                raise LookupError
            await apply_in_task(one, db)
            is_next.set()
            await has_run.wait()
            await apply_in_task(one, db)

        (failed,) = await receive(tasks, "a", handler)
        outcomes = await receive(tasks, "b", handler)
        assert (type(failed), outcomes) == (LookupError, [Outcome.APPLIED])
        await asyncio.wait(left)

    asyncio.run(meet())
    # Without a transaction, SQLAlchemy ignores commit, rollback and close.
    assert (left[0].exception() is None) == (late in ("commit", "rollback", "close") and store.database.is_sqlite)
    assert effects(store) == ["b", "b"]
    assert asyncio.run(receive(tasks, ["late", "a"])) == [Outcome.APPLIED] * 2


def test_a_handler_may_use_the_connection_of_another_inbox_that_called_it(store, tmp_path, request):
    other = InboxStore(f"sqlite:///{tmp_path}/other.sqlite")
    other.create_tables()
    request.addfinalizer(other.close)
    outer, inner = Tasks(store), Tasks(other)

    async def handler(one: Any, db: Any) -> None:
        effect = inner.effect(lambda *_: apply_in_task(one, db))
        await inner.run(other.handle, one, effect, at=AT)

    assert asyncio.run(receive(outer, "a", handler)) == [Outcome.APPLIED]
    assert effects(store) == ["a"]


def test_a_task_of_a_handler_may_use_the_connection_before_it_ends(store):
    async def handler(one: Any, db: Any) -> None:
        await asyncio.gather(apply_in_task(one, db), apply_in_task(one, db))

    assert asyncio.run(receive(Tasks(store), "ab", handler)) == [Outcome.APPLIED] * 2
    assert sorted(effects(store)) == ["a", "a", "b", "b"]


def test_a_handler_that_uses_its_own_sqlite_inbox_fails_alone(file_store):
    tasks = Tasks(file_store)

    async def nested(one: Any, db: Any) -> None:
        await apply_in_task(one, db)
        if one.key == "a":
            await tasks.run(file_store.accept, entry("z"))

    error, outcome = asyncio.run(receive(tasks, "ab", nested))
    assert error.code == "inbox.unavailable"
    assert outcome is Outcome.APPLIED or outcome.code == "inbox.unavailable"  # it waited as long
    assert [(one.entry.key, one.reason) for one in file_store.failed(SOURCE)] == [
        ("a", "InboxError [inbox.unavailable]")
    ]
    assert "a" not in effects(file_store)


def test_a_connection_of_tasks_has_the_methods_of_sqlalchemys(request, tmp_path):
    store = open_store("postgresql", tmp_path, request)
    insert, read = text("INSERT INTO store_effects (line) VALUES (:line)"), text("SELECT line FROM store_effects")
    found = list[Any]()

    async def handler(one: Any, db: Any) -> None:
        await db.execute(insert, {"line": "one"})
        with pytest.raises(IntegrityError):
            async with db.begin_nested():
                await db.exec_driver_sql("INSERT INTO store_effects (id) VALUES (1), (1)")
        async with db.begin_nested():
            await db.execute(insert, {"line": "two"})
        found.append(await db.scalar(read))
        found.append((await db.scalars(read)).all())

    assert asyncio.run(receive(Tasks(store), "a", handler)) == [Outcome.APPLIED]
    assert found == ["one", ["one", "two"]]


def test_a_handler_sees_the_context_of_its_delivery(store):
    delivery, seen = ContextVar[str]("delivery"), list[str]()

    async def handler(one: Any, db: Any) -> None:
        seen.append(delivery.get())

    async def deliver() -> None:
        delivery.set("d-1")
        await receive(Tasks(store), "a", handler)

    asyncio.run(deliver())
    assert seen == ["d-1"]


@pytest.mark.slow
def test_a_worker_that_awaits_keeps_nobody_else_from_the_database(file_store):
    """What is awaited before a transaction takes as long as it likes; what is awaited within one delays others by one handler."""
    tasks = Tasks(file_store)

    async def slow(one: Any, *_: Any) -> Any:
        await asyncio.sleep(0.3)
        return one

    async def scenario() -> list[Any]:
        for key in "abcdefgh":
            await tasks.run(file_store.accept, entry(key))
        worker = Worker(SOURCE, tasks.effect(apply_in_task), prepare=tasks.awaiting("fetch", slow))
        work = asyncio.create_task(tasks.run(file_store.work, worker, at=AT))
        await asyncio.sleep(0.1)
        outcomes = await receive(tasks, "xyz")
        assert not work.done()
        worker = Worker(SOURCE, tasks.effect(slow))
        await work
        for key in "ijklm":
            await tasks.run(file_store.accept, entry(key))
        work = asyncio.create_task(tasks.run(file_store.work, worker, at=AT))
        await asyncio.sleep(0.1)
        outcomes += await receive(tasks, "uvw")
        assert not work.done()
        return [*outcomes, len(await work)]

    assert asyncio.run(scenario()) == [Outcome.APPLIED] * 6 + [5]


def test_a_handler_that_does_not_await_a_statement_has_failed(request, tmp_path):
    store = open_store("postgresql", tmp_path, request)

    async def forgets(one: Any, db: Any) -> None:
        db.execute(text("SELECT 1"))

    (failed,) = asyncio.run(receive(Tasks(store), "a", forgets))
    assert isinstance(failed, ConfigurationError)
    assert "has not awaited a statement" in failed.message
    assert [(one.entry.key, one.reason) for one in store.failed(SOURCE)] == [
        ("a", "ConfigurationError [callback.function]")
    ]


ENDING = """
import asyncio, sys
from inbox_cases import AT, entry
from tppkit.inbox.store import InboxStore
from tppkit.inbox.tasks import Tasks

store = InboxStore("sqlite:///ending.sqlite", wait_s=1)
store.create_tables()
tasks = Tasks(store)

async def hangs(one, db):
    await asyncio.sleep(1000)

async def begin():
    task = asyncio.create_task(tasks.run(store.handle, entry("a"), tasks.effect(hangs), at=AT))
    await asyncio.sleep(0.3)
    return task

loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin())
if sys.argv[1] == "closed":
    loop.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["stopped", "closed"])
def test_a_process_ends_although_its_event_loop_stopped_within_a_handler(loop, tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, loop],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0
    failed = InboxStore(f"sqlite:///{tmp_path}/ending.sqlite").failed(SOURCE)  # to be tried again
    assert [one.reason for one in failed] == ["InboxError [inbox.unavailable]"]
