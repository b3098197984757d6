"""What an inbox promises, over every store."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from inboxes import AT, UUID, grant, login, outcome, received, receiver

from refusals import refused
from tppkit.callbacks import CallbackRejected, Inbox, InboxSettings
from tppkit.callbacks.verify import P256_ORDER
from tppkit.inbox import Outcome, Retries
from tppkit.inbox.store import MemoryStore

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def raising(callback: Any, connection: Any) -> None:
    raise LookupError("a secret")


def outcomes(worked: Any) -> list[Outcome]:
    return [one.outcome for one in worked]


def test_a_callback_has_its_effect_once_however_often_it_comes(inbox, case):
    first = inbox.handle(outcome("r1"), case.handler, at=AT)
    again = inbox.handle(outcome("r1"), case.handler, at=AT + DAY)
    assert (first.outcome, again.outcome) == (Outcome.APPLIED, Outcome.REPEATED)
    assert again.acknowledged
    assert case.effects() == ["t1 1"]


def test_an_accepted_callback_waits_for_a_worker(inbox, case):
    assert inbox.accept(outcome("r1"), at=AT).outcome is Outcome.STORED
    assert inbox.accept(outcome("r1"), at=AT + SECOND).outcome is Outcome.REPEATED
    assert case.effects() == []
    assert outcomes(inbox.work(case.handler, at=AT + SECOND)) == [Outcome.APPLIED]
    assert inbox.work(case.handler, at=AT + DAY) == []
    assert inbox.accept(outcome("r1"), at=AT + DAY).outcome is Outcome.REPEATED
    assert case.effects() == ["t1 1"]


def test_a_worker_gets_what_was_verified(inbox, case):
    sent = [outcome("r1"), login("r2"), grant("r3")]
    accepted = [inbox.accept(one, at=AT + n * SECOND).callback for n, one in enumerate(sent)]
    seen: list[Any] = []
    inbox.work(lambda callback, _: seen.append(callback), at=AT + MINUTE)
    assert seen == accepted
    assert seen[1].url == f"https://tpp.example/login/ž/{UUID}"


def test_a_stale_version_is_acknowledged_and_not_applied(inbox, case):
    for number, ver in enumerate((2, 1, 2, 3, 9_000_000_000_000_000_001, 9_000_000_000_000_000_000)):
        receipt = inbox.handle(outcome(f"r{number}", ver=ver), case.handler, at=AT)
        assert receipt.acknowledged
    assert case.effects() == ["t1 2", "t1 3", "t1 9000000000000000001"]


def test_a_version_that_comes_with_other_content_is_reported_and_not_applied(inbox, case):
    inbox.handle(outcome("r1", tlc="posted"), case.handler, at=AT)
    other = inbox.handle(outcome("r2", tlc="executed"), case.handler, at=AT)
    assert (other.outcome, other.acknowledged) == (Outcome.VERSION_CONFLICT, True)
    assert inbox.handle(outcome("r2", tlc="executed"), case.handler, at=AT).outcome is Outcome.REPEATED
    assert inbox.handle(outcome("r3", tlc="posted"), case.handler, at=AT).outcome is Outcome.STALE
    older = inbox.handle(outcome("r4", ver=0, tlc="executed"), case.handler, at=AT)
    assert (older.outcome, case.effects()) == (Outcome.STALE, ["t1 1"])


def test_a_worker_reports_a_version_that_comes_with_other_content(inbox, case):
    for n, tlc in enumerate(("posted", "executed", "posted")):
        inbox.accept(outcome(f"r{n}", tlc=tlc), at=AT + n * SECOND)
    worked = inbox.work(case.handler, at=AT + MINUTE)
    assert outcomes(worked) == [Outcome.APPLIED, Outcome.VERSION_CONFLICT, Outcome.STALE]
    assert b"executed" in worked[1].entry.content
    assert case.effects() == ["t1 1"]


def test_a_record_that_is_written_otherwise_is_the_same_content(inbox, case):
    first = outcome("r1")
    inbox.handle(first, case.handler, at=AT)
    body = json.dumps(dict(reversed(json.loads(first.body).items())), indent=1).encode()
    assert inbox.handle(received("r2", f"/cb/{UUID}", body), case.handler, at=AT).outcome is Outcome.STALE


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ('"new":{"a":1,"b":[{"c":1,"d":2}]}', '"new":{"b":[{"d":2,"c":1}],"a":1}', Outcome.STALE),
        ('"new":{"a":1,"b":2}', '"new":{"a":2,"b":1}', Outcome.VERSION_CONFLICT),
        ('"new":[1,2]', '"new":[2,1]', Outcome.VERSION_CONFLICT),
        ('"new":"1"', '"new":1', Outcome.VERSION_CONFLICT),
        ('"fee":["EUR0.50"]', '"fee":["EUR0.5"]', Outcome.STALE),
        ('"fee":["EUR10"]', '"fee":["EUR10.00"]', Outcome.STALE),
        ('"fee":["EUR-0"]', '"fee":["EUR0.00"]', Outcome.STALE),
        ('"fee":["EUR10"]', '"fee":["EUR100"]', Outcome.VERSION_CONFLICT),
        ('"fee":["EUR0.5"]', '"fee":["EUR-0.5"]', Outcome.VERSION_CONFLICT),
        ('"fee":["EUR999999999999999.999999"]', '"fee":["EUR999999999999999.999998"]', Outcome.VERSION_CONFLICT),
    ],
)  # fmt: skip
def test_names_in_any_order_at_any_depth_and_zeros_behind_an_amount_are_the_same_content(first, second, expected):
    inbox = Inbox(receiver(), MemoryStore())

    def handled(request_id: str, further: str) -> Outcome:
        body = outcome(request_id).body.decode().removesuffix("}") + f",{further}}}"
        return inbox.handle(received(request_id, f"/cb/{UUID}", body.encode()), lambda *_: None, at=AT).outcome

    assert [handled("r1", first), handled("r2", second)] == [Outcome.APPLIED, expected]


def test_another_content_is_applied_where_the_first_one_failed(inbox, case):
    with pytest.raises(LookupError):
        inbox.handle(outcome("r1", tlc="posted"), raising, at=AT)
    assert inbox.handle(outcome("r2", tlc="executed"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert outcomes(inbox.work(case.handler, at=AT + DAY)) == [Outcome.VERSION_CONFLICT]
    assert case.effects() == ["t1 1"]


def test_versions_of_two_records_do_not_hinder_each_other(inbox, case):
    inbox.handle(outcome("r1", record="t1", ver=5), case.handler, at=AT)
    inbox.handle(outcome("r2", record="t2", ver=1), case.handler, at=AT)
    assert case.effects() == ["t1 5", "t2 1"]


def test_a_grant_repeated_under_another_requestid_has_no_second_effect(inbox, case):
    assert inbox.handle(grant("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(grant("r2"), case.handler, at=AT).outcome is Outcome.STALE
    assert inbox.handle(grant("r3", token="b" * 20), case.handler, at=AT).outcome is Outcome.APPLIED


def test_a_customer_can_log_in_twice(inbox, case):
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(login("r2"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_a_requestid_with_other_signed_bytes_is_rejected(inbox, case):
    inbox.handle(outcome("r1", ver=1), case.handler, at=AT)
    with refused(CallbackRejected, "callback.request-id-reused"):
        inbox.handle(outcome("r1", ver=2), case.handler, at=AT)
    with refused(CallbackRejected, "callback.request-id-reused"):
        inbox.accept(outcome("r1", ver=2), at=AT)
    assert case.effects() == ["t1 1"]


def test_a_requestid_counts_for_its_address(inbox, case):
    assert inbox.handle(outcome("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_test_and_live_do_not_use_up_each_others_ids(case):
    test, live = (case.inbox(InboxSettings(environment=name)) for name in ("test", "live"))
    assert test.handle(outcome("r1", ver=7), case.handler, at=AT).outcome is Outcome.APPLIED
    assert live.handle(outcome("r1", ver=1), case.handler, at=AT).outcome is Outcome.APPLIED


def test_nothing_is_remembered_of_an_unsigned_callback(inbox, case):
    real = outcome("r1")
    for forged in (real._replace(body=real.body + b" "), real._replace(method="GET"), real._replace(headers=())):
        with pytest.raises(CallbackRejected):
            inbox.handle(forged, case.handler, at=AT)
    assert inbox.handle(real, case.handler, at=AT).outcome is Outcome.APPLIED


def test_a_malleated_signature_is_the_same_callback(inbox, case):
    real = outcome("r1")
    (name, request_id), (header, signature) = real.headers
    r, s = decode_dss_signature(bytes.fromhex(signature))
    other = real._replace(headers=((name, request_id), (header, encode_dss_signature(r, P256_ORDER - s).hex())))
    assert inbox.handle(real, case.handler, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(other, case.handler, at=AT).outcome is Outcome.REPEATED


def test_a_handlers_error_is_raised_and_the_callback_comes_again(inbox, case):
    with pytest.raises(LookupError, match="a secret"):
        inbox.handle(outcome("r1"), raising, at=AT)
    (failure,) = inbox.failed()
    assert (failure.reason, failure.attempts, failure.entry.name) == ("LookupError", 1, "r1")
    assert inbox.handle(outcome("r1"), case.handler, at=AT + SECOND).outcome is Outcome.APPLIED
    assert inbox.failed() == []
    assert case.effects() == ["t1 1"]


def test_a_callback_that_fails_does_not_delay_the_others(inbox, case):
    for n in range(3):
        inbox.accept(outcome(f"r{n}", record=f"t{n}"), at=AT + n * SECOND)

    def second_fails(callback: Any, connection: Any) -> None:
        case.handler(callback, connection)
        if callback.request_id == "r1":
            raise LookupError

    assert outcomes(inbox.work(second_fails, at=AT + MINUTE)) == [Outcome.APPLIED, Outcome.FAILED, Outcome.APPLIED]
    assert [failure.entry.name for failure in inbox.failed()] == ["r1"]
    assert inbox.work(case.handler, at=AT + MINUTE + 9 * SECOND) == []
    assert outcomes(inbox.work(case.handler, at=AT + MINUTE + 10 * SECOND)) == [Outcome.APPLIED]
    assert sorted(case.effects()) == ["t0 1", "t1 1", "t2 1"]


def test_a_callback_that_fails_too_often_waits_to_be_released(case):
    inbox = case.inbox(InboxSettings(retries=Retries(attempts=2)))
    inbox.accept(outcome("r1"), at=AT)
    inbox.work(raising, at=AT)
    inbox.work(raising, at=AT + MINUTE)
    (failure,) = inbox.failed()
    assert (failure.attempts, failure.due_at) == (2, None)
    assert inbox.work(case.handler, at=AT + 30 * DAY) == []
    assert inbox.release(failure, at=AT + 30 * DAY)
    assert not inbox.release(failure, at=AT + 30 * DAY)
    assert outcomes(inbox.work(case.handler, at=AT + 30 * DAY)) == [Outcome.APPLIED]


def test_a_failed_delivery_counts_as_an_attempt_in_every_store(inbox):
    waits = []
    for n in range(11):
        with pytest.raises(LookupError):
            inbox.handle(outcome("r1"), raising, at=AT + n * DAY)
        (failure,) = inbox.failed()
        waits.append(failure.due_at and failure.due_at - AT - n * DAY)
    assert waits[:3] == [10 * SECOND, 20 * SECOND, 40 * SECOND]
    assert waits[-2:] == [None, None]
    assert failure.attempts == 11


@pytest.mark.parametrize("again", [outcome("r2", ver=5), outcome("r2", ver=4)], ids=["same", "older"])
def test_a_version_whose_handler_failed_hinders_no_other_callback(inbox, case, again):
    with pytest.raises(LookupError):
        inbox.handle(outcome("r1", ver=5), raising, at=AT)
    assert inbox.handle(again, case.handler, at=AT + SECOND).outcome is Outcome.APPLIED
    inbox.work(case.handler, at=AT + MINUTE)
    assert case.effects() in (["t1 5"], ["t1 4", "t1 5"])


class Killed(BaseException):
    """The worker's process ends."""


