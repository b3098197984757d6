"""What is an attempt and what is none: a store that fails behind a claim, and a handler that ends the transaction of others."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inboxes import AT, Case, located, login, new_prefix, open_case, outcome, postgresql_case, receiver
from sqlalchemy import text

from tppkit.callbacks import AsyncInbox, Inbox, InboxSettings, Retries, VerifiedCallback
from tppkit.callbacks.inbox_settings import DEFAULTS
from tppkit.callbacks.stores.postgresql import AsyncPostgresqlStore, PostgresqlStore
from tppkit.errors import ConfigurationError, InboxError

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
PAUSE = 10 * SECOND  # the first of `Retries`; the lease is a minute
STORES = ("sqlite", "postgresql", "sqlalchemy-sqlite", "sqlalchemy-postgresql")
SERVED = ("postgresql", "sqlalchemy-postgresql")


@pytest.fixture
def place(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> tuple[str, str, str]:
    return name, located(name, tmp_path, request.getfixturevalue), new_prefix("mishap")


@pytest.fixture
def case(place: tuple[str, str, str]) -> Iterator[Case]:
    with open_case(*place) as case:
        yield case


def execute(name: str, connection: Any, sql: str) -> Any:
    return connection.execute(text(sql) if name.startswith("sqlalchemy") else sql)


def accepted(case: Case, *, settings: InboxSettings = DEFAULTS) -> Inbox:
    """Three that wait, about three records."""
    inbox = Inbox(receiver(), case.store, settings=settings)
    for n in range(3):
        inbox.accept(outcome(f"r{n}", record=f"t{n}"), at=AT - MINUTE + n * SECOND)
    return inbox


def told(worked: list[Any]) -> dict[str, str]:
    return {one.entry.request_id: one.outcome.value for one in worked}


@pytest.mark.parametrize("name", STORES)
def test_behind_a_store_that_fails_each_is_tried_alone(name: str, place: tuple[str, str, str], case: Case):
    inbox, prefix, calls = accepted(case), "tppkit_inbox_" if name == "sqlite" else place[2], list[str]()

    def breaks(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        calls.append(callback.request_id)
        if calls == ["r0", "r1"]:  # so the store's own statement for the third fails
            execute(name, connection, f"ALTER TABLE {prefix}versions RENAME TO {prefix}away")

    assert told(inbox.work(breaks, at=AT)) == dict.fromkeys(("r0", "r1", "r2"), "applied")
    assert calls == ["r0", "r1", "r0", "r1", "r2"]
    assert case.effects() == ["t0 1", "t1 1", "t2 1"]


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_fails_behind_no_handler_takes_no_attempt(name: str, place: tuple[str, str, str], case: Case):
    inbox, prefix = accepted(case), "tppkit_inbox_" if name == "sqlite" else place[2]

    def breaks(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        if callback.request_id == "r1":
            execute(name, connection, f"ALTER TABLE {prefix}versions RENAME TO {prefix}away")

    assert told(inbox.work(breaks, at=AT)) == {"r0": "applied", "r1": "applied"}  # each alone, so it was committed
    (left,) = case.store.take(at=AT + PAUSE, until=AT + PAUSE, limit=9)
    assert (left.entry.request_id, left.attempt, left.lapsed) == ("r2", 1, False)


def cutting(case: Case, url: str, name: str, whose: str) -> Any:
    """A handler whose connection is cut when it has the callback `whose`."""

    def handler(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        if callback.request_id == whose:
            own = execute(name, connection, "SELECT pg_backend_pid()").fetchone()[0]
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (own,))

    return handler


@pytest.mark.parametrize("name", SERVED)
def test_one_that_costs_the_store_its_connection_fails_after_its_attempts_and_holds_up_no_other(
    name: str, case: Case, postgresql_url: str
):
    inbox = accepted(case, settings=InboxSettings(retries=Retries(attempts=3)))
    cut, done, runs = cutting(case, postgresql_url, name, "r1"), dict[str, str](), list[str]()

    def counted(callback: VerifiedCallback, connection: Any) -> None:
        runs.append(callback.request_id)
        cut(callback, connection)

    for n in range(8):
        done |= told(inbox.work(counted, at=AT + n * MINUTE))
    assert done == {"r0": "applied", "r1": "failed", "r2": "applied"}
    assert runs == ["r0", "r1", "r0", "r1", "r2", "r1", "r1"]  # among others it was nobody's attempt
    (failure,) = inbox.failed()
    assert (failure.entry.request_id, failure.attempts, failure.due_at) == ("r1", 3, None)
    assert failure.reason == "InboxError [inbox.unavailable]"
    assert inbox.release(failure, at=AT + 8 * MINUTE)
    assert told(inbox.work(case.handler, at=AT + 8 * MINUTE)) == {"r1": "applied"}
    assert sorted(case.effects()) == ["t0 1", "t1 1", "t2 1"]


def broken_off(connection: Any) -> None:
    """Wait until the server gives a connection up that does nothing in its transaction."""
    assert select.select([connection.fileno()], [], [], 20)[0]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_handler_that_is_always_slower_than_the_server_bears_fails_after_its_attempts(
    postgresql_url: str, awaited: bool
):
    prefix, calls = new_prefix("mishap"), list[str]()
    short = "-c idle_in_transaction_session_timeout=20ms"
    store = PostgresqlStore(lambda: psycopg.connect(postgresql_url, options=short), prefix=prefix)
    store.create_tables()
    settings = InboxSettings(retries=Retries(attempts=2))
    inbox = Inbox(receiver(), store, settings=settings)
    inbox.accept(login("r1"), at=AT)

    @asynccontextmanager
    async def connect() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(postgresql_url, options=short) as connection:
            yield connection

    def slow(callback: VerifiedCallback, connection: Any) -> None:
        calls.append(callback.request_id)
        broken_off(connection)

    async def slow_too(callback: VerifiedCallback, connection: Any) -> None:
        slow(callback, connection)

    for n in range(3):
        with suppress(InboxError):
            if awaited:
                twin = AsyncInbox(receiver(), AsyncPostgresqlStore(connect, prefix=prefix), settings=settings)
                asyncio.run(twin.work(slow_too, at=AT + n * MINUTE))
            else:
                inbox.work(slow, at=AT + n * MINUTE)
    assert calls == ["r1", "r1"]
    assert [(one.attempts, one.due_at) for one in inbox.failed()] == [(2, None)]


@pytest.mark.parametrize("name", SERVED)
def test_a_store_that_fails_ten_times_behind_well_handlers_gives_nobody_up(name: str, case: Case, postgresql_url: str):
    inbox, breaks, done = accepted(case), list[str](), dict[str, str]()

    def handler(callback: VerifiedCallback, connection: Any) -> None:
        cut = len(breaks) < 10  # whoever it is
        if cut:
            breaks.append(callback.request_id)
        cutting(case, postgresql_url, name, callback.request_id if cut else "")(callback, connection)

    for n in range(20):
        with suppress(InboxError):
            done |= told(inbox.work(handler, at=AT + n * MINUTE))
    assert len(breaks) == 10
    assert done == dict.fromkeys(("r0", "r1", "r2"), "applied")
    assert inbox.failed() == []
    assert sorted(case.effects()) == ["t0 1", "t1 1", "t2 1"]


@pytest.mark.parametrize("name", SERVED)
def test_one_that_was_released_and_costs_the_connection_holds_up_no_other_that_was(
    name: str, case: Case, postgresql_url: str
):
    def fails(*_: object) -> None:
        raise LookupError

    inbox = accepted(case, settings=InboxSettings(retries=Retries(attempts=1)))
    assert told(inbox.work(fails, at=AT)) == dict.fromkeys(("r0", "r1", "r2"), "failed")
    for failure in inbox.failed():
        assert inbox.release(failure, at=AT)
    cut = cutting(case, postgresql_url, name, "r1")
    assert told(inbox.work(cut, at=AT)) == {"r0": "applied", "r1": "failed", "r2": "applied"}
    assert [(one.entry.request_id, one.reason) for one in inbox.failed()] == [("r1", "InboxError [inbox.unavailable]")]


@pytest.mark.parametrize("name", SERVED)
def test_one_of_a_batch_of_deliveries_that_costs_the_connection_fails_for_itself(
    name: str, case: Case, postgresql_url: str
):
    inbox, calls = Inbox(receiver(), case.store), [outcome(f"r{n}", record=f"t{n}") for n in range(3)]
    answers = inbox.handle_all(calls, cutting(case, postgresql_url, name, "r1"), at=AT)
    assert [one.outcome.value for one in answers] == ["applied", "failed", "applied"]  # type: ignore[union-attr]
    assert [(one.entry.request_id, one.reason) for one in inbox.failed()] == [("r1", "InboxError [inbox.unavailable]")]
    assert case.effects() == ["t0 1", "t2 1"]


class Mute(psycopg.Connection[Any]):
    """Says nothing of the one commit that it was told to be silent of."""

    silent = False

    def wait(self, *args: Any, **settings: Any) -> Any:
        result = super().wait(*args, **settings)
        if Mute.silent and self.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
            Mute.silent = False
            raise psycopg.OperationalError
        return result


@pytest.mark.parametrize("way", ["work", "handle_all"])
@pytest.mark.parametrize("count", [1, 3])
def test_what_is_done_and_only_not_answered_is_told_as_nothing_else(postgresql_url: str, count: int, way: str):
    case = postgresql_case(postgresql_url, prefix := new_prefix("mishap"))
    inbox = Inbox(receiver(), PostgresqlStore(lambda: Mute.connect(postgresql_url), prefix=prefix))
    calls, runs = [login(f"r{n}") for n in range(count)], list[str]()
    if way == "work":
        for call in calls:
            inbox.accept(call, at=AT - MINUTE)

    def mutes(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        runs.append(callback.request_id)
        Mute.silent = len(runs) == count

    if way == "work" or count == 1:
        with pytest.raises(InboxError):
            inbox.work(mutes, at=AT) if way == "work" else inbox.handle_all(calls, mutes, at=AT)
    else:
        assert [one.outcome.value for one in inbox.handle_all(calls, mutes, at=AT)] == ["repeated"] * 3  # type: ignore[union-attr]
    assert (Mute.silent, len(runs)) == (False, count)
    assert inbox.work(case.handler, at=AT + MINUTE) == []
    assert inbox.failed() == []
    assert sorted(case.effects()) == [f"r{n} -" for n in range(count)]


def ending(case: Case, name: str, end: str) -> Any:
    """A handler that ends the transaction when it has the second callback."""

    def handler(callback: VerifiedCallback, connection: Any) -> None:
        case.handler(callback, connection)
        if callback.request_id != "r1":
            return
        if name == "postgresql":  # psycopg's own methods are forbidden here
            connection.execute(end)
        else:
            getattr(connection, end)()

    return handler


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("name", STORES)
def test_a_worker_finds_out_whose_handler_ended_the_transaction(name: str, case: Case, end: str):
    inbox = accepted(case)
    with pytest.raises(ConfigurationError) as caught:
        inbox.work(ending(case, name, end), at=AT)
    assert caught.value.code == "inbox.handler-committed"
    if end == "commit":  # what it committed stays, the done marks included
        assert inbox.failed() == []
        assert told(inbox.work(case.handler, at=AT)) == {"r2": "applied"}
    else:
        (failure,) = inbox.failed()
        assert (failure.entry.request_id, failure.attempts) == ("r1", 1)
        assert (failure.reason, failure.due_at) == ("ConfigurationError [inbox.handler-committed]", AT + PAUSE)
        assert told(inbox.work(case.handler, at=AT)) == {"r0": "applied", "r2": "applied"}
        assert told(inbox.work(case.handler, at=AT + PAUSE)) == {"r1": "applied"}
    assert sorted(case.effects()) == ["t0 1", "t1 1", "t2 1"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("name", STORES)
def test_a_batch_finds_out_whose_handler_ended_the_transaction(name: str, case: Case, end: str):
    inbox, calls = Inbox(receiver(), case.store), [outcome(f"r{n}", ver=n + 1) for n in range(3)]
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle_all(calls, ending(case, name, end), at=AT)
    assert caught.value.code == "inbox.handler-committed"
    reasons = [(one.entry.request_id, one.reason) for one in inbox.failed()]
    assert reasons == ([] if end == "commit" else [("r1", "ConfigurationError [inbox.handler-committed]")])
    answers = [one.outcome.value for one in inbox.handle_all(calls, case.handler, at=AT)]  # type: ignore[union-attr]
    assert answers == (["repeated", "repeated", "applied"] if end == "commit" else ["applied"] * 3)
    assert case.effects() == ["t1 1", "t1 2", "t1 3"]


@pytest.mark.parametrize("name", STORES)
def test_a_handler_that_always_ends_the_transaction_fails_after_its_attempts(name: str, case: Case):
    inbox = accepted(case, settings=InboxSettings(retries=Retries(attempts=2)))
    for n in range(2):
        with pytest.raises(ConfigurationError):
            inbox.work(ending(case, name, "rollback"), at=AT + n * PAUSE)
    (failure,) = inbox.failed()
    assert (failure.entry.request_id, failure.attempts, failure.due_at) == ("r1", 2, None)


@pytest.mark.parametrize("name", ["postgresql"])
@pytest.mark.parametrize("way", ["handle", "work"])
def test_a_handler_that_closes_the_connection_is_found_out(name: str, case: Case, way: str):
    def closes(callback: VerifiedCallback, connection: psycopg.Connection) -> None:
        case.handler(callback, connection)
        connection.close()

    inbox = accepted(case)
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r9"), closes, at=AT) if way == "handle" else inbox.work(closes, at=AT)
    assert caught.value.code == "inbox.handler-committed"
    assert [one.entry.request_id for one in inbox.failed()] == ["r9" if way == "handle" else "r0"]
    assert case.effects() == []
