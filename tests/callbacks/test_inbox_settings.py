"""What an inbox goes by: time, leases, retention, retries; and what a stored callback needs to be worked off."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from inboxes import AT, SERVICE, UUID, Case, core_case, grant, login, outcome, receiver

from refusals import refused
from tppkit.callbacks import (
    NO_TIME,
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    InboxSettings,
    TimeWindow,
    VerifiedCallback,
    operated_at,
)
from tppkit.errors import ConfigurationError, TransportError
from tppkit.inbox import InboxError, Outcome, Retention, Retries
from tppkit.inbox.store import MemoryStore

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
OPERATED = 833_630_400  # seconds from 2000-01-01 to AT
WINDOW = TimeWindow(operated_at, past=10 * MINUTE, future=MINUTE)


@pytest.fixture
def case() -> Case:
    return core_case(MemoryStore())


def within(window: TimeWindow, case: Case) -> Inbox:
    return Inbox(receiver(), case.store, settings=InboxSettings(window=window))


def test_a_callback_is_in_the_window_up_to_both_ends(case):
    inbox = within(WINDOW, case)
    for number, (stamp, at) in enumerate([(0, AT), (0, AT + 10 * MINUTE), (60, AT)]):
        receipt = inbox.accept(outcome(f"r{number}", record=f"t{number}", at=OPERATED + stamp), at=at)
        assert receipt.outcome is Outcome.STORED
    assert operated_at(receipt.callback) == AT + MINUTE


@pytest.mark.parametrize(
    ("code", "at"),
    [
        ("callback.time-past", AT + 10 * MINUTE + timedelta(microseconds=1)),
        ("callback.time-future", AT - MINUTE - timedelta(microseconds=1)),
        ("callback.time-past", datetime.max.replace(tzinfo=UTC)),
        ("callback.time-future", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_outside_the_window_a_callback_is_refused_and_not_remembered(code, at, case):
    inbox = within(WINDOW, case)
    with refused(CallbackRejected, code):
        inbox.accept(outcome("r1", at=OPERATED), at=at)
    assert inbox.accept(outcome("r1", at=OPERATED), at=AT).outcome is Outcome.STORED


def test_a_callback_to_which_no_time_applies_is_within_every_window(case):
    assert within(WINDOW, case).accept(login("r1"), at=AT).outcome is Outcome.STORED
    assert within(TimeWindow(lambda _: NO_TIME, past=DAY), case).accept(grant("r2"), at=AT).outcome is Outcome.STORED


def test_a_login_can_be_held_to_the_time_its_code_was_shown(case):
    shown = {UUID: AT}
    inbox = within(TimeWindow(lambda callback: shown.get(callback.token), past=5 * MINUTE), case)
    assert inbox.accept(login("r1"), at=AT + MINUTE).outcome is Outcome.STORED
    with refused(CallbackRejected, "callback.time-past"):
        inbox.accept(login("r2"), at=AT + 6 * MINUTE)


SHOWN: dict[str, datetime] = {}  # every code is forgotten


@pytest.mark.parametrize(
    "time_of", [lambda callback: SHOWN.get(callback.token), lambda callback: SHOWN[callback.token]]
)
@pytest.mark.parametrize("callback", [login("r1"), outcome("r1")])
def test_an_unknown_time_is_in_no_window(time_of, callback, case):
    inbox = within(TimeWindow(time_of, past=DAY), case)
    with pytest.raises(CallbackRejected) as caught:
        inbox.handle(callback, case.handler, at=AT)
    assert caught.value.code == "callback.time-unknown"
    assert UUID not in str(caught.value)
    assert case.effects() == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (OSError("the table of codes is away"), "inbox.time"),
        (TransportError("transport.timeout", "the service of codes is away"), "inbox.time"),
        (InboxError("inbox.unavailable", "away"), "inbox.unavailable"),
    ],
)
def test_a_window_that_fails_acknowledges_nothing(fault, expected, case):
    def time_of(callback: VerifiedCallback) -> datetime:
        raise fault

    inbox = within(TimeWindow(time_of, past=DAY), case)
    with pytest.raises(InboxError) as caught:
        inbox.accept(login("r1"), at=AT)
    assert caught.value.code == expected
    assert fault in (caught.value, caught.value.__cause__)


@pytest.mark.parametrize(("time", "code"), [(833_630_400, "inbox.setting"), (datetime(2026, 6, 1), "time.naive")])
def test_what_is_not_a_time_with_a_zone_is_a_fault_of_the_receiver(time, code, case):
    with refused(ConfigurationError, code):
        within(TimeWindow(lambda _: time, past=DAY), case).accept(login("r1"), at=AT)


def test_every_time_that_is_passed_in_has_a_zone(case):
    inbox, naive = Inbox(receiver(), case.store), datetime(2026, 6, 1)
    for call in (
        lambda: inbox.accept(login("r1"), at=naive),
        lambda: inbox.handle(login("r1"), case.handler, at=naive),
        lambda: inbox.once(login("r1"), at=naive, within=None),
        lambda: inbox.work(case.handler, at=naive),
        lambda: inbox.purge(at=naive),
    ):
        with refused(ConfigurationError, "time.naive"):
            call()


def test_the_time_of_receipt_is_kept_in_utc(case):
    inbox = Inbox(receiver(), case.store)
    inbox.accept(grant("r1"), at=AT.astimezone(timezone(3 * timedelta(hours=1))))
    (worked,) = inbox.work(case.handler, at=AT)
    assert worked.entry.received_at.isoformat() == "2026-06-01T12:00:00+00:00"


def test_a_stored_callback_whose_address_was_removed_fails_with_that_reason(case):
    Inbox(receiver(), case.store).accept(outcome("r1"), at=AT)
    elsewhere = CallbackReceiver(
        [CallbackAddress("https://tpp.example/new/", CallbackKind.ACCESS)],
        keys=[CallbackKey("live-2026", SERVICE.public_key())],
    )
    inbox = Inbox(elsewhere, case.store)
    (worked,) = inbox.work(case.handler, at=AT)
    assert worked.outcome is Outcome.FAILED
    assert inbox.failed()[0].reason == "InboxError [inbox.address]"


def test_a_stored_callback_needs_no_key_any_more(case):
    Inbox(receiver(), case.store).accept(outcome("r1"), at=AT)
    other = CallbackReceiver(receiver().book.addresses, keys=[CallbackKey("live-2027", SERVICE.public_key())])
    assert [one.outcome for one in Inbox(other, case.store).work(case.handler, at=AT)] == [Outcome.APPLIED]


def test_retries_wait_twice_as_long_each_time_up_to_a_limit_and_then_end():
    retries = Retries(first=10 * SECOND, longest=MINUTE, attempts=6)
    waits = [retries.due_at(attempt, at=AT) for attempt in range(1, 8)]
    assert waits == [AT + n * SECOND for n in (10, 20, 40, 60, 60)] + [None, None]
    assert Retries(first=10 * SECOND, attempts=1).due_at(0, at=AT) == AT + 10 * SECOND  # what was no attempt
    endless, end = Retries(first=DAY, longest=timedelta(days=36525), attempts=10**6), datetime.max.replace(tzinfo=UTC)
    assert endless.due_at(10**5, at=end) == end


@pytest.mark.parametrize(
    ("attempts", "span", "outlasts"),
    [(4, 70, True), (4, 71, False), (100, 5830, True), (100, 5831, False), (10**9, 10**8, True)],
)
def test_retries_outlast_the_sum_of_their_waits(attempts, span, outlasts):
    assert Retries(first=10 * SECOND, longest=MINUTE, attempts=attempts).outlast(span * SECOND) is outlasts


@pytest.mark.parametrize(
    "settings",
    [
        lambda: InboxSettings(environment=""),
        lambda: InboxSettings(environment="x" * 65),
        lambda: InboxSettings(environment="a\0b"),
        lambda: InboxSettings(lease=timedelta(0)),
        lambda: Retention(done=timedelta(0)),
        lambda: Retention(versions=-DAY),
        lambda: Retention(versions=timedelta.max),
        lambda: Retention(failed=timedelta(0)),
        lambda: Retention(done=8 * DAY, versions=7 * DAY),
        lambda: TimeWindow(operated_at, past=-DAY),
        lambda: TimeWindow(operated_at, past=timedelta.max),
        lambda: TimeWindow(operated_at, past=DAY, future=-DAY),
        lambda: TimeWindow(operated_at, past=DAY, future=timedelta(days=36526)),
        lambda: Retries(first=timedelta(0)),
        lambda: Retries(longest=timedelta(0)),
        lambda: Retries(attempts=0),
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with refused(ConfigurationError, "inbox.setting"):
        settings()