def dies(callback: Any, connection: Any) -> None:
    raise Killed


def test_a_claim_is_held_until_its_lease_ends(inbox, case):
    inbox.accept(outcome("r1"), at=AT)
    with pytest.raises(Killed):
        inbox.work(dies, at=AT)
    assert inbox.work(case.handler, at=AT + MINUTE - SECOND) == []
    busy = inbox.handle(outcome("r1"), case.handler, at=AT + MINUTE - SECOND)
    assert (busy.outcome, busy.acknowledged) == (Outcome.BUSY, False)
    assert inbox.accept(outcome("r1"), at=AT + SECOND).outcome is Outcome.REPEATED
    assert outcomes(inbox.work(case.handler, at=AT + MINUTE)) == [Outcome.APPLIED]
    assert case.effects() == ["t1 1"]


def test_a_delivery_takes_over_a_claim_whose_lease_has_ended(inbox, case):
    inbox.accept(outcome("r1"), at=AT)
    with pytest.raises(Killed):
        inbox.work(dies, at=AT)
    assert inbox.handle(outcome("r1"), case.handler, at=AT + MINUTE).outcome is Outcome.APPLIED
    assert inbox.work(case.handler, at=AT + MINUTE) == []


def test_workers_take_the_oldest_first_and_no_more_than_requested(inbox, case):
    for n in (2, 0, 3, 1):
        inbox.accept(outcome(f"r{n}", record=f"t{n}"), at=AT + n * SECOND)
    inbox.work(case.handler, at=AT + MINUTE, limit=2)
    assert case.effects() == ["t0 1", "t1 1"]
    inbox.work(case.handler, at=AT + MINUTE, limit=2)
    assert case.effects() == ["t0 1", "t1 1", "t2 1", "t3 1"]


