"""Tasks that share SQLite transactions: the effects of one task on the others."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from inbox_cases import AT, SOURCE, apply, effects, entry, open_store
from sqlalchemy import event, text
from sqlalchemy.orm import Session
from sqlalchemy.util import await_only, greenlet_spawn

from tppkit.inbox import InboxError, Outcome
from tppkit.inbox.store import InboxStore

Handler = Callable[[Any, Any], object]


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store(request.param, tmp_path, request, wait_s=1)


@pytest.fixture
def file_store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store("sqlite", tmp_path, request, wait_s=1)


async def receive(store: InboxStore, keys: Iterable[str], handler: Handler) -> list[Any]:
    """Deliver at once; gives outcomes and exceptions."""
    calls = [greenlet_spawn(store.handle, entry(key), handler, at=AT) for key in keys]
    return await asyncio.gather(*calls, return_exceptions=True)


def at_b(act: Callable[[Any], object]) -> Handler:
    """A handler that writes, and acts for the entry `b`."""

    def handler(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            act(db)

    return handler


def test_tasks_commit_together_and_each_entry_takes_effect_once(file_store):
    commits = list[object]()
    event.listen(file_store.engine, "commit", commits.append)
    shared = file_store.for_tasks()
    outcomes = asyncio.run(receive(shared, "abcdabcd", apply))
    assert sorted(outcomes) == [Outcome.APPLIED] * 4 + [Outcome.REPEATED] * 4
    assert (sorted(effects(file_store)), len(commits)) == (list("abcd"), 1)
    assert asyncio.run(receive(shared, "ae", apply)) == [Outcome.REPEATED, Outcome.APPLIED]  # in another event loop


def test_a_failing_handler_rolls_back_only_its_own_writes(store):
    outcomes = asyncio.run(receive(store.for_tasks(), "abc", at_b(lambda _: {}["x"])))
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
def test_a_handler_that_ends_the_transaction_has_those_before_it_repeated(store, end):
    shared = store.for_tasks()
    first, ended, last = asyncio.run(receive(shared, "abc", at_b(ENDS[end])))
    assert (first.code, ended.code, last) == ("inbox.unavailable", "inbox.handler-committed", Outcome.APPLIED)
    assert set(asyncio.run(receive(shared, "acd", apply))) <= {Outcome.APPLIED, Outcome.REPEATED}
    assert [key for key in sorted(effects(store)) if key != "b"] == ["a", "c", "d"]


def test_a_handler_that_fails_behind_one_that_ends_the_transaction_hides_no_loss(store):
    def handler(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            db.rollback()
        if one.key == "c":
            raise LookupError

    shared = store.for_tasks()
    first, ended, last = asyncio.run(receive(shared, "abc", handler))
    assert (first.code, ended.code, type(last)) == ("inbox.unavailable", "inbox.handler-committed", LookupError)
    assert asyncio.run(receive(shared, "abc", apply)) == [Outcome.APPLIED] * 3
    assert sorted(effects(store)) == ["a", "b", "c"]


def test_a_turn_that_cannot_be_rolled_back_is_not_committed(store: InboxStore) -> None:
    def handler(one: Any, db: Any) -> None:
        apply(one, db)
        driver = db.connection.driver_connection
        driver.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == 32 else sqlite3.SQLITE_OK
        )  # savepoints
        raise LookupError

    def allow(db: Any, *_: Any) -> None:
        db.set_authorizer(None)

    event.listen(store.engine, "checkin", allow)
    shared = store.for_tasks()
    assert [type(one) for one in asyncio.run(receive(shared, "a", handler))] == [LookupError]
    assert effects(store) == []
    assert asyncio.run(receive(shared, "a", apply)) == [Outcome.APPLIED]


def test_an_error_at_the_commit_is_a_failure_of_the_only_handler_in_it(file_store):
    with file_store.engine.begin() as db:
        db.exec_driver_sql("CREATE TABLE ordered (id INTEGER PRIMARY KEY)")
        db.exec_driver_sql("CREATE TABLE paid (id INTEGER REFERENCES ordered DEFERRABLE INITIALLY DEFERRED)")
    event.listen(file_store.engine, "connect", lambda db, _: db.execute("PRAGMA foreign_keys = ON"))
    file_store.close()
    shared = file_store.for_tasks()
    pays = at_b(lambda db: db.exec_driver_sql("INSERT INTO paid VALUES (1)"))
    assert {one.code for one in asyncio.run(receive(shared, "abc", pays))} == {"inbox.unavailable"}
    assert [type(one).__name__ for one in asyncio.run(receive(shared, "b", pays))] == ["IntegrityError"]
    assert [one.reason for one in file_store.failed(SOURCE)] == ["IntegrityError"]
    assert asyncio.run(receive(shared, "ac", pays)) == [Outcome.APPLIED] * 2


def test_a_task_that_is_cancelled_leaves_nothing_and_stops_no_other(store):
    shared = store.for_tasks()

    async def cancel() -> Any:
        begun = asyncio.Event()

        def hangs(one: Any, db: Any) -> None:
            apply(one, db)
            begun.set()
            await_only(asyncio.sleep(60))

        task = asyncio.create_task(greenlet_spawn(shared.handle, entry("a"), hangs, at=AT))
        others = asyncio.create_task(receive(shared, "bcd", apply))
        await begun.wait()
        others_end = asyncio.wait([others], timeout=0.1)
        assert not (await others_end)[0]  # they wait for their turn
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await others

    assert asyncio.run(cancel()) == [Outcome.APPLIED] * 3
    assert (store.failed(SOURCE), sorted(effects(store))) == ([], ["b", "c", "d"])


def test_a_file_that_another_program_locks_does_not_block_the_event_loop(file_store, tmp_path):
    shared = file_store.for_tasks()

    async def meet() -> tuple[Any, int]:
        call, turns = asyncio.create_task(receive(shared, "a", apply)), 0
        while not call.done():
            await asyncio.sleep(0.01)
            turns += 1
        return call.result()[0], turns

    with closing(sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        error, turns = asyncio.run(meet())
        assert isinstance(error, InboxError)
        assert "database is locked" in str(error)
        assert turns > 20
        other.execute("ROLLBACK")
    assert asyncio.run(receive(shared, "a", apply)) == [Outcome.APPLIED]


def test_an_event_loop_that_ends_within_a_handler_leaves_no_transaction(file_store: InboxStore) -> None:
    shared = file_store.for_tasks()

    def waits(one: Any, db: Any) -> None:
        apply(one, db)
        await_only(asyncio.sleep(60))

    async def end() -> None:
        calls = [asyncio.create_task(receive(shared, key, waits)) for key in "ab"]
        await asyncio.wait(calls, timeout=0.1)

    asyncio.run(end())
    assert file_store.handle(entry("c"), apply, at=AT) is Outcome.APPLIED
    assert asyncio.run(receive(shared, "ab", apply)) == [Outcome.APPLIED] * 2
    assert sorted(effects(file_store)) == ["a", "b", "c"]


def test_tasks_wait_no_longer_than_configured_for_a_handler_that_hangs(file_store):
    shared = file_store.for_tasks()

    def hangs(one: Any, db: Any) -> None:
        (other,) = await_only(receive(shared, "b", apply))
        assert "does a handler hang?" in str(other)

    assert asyncio.run(receive(shared, "a", hangs)) == [Outcome.APPLIED]


def test_a_commit_that_waits_for_another_handler_is_not_awaited_for_longer(file_store):
    shared = file_store.for_tasks()

    def hangs(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            await_only(asyncio.sleep(1.5))

    error, outcome = asyncio.run(receive(shared, "ab", hangs))
    assert ("does a handler hang?" in str(error), outcome) == (True, Outcome.APPLIED)
    assert asyncio.run(receive(shared, "ab", apply)) == [Outcome.REPEATED] * 2


LATE: dict[str, Callable[[Any], Any]] = {
    "statement": lambda db: apply(entry("late"), db),
    "savepoint": lambda db: db.begin_nested(),
    "thread": lambda db: await_only(asyncio.to_thread(apply, entry("late"), db)),
}


def test_a_task_that_a_handler_left_running_sets_no_done_flag_in_the_turn_of_another(store):
    shared, left = store.for_tasks(), list[Any]()

    async def set_later(db: Any) -> None:
        await asyncio.sleep(0.05)
        await greenlet_spawn(shared.handle_within, entry("late"), None, at=AT, within=db)

    def handler(one: Any, db: Any) -> None:
        if one.key == "a":
            left.append(asyncio.create_task(set_later(db)))
            raise LookupError
        await_only(asyncio.sleep(0.2))

    async def meet() -> None:
        await receive(shared, "ab", handler)
        with pytest.raises(InboxError):
            await left[0]

    asyncio.run(meet())
    assert asyncio.run(receive(shared, ["late"], apply)) == [Outcome.APPLIED]


@pytest.mark.parametrize("late", LATE)
def test_a_task_that_a_failed_handler_left_running_cannot_use_the_turn_of_another(store, late):
    shared, left = store.for_tasks(), list[Any]()

    async def use_later(db: Any) -> None:
        await asyncio.sleep(0.05)
        await greenlet_spawn(LATE[late], db)

    def handler(one: Any, db: Any) -> None:
        if one.key == "a":
            left.append(asyncio.create_task(use_later(db)))
            raise LookupError
        await_only(asyncio.sleep(0.2))
        apply(one, db)

    async def meet() -> None:
        failed, outcome = await receive(shared, "ab", handler)
        assert (type(failed), outcome) == (LookupError, Outcome.APPLIED)
        with pytest.raises(InboxError):
            await left[0]

    asyncio.run(meet())
    assert effects(store) == ["b"]
    assert asyncio.run(receive(shared, "a", apply)) == [Outcome.APPLIED]


def in_session(db: Any) -> None:
    with Session(bind=db) as session, session.begin():
        session.execute(text("SELECT 1"))


@pytest.mark.parametrize("end", [*(ENDS[name] for name in ("commit", "rollback", "close")), in_session])
@pytest.mark.parametrize("late", [False, True])  # while another has its turn, or behind the last one
def test_a_task_that_a_failed_handler_left_running_ends_no_transaction(store, end, late):
    shared, left = store.for_tasks(), list[Any]()

    async def meet() -> list[Any]:
        last = asyncio.Event()

        async def end_later(db: Any) -> None:
            await last.wait()
            await greenlet_spawn(end, db)

        def handler(one: Any, db: Any) -> None:
            if one.key == "a":
                left.append(asyncio.create_task(end_later(db)))
                raise LookupError
            apply(one, db)
            if one.key == "c":
                last.set()
                if not late:
                    await_only(asyncio.sleep(0.05))
                    apply(one, db)

        outcomes = await receive(shared, "abc", handler)
        await asyncio.gather(*left, return_exceptions=True)
        return outcomes

    outcomes = asyncio.run(meet())
    written = ["b", "c"] if late else ["b", "c", "c"]
    applied = [one is Outcome.APPLIED for one in outcomes]
    assert (applied, effects(store)) in (([False, True, True], written), ([False] * 3, []))
    asyncio.run(receive(shared, "abc", apply))
    assert {"a", "b", "c"} == set(effects(store))


def test_a_handler_may_use_the_connection_of_another_inbox_that_called_it(store, tmp_path, request):
    other = InboxStore(f"sqlite:///{tmp_path}/other.sqlite")
    other.create_tables()
    request.addfinalizer(other.close)
    outer, inner = store.for_tasks(), other.for_tasks()

    def handler(one: Any, db: Any) -> None:
        inner.handle(one, lambda *_: apply(one, db), at=AT)

    assert asyncio.run(receive(outer, "a", handler)) == [Outcome.APPLIED]
    assert effects(store) == ["a"]


def test_a_task_of_a_handler_may_use_the_connection_during_its_turn(store):
    async def write(one: Any, db: Any) -> None:
        await asyncio.to_thread(apply, one, db)

    def handler(one: Any, db: Any) -> None:
        await_only(asyncio.gather(write(one, db), greenlet_spawn(apply, one, db)))

    assert asyncio.run(receive(store.for_tasks(), "ab", handler)) == [Outcome.APPLIED] * 2
    assert effects(store) == ["a", "a", "b", "b"]


def test_a_handler_that_uses_its_own_inbox_fails_alone(store):
    shared = store.for_tasks()

    def nested(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "a":
            shared.accept(entry("z"))

    error, outcome = asyncio.run(receive(shared, "ab", nested))
    assert (error.code, outcome) == ("inbox.unavailable", Outcome.APPLIED)
    assert [(one.entry.key, one.reason) for one in store.failed(SOURCE)] == [("a", "InboxError [inbox.unavailable]")]
    assert effects(store) == ["b"]
