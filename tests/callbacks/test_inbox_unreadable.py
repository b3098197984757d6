"""What no handler may get, over every store: callbacks whose body cannot be read, and login GETs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from inboxes import ADDRESSES, AT, SERVICE, UUID, Case, outcome, scan
from inboxes import received as post

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    InboxSettings,
    TimeWindow,
    Unhandled,
    operated_at,
)
from tppkit.inbox import Outcome
from tppkit.message import Message

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
RECORD = '{"id":"t1","ver":1,"timeStamp":0,"tlc":"posted","acc":"LT121000011101001000","amount":["EUR-12.50"]}'
UNREADABLE = {
    "a colon": RECORD.replace("EUR-12.50", "EUR:-12.50"),
    "too many decimals": RECORD.replace("EUR-12.50", "EUR-12.50000001"),
    "no tlc": RECORD.replace('"tlc":"posted",', ""),
    "no JSON": "{,",
}


def unreadable(request_id: str = "r1", body: str = UNREADABLE["no tlc"]) -> Message:
    return post(request_id, f"/cb/{UUID}", body.encode())


def before_upgrade(case: Case) -> Inbox:
    """An inbox that cannot read records: it expects something else at their address."""
    addresses = (CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.ACCESS), *ADDRESSES[2:])
    return Inbox(CallbackReceiver(addresses, keys=[CallbackKey("live-2026", SERVICE.public_key())]), case.store)


Receive = Callable[[Inbox, Case, Message], Any]
WAYS: dict[str, Receive] = {
    "accept": lambda inbox, case, call: inbox.accept(call, at=AT),
    "handle": lambda inbox, case, call: inbox.handle(call, case.handler, at=AT),
    "handle_within": lambda inbox, case, call: inbox.handle_within(
        call, case.handler, at=AT, within=lambda: pytest.fail("a transaction was opened")
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_unreadable_callback_is_acknowledged_and_kept_as_failed(inbox, case, way):
    for request_id, body in UNREADABLE.items():
        call = unreadable(request_id.replace(" ", "-"), body)
        for _ in range(2):  # also when it is repeated
            receipt = WAYS[way](inbox, case, call)
            assert (receipt.outcome, receipt.acknowledged, receipt.fault.code) == (
                Unhandled.UNREADABLE, True, "callback.unreadable",
            )  # fmt: skip
    failures = {failure.entry.name: failure for failure in inbox.failed()}
    assert failures.keys() == {name.replace(" ", "-") for name in UNREADABLE}
    assert {(one.due_at, one.reason) for one in failures.values()} == {(None, "CallbackRejected [callback.unreadable]")}
    assert (inbox.work(case.handler, at=AT + DAY), case.effects()) == ([], [])


def test_an_unreadable_callback_can_be_discarded(inbox, case):
    inbox.accept(unreadable(), at=AT)
    assert inbox.discard(inbox.failed()[0], at=AT)
    assert inbox.accept(unreadable(), at=AT).outcome is Outcome.REPEATED
    assert inbox.failed() == []


def test_an_unreadable_callback_that_is_released_too_early_fails_again(inbox, case):
    inbox.accept(unreadable(), at=AT)
    assert inbox.release(inbox.failed()[0], at=AT)
    assert [worked.outcome for worked in inbox.work(case.handler, at=AT + SECOND)] == [Outcome.FAILED]
    assert [one.reason for one in inbox.failed()] == ["CallbackRejected [callback.unreadable]"]
    assert case.effects() == []


def test_an_unreadable_callback_is_handled_after_an_upgrade_in_the_order_of_versions(inbox, case):
    old = before_upgrade(case)
    assert old.accept(outcome("r2", ver=2), at=AT).outcome is Unhandled.UNREADABLE
    assert old.accept(outcome("r4", ver=4), at=AT).outcome is Unhandled.UNREADABLE
    assert inbox.handle(outcome("r3", ver=3), case.handler, at=AT).outcome is Outcome.APPLIED
    for failure in inbox.failed():
        assert inbox.release(failure, at=AT)
    worked = inbox.work(case.handler, at=AT + SECOND)
    assert {(one.entry.name, one.outcome) for one in worked} == {("r2", Outcome.STALE), ("r4", Outcome.APPLIED)}
    assert inbox.handle(outcome("r3b", ver=3), case.handler, at=AT + SECOND).outcome is Outcome.STALE
    assert inbox.handle(outcome("r5", ver=5), case.handler, at=AT + SECOND).outcome is Outcome.APPLIED
    assert case.effects() == ["t1 3", "t1 4", "t1 5"]


def test_a_repetition_after_an_upgrade_is_handled(inbox, case):
    before_upgrade(case).handle(outcome("r1"), case.handler, at=AT)
    assert inbox.handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert (inbox.failed(), case.effects()) == ([], ["t1 1"])


def test_an_unreadable_callback_with_a_used_requestid_is_refused(inbox, case):
    assert inbox.accept(outcome("r1"), at=AT).outcome is Outcome.STORED
    for way in WAYS.values():
        try:
            refused = way(inbox, case, unreadable())
        except CallbackRejected as e:
            refused = e
        assert refused.code == "callback.request-id-reused"


def test_a_time_window_does_not_hold_for_an_unreadable_callback(case):
    settings = InboxSettings(window=TimeWindow(operated_at, past=SECOND))
    inbox = case.inbox(settings)
    assert inbox.accept(unreadable(), at=AT).outcome is Unhandled.UNREADABLE


@pytest.mark.parametrize("way", WAYS)
def test_a_login_get_is_not_stored_and_reaches_no_handler(inbox, case, way):
    for _ in range(2):
        receipt = WAYS[way](inbox, case, scan("r1"))
        assert (receipt.outcome, receipt.acknowledged) == (Unhandled.LOGIN, True)
    assert (inbox.work(case.handler, at=AT + DAY), inbox.failed(), case.effects()) == ([], [], [])


def test_once_stores_no_scan_and_no_unreadable_callback(inbox):
    assert inbox.once(scan("r1"), at=AT, within=None).outcome is Unhandled.LOGIN
    with pytest.raises(CallbackRejected) as refused:
        inbox.once(unreadable(), at=AT, within=None)
    assert refused.value.code == "callback.unreadable"