def test_what_a_dead_worker_had_delays_no_other(inbox, case):
    for n in range(6):
        inbox.accept(outcome(f"r{n}", ver=n), at=AT + n * SECOND)
    with pytest.raises(Killed):
        inbox.work(dies, at=AT + MINUTE)
    assert outcomes(inbox.work(case.handler, at=AT + MINUTE)) == [Outcome.APPLIED] * 5
    assert outcomes(inbox.work(case.handler, at=AT + 2 * MINUTE)) == [Outcome.STALE]
    assert case.effects() == [f"t1 {n}" for n in range(1, 6)]


def test_what_is_done_is_forgotten_after_its_retention_and_what_waits_never(inbox, case):
    inbox.handle(outcome("done"), case.handler, at=AT)
    inbox.accept(login("waits"), at=AT)
    with pytest.raises(LookupError):
        inbox.handle(login("failed"), raising, at=AT)
    assert inbox.purge(at=AT + 7 * DAY) == 0
    assert inbox.purge(at=AT + 7 * DAY + SECOND) == 1
    assert inbox.accept(login("waits"), at=AT).outcome is Outcome.REPEATED
    assert [failure.entry.name for failure in inbox.failed()] == ["failed"]
    # The requestid is new again, the version is not.
    assert inbox.handle(outcome("done"), case.handler, at=AT + 8 * DAY).outcome is Outcome.STALE
    assert inbox.purge(at=AT + 401 * DAY) == 2
    assert inbox.handle(outcome("done"), case.handler, at=AT + 401 * DAY).outcome is Outcome.APPLIED


