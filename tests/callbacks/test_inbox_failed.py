"""What failed, over every store: turned over page by page, and put away."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from inboxes import AT, Case, grant, login, outcome
from sqlalchemy import MetaData, select

from tppkit.callbacks import Inbox, InboxSettings
from tppkit.inbox import Failure, Outcome, Retention, Retries

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def raising(callback: Any, connection: Any) -> None:
    raise LookupError


def fail(inbox: Inbox, number: int, *, after: timedelta = timedelta(0)) -> None:
    with suppress(LookupError):
        inbox.handle(login(f"r{number}"), raising, at=AT + after)


def names(failures: list[Failure]) -> list[str]:
    return [failure.entry.name for failure in failures]


def rows_of(case: Case) -> list[bytes]:
    """Everything that the store holds, as bytes."""
    tables = MetaData()
    with case.store.engine.connect() as db:
        tables.reflect(db)
        rows = [row for table in tables.sorted_tables for row in db.execute(select(table))]
    return [part if isinstance(part, bytes) else str(part).encode() for row in rows for part in row]


def test_what_failed_is_turned_over_page_by_page(inbox):
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


def test_a_failed_callback_can_be_read_and_is_purged_if_configured(case):
    inbox = case.inbox(InboxSettings(retention=Retention(failed=DAY), retries=Retries(attempts=1)))
    fail(inbox, 1)
    (failure,) = inbox.failed()
    callback = inbox.callback_of(failure.entry)
    assert (callback.request_id, callback.body, callback.received_at) == ("r1", login("r1").body, AT)
    assert [inbox.purge(at=AT + DAY), inbox.purge(at=AT + DAY + SECOND), inbox.failed()] == [0, 1, []]


def test_a_page_continues_after_rows_that_were_removed_meanwhile(inbox):
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


def test_a_discarded_callback_is_done_without_effect(inbox, case):
    fail(inbox, 1)
    (failure,) = inbox.failed()
    assert inbox.discard(failure, at=AT + SECOND)
    assert not inbox.discard(failure, at=AT + SECOND)
    assert not inbox.release(failure, at=AT + SECOND)
    assert inbox.failed() == []
    assert inbox.work(case.handler, at=AT + DAY) == []
    assert inbox.handle(login("r1"), case.handler, at=AT + DAY).outcome is Outcome.REPEATED
    assert case.effects() == []


def test_a_discarded_callback_is_forgotten_as_what_is_done(inbox):
    fail(inbox, 1)
    assert inbox.purge(at=AT + 8 * DAY) == 0
    assert inbox.discard(inbox.failed()[0], at=AT + 8 * DAY)
    assert inbox.purge(at=AT + 15 * DAY) == 0
    assert inbox.purge(at=AT + 15 * DAY + SECOND) == 1


def test_nothing_personal_stays_behind_what_is_discarded(inbox, case):
    token = "personal" + "c" * 12
    for delivery in (login("r1", token=token), grant("r2", token=token)):
        with suppress(LookupError):
            inbox.handle(delivery, raising, at=AT)
    assert any(token.encode() in part for part in rows_of(case))
    for failure in inbox.failed():
        assert inbox.discard(failure, at=AT)
    parts = rows_of(case)
    assert any(b"r1" in part for part in parts)
    assert not any(token.encode() in part for part in parts)


def test_a_discarded_version_is_not_used_up(inbox, case):
    with suppress(LookupError):
        inbox.handle(outcome("r1", ver=5), raising, at=AT)
    assert inbox.discard(inbox.failed()[0], at=AT)
    assert inbox.handle(outcome("r2", ver=5), case.handler, at=AT).outcome is Outcome.APPLIED


def test_what_was_tried_again_since_is_not_discarded(inbox, case):
    fail(inbox, 1)
    (seen,) = inbox.failed()
    fail(inbox, 1, after=SECOND)
    assert not inbox.discard(seen, at=AT + SECOND)
    (failure,) = inbox.failed()
    assert inbox.release(failure, at=AT + SECOND)
    assert not inbox.discard(failure, at=AT + SECOND)
    assert [one.outcome for one in inbox.work(case.handler, at=AT + SECOND)] == [Outcome.APPLIED]
    assert not inbox.discard(failure, at=AT + SECOND)
