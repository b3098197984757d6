"""What failed, over every store: turned over page by page, and put away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from inboxes import AT, STORES, Case, grant, located, login, new_prefix, open_case, outcome, receiver

from tppkit.callbacks import Inbox, InboxSettings, Outcome, Retention, Retries
from tppkit.callbacks.stores import Failure
from tppkit.callbacks.stores.sqlite import SqliteStore
from tppkit.errors import ConfigurationError

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
Place = tuple[str, str, str]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return request.param, located(request.param, tmp_path, request.getfixturevalue), new_prefix("failed")


@pytest.fixture
def case(place: Place) -> Iterator[Case]:
    with open_case(*place) as case:
        yield case


@pytest.fixture
def inbox(case: Case) -> Inbox:
    return Inbox(receiver(), case.store)


def raising(callback: Any, connection: Any) -> None:
    raise LookupError


def fail(inbox: Inbox, number: int, *, after: timedelta = timedelta(0)) -> None:
    with suppress(LookupError):
        inbox.handle(login(f"r{number}"), raising, at=AT + after)


def names(failures: list[Failure]) -> list[str]:
    return [failure.entry.request_id for failure in failures]


def rows_of(place: Place, case: Case) -> list[bytes]:
    """Everything that the store holds, as bytes."""
    name, location, prefix = place
    if name == "memory":
        return [repr(case.store._rows).encode()]  # type: ignore[attr-defined]
    if name == "redis":
        with redis.Redis.from_url(location) as client:
            return [
                part
                for key in client.scan_iter(f"{prefix}c:*")
                for pair in client.hgetall(key).items()
                for part in pair
            ]
    if name.endswith("postgresql"):
        connection: Any = psycopg.connect(location.replace("postgresql+psycopg:", "postgresql:"))
    else:
        connection = sqlite3.connect(location.removeprefix("sqlite:///"))
    table = "tppkit_inbox_callbacks" if name == "sqlite" else f"{prefix}callbacks"
    with closing(connection):
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    return [bytes(part) if isinstance(part, bytes | memoryview) else str(part).encode() for row in rows for part in row]


def test_what_failed_is_turned_over_page_by_page(inbox: Inbox):
    for number in range(7):
        fail(inbox, number, after=(number // 3) * SECOND)  # three of a moment, so that the key decides
    pages, last = [], None
    while page := inbox.failed(limit=2, after=last):
        pages.append(names(page))
        last = page[-1]
    assert [len(page) for page in pages] == [2, 2, 2, 1]
    found = [name for page in pages for name in page]
    assert found == names(inbox.failed())
    assert [set(found[:3]), set(found[3:6]), found[6:]] == [{"r0", "r1", "r2"}, {"r3", "r4", "r5"}, ["r6"]]


def test_a_page_goes_on_behind_what_was_put_away_meanwhile(inbox: Inbox):
    for number in range(6):
        fail(inbox, number)
    found, last = [], None
    while page := inbox.failed(limit=2, after=last):
        found += names(page)
        assert inbox.discard(page[0], at=AT)
        assert inbox.release(page[1], at=AT)
        last = page[-1]
    assert sorted(found) == [f"r{n}" for n in range(6)]
    assert inbox.failed() == []


def test_a_discarded_callback_is_done_without_effect(inbox: Inbox, case: Case):
    fail(inbox, 1)
    (failure,) = inbox.failed()
    assert inbox.discard(failure, at=AT + SECOND)
    assert not inbox.discard(failure, at=AT + SECOND)
    assert not inbox.release(failure, at=AT + SECOND)
    assert inbox.failed() == []
    assert inbox.work(case.handler, at=AT + DAY) == []
    assert inbox.handle(login("r1"), case.handler, at=AT + DAY).outcome is Outcome.REPEATED
    assert case.effects() == []


def test_a_discarded_callback_is_forgotten_as_what_is_done(inbox: Inbox):
    fail(inbox, 1)
    assert inbox.purge(at=AT + 8 * DAY) == 0
    assert inbox.discard(inbox.failed()[0], at=AT + 8 * DAY)
    assert inbox.purge(at=AT + 15 * DAY) == 0
    assert inbox.purge(at=AT + 15 * DAY + SECOND) == 1


def test_nothing_personal_stays_behind_what_is_discarded(place: Place):
    with open_case(*place) as case:
        inbox, token = Inbox(receiver(), case.store), "personal" + "c" * 12
        for delivery in (login("r1", token=token), grant("r2", token=token)):
            with suppress(LookupError):
                inbox.handle(delivery, raising, at=AT)
        assert any(token.encode() in part for part in rows_of(place, case))
        for failure in inbox.failed():
            assert inbox.discard(failure, at=AT)
        parts = rows_of(place, case)
        assert any(b"r1" in part for part in parts)
        assert not any(token.encode() in part for part in parts)


def test_a_discarded_version_is_not_used_up(inbox: Inbox, case: Case):
    with suppress(LookupError):
        inbox.handle(outcome("r1", ver=5), raising, at=AT)
    assert inbox.discard(inbox.failed()[0], at=AT)
    assert inbox.handle(outcome("r2", ver=5), case.handler, at=AT).outcome is Outcome.APPLIED


def test_what_was_tried_again_since_is_not_discarded(inbox: Inbox, case: Case):
    fail(inbox, 1)
    (seen,) = inbox.failed()
    fail(inbox, 1, after=SECOND)
    assert not inbox.discard(seen, at=AT + SECOND)
    (failure,) = inbox.failed()
    assert inbox.release(failure, at=AT + SECOND)
    assert not inbox.discard(failure, at=AT + SECOND)
    assert [one.outcome for one in inbox.work(case.handler, at=AT + SECOND)] == [Outcome.APPLIED]
    assert not inbox.discard(failure, at=AT + SECOND)


def test_a_purge_discards_what_failed_for_good_where_it_is_told_to(case: Case):
    retention, retries = Retention(failed=30 * DAY), Retries(attempts=1)
    once, often = (Inbox(receiver(), case.store, settings=one) for one in (
        InboxSettings(retention=retention, retries=retries), InboxSettings(retention=retention)))  # fmt: skip
    once.handle_all([login(f"r{number}") for number in range(120)], raising, at=AT)
    fail(often, 200)  # tried again by itself
    fail(once, 201, after=DAY)
    once.purge(at=AT + 30 * DAY)
    assert len(once.failed(limit=1000)) == 122
    once.purge(at=AT + 30 * DAY + SECOND)
    assert names(once.failed()) == ["r200", "r201"]
    assert once.purge(at=AT + 37 * DAY + 2 * SECOND) == 120


def test_a_batch_of_a_purge_is_bounded_and_passes_over_what_is_tried_again(case: Case):
    fail(Inbox(receiver(), case.store), 0)  # before the others, tried again
    once = Inbox(receiver(), case.store, settings=InboxSettings(retries=Retries(attempts=1)))
    for number in range(1, 6):
        fail(once, number, after=SECOND)
    late = AT + DAY
    assert [case.store.discard_failed(before=late, at=late, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert names(once.failed()) == ["r0"]


def test_a_purge_discards_many_with_one_commit(tmp_path: Path):
    path, commits = tmp_path / "inbox.sqlite", list[str]()

    def counting(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)

    store = SqliteStore(path, on_connect=counting)
    store.create_tables()
    settings = InboxSettings(retention=Retention(failed=DAY), retries=Retries(attempts=1))
    inbox = Inbox(receiver(), store, settings=settings)
    inbox.handle_all([login(f"r{number}") for number in range(120)], raising, at=AT)
    commits.clear()
    inbox.purge(at=AT + 2 * DAY)
    assert inbox.failed() == []
    store.close()
    assert 0 < len(commits) <= 4  # the batch, the next that finds nothing, what is forgotten, and this look


def test_a_retention_of_nothing_is_refused():
    with pytest.raises(ConfigurationError) as caught:
        Retention(failed=timedelta(0))
    assert caught.value.code == "inbox.setting"