def test_what_is_done_counts_from_the_time_it_was_done_at_by_the_clock(inbox, case):
    """As the guide says: a purge forgets early what was done while the clock was back by more than the retention."""
    back = AT - 30 * DAY
    assert inbox.handle(login("r1"), case.handler, at=back).outcome is Outcome.APPLIED
    assert inbox.handle(outcome("r2"), case.handler, at=back).outcome is Outcome.APPLIED
    assert [inbox.handle(one, case.handler, at=AT).outcome for one in (login("r1"), outcome("r2"))] == [
        Outcome.REPEATED
    ] * 2
    inbox.purge(at=AT)
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert inbox.handle(outcome("r2"), case.handler, at=AT).outcome is Outcome.STALE  # versions are kept for longer


def test_a_handled_callback_can_be_one_that_was_accepted(inbox, case):
    inbox.accept(outcome("r1"), at=AT)
    assert inbox.handle(outcome("r1"), case.handler, at=AT + SECOND).outcome is Outcome.APPLIED
    assert inbox.work(case.handler, at=AT + DAY) == []


def test_the_longest_body_is_kept_whole(inbox, case):
    head, tail = b'{"id":7,"name":"', b'"}'
    body = head + "ž€𝄞".encode() * 6000 + tail
    inbox.accept(received("r1", f"/login/ž/{UUID}", body), at=AT)
    bodies: list[bytes] = []
    inbox.work(lambda callback, _: bodies.append(callback.body), at=AT)
    assert bodies == [body]
