"""Captures, voids, ends of periods and refunds, one by one and in any order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.authorisations import (
    CAPTURE_WINDOW,
    LINK_PERIOD,
    Authorisation,
    accept,
    attempt_ends_at,
    capture,
    charge_back,
    ends_at,
    is_capturable,
    order_ends_at,
    refund,
    reverse,
    settle,
    void,
)
from tppkit.protocol.gateway.orders import CaptureMode
from tppkit.protocol.gateway.states import AuthorisationState

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SALE = accept(1000, capture_mode=None, expiration_period=None, at=NOW)
MANUAL = accept(1000, capture_mode=CaptureMode.MANUAL, expiration_period=None, at=NOW)
DELAYED = accept(1000, capture_mode=CaptureMode.DELAYED, expiration_period="PT2H", at=NOW)


def code(act: Callable[[], object]) -> str:
    with pytest.raises(LocalProtocolError) as refused:
        act()
    return refused.value.code


def test_a_partial_capture_releases_the_rest_for_ever():
    done = capture(MANUAL, 400, at=NOW)
    assert (done.state, done.captured, is_capturable(done, at=NOW)) == (AuthorisationState.CAPTURED, 400, False)
    assert code(lambda: capture(done, 1, at=NOW)) == "authorisation.closed"
    assert code(lambda: void(done, at=NOW)) == "authorisation.closed"


def test_a_partial_void_leaves_the_rest():
    reduced = void(MANUAL, 300, at=NOW)
    assert is_capturable(reduced, at=NOW)
    assert code(lambda: capture(reduced, 701, at=NOW)) == "authorisation.amount"
    assert capture(reduced, 700, at=NOW).captured == capture(reduced, at=NOW).captured == 700


def test_a_void_of_everything_is_the_same_by_amount():
    assert void(MANUAL, at=NOW) == void(MANUAL, 1000, at=NOW) == void(void(MANUAL, 300, at=NOW), 700, at=NOW)
    assert code(lambda: capture(void(MANUAL, at=NOW), at=NOW)) == "authorisation.closed"


@pytest.mark.parametrize("amount", [-1, 0, 1001])
def test_other_amounts_are_not_voided(amount):
    assert code(lambda: void(MANUAL, amount, at=NOW)) == "authorisation.amount"


def test_a_capture_of_nothing_releases_everything():
    assert capture(MANUAL, 0, at=NOW).captured == 0
    assert code(lambda: capture(MANUAL, -1, at=NOW)) == "authorisation.amount"
    assert code(lambda: capture(MANUAL, 1001, at=NOW)) == "authorisation.amount"


def test_a_delayed_capture_happens_by_itself_without_what_was_voided():
    assert code(lambda: capture(DELAYED, at=NOW)) == "authorisation.delayed"
    reduced = void(DELAYED, 250, at=NOW + HOUR)
    assert settle(reduced, at=NOW + 2 * HOUR - timedelta(microseconds=1)) == reduced
    assert settle(reduced, at=NOW + 2 * HOUR).captured == 750
    assert code(lambda: void(reduced, at=NOW + 2 * HOUR)) == "authorisation.closed"
    assert not is_capturable(DELAYED, at=NOW)


def test_a_manual_authorisation_lapses_after_five_days_or_its_own_period():
    assert capture(MANUAL, at=NOW + CAPTURE_WINDOW - timedelta(microseconds=1)).captured == 1000
    assert settle(MANUAL, at=NOW + CAPTURE_WINDOW).state is AuthorisationState.LAPSED
    assert code(lambda: capture(MANUAL, at=NOW + CAPTURE_WINDOW)) == "authorisation.closed"
    assert accept(1, capture_mode=CaptureMode.MANUAL, expiration_period="P7D", at=NOW).ends_at == NOW + timedelta(
        days=7
    )


def test_a_sale_is_captured_from_the_start():
    assert (SALE.captured, is_capturable(SALE, at=NOW)) == (1000, False)
    assert {code(lambda: capture(SALE, at=NOW)), code(lambda: void(SALE, at=NOW))} == {"authorisation.none"}
    assert settle(SALE, at=NOW + CAPTURE_WINDOW) == SALE


def test_refunds_are_of_captured_money_once():
    once = refund(SALE, 600)
    assert (once.refunded, refund(once, 400).refunded) == (600, 1000)
    assert {code(lambda: refund(once, 500)), code(lambda: refund(once, 0))} == {"refund.amount"}
    assert code(lambda: refund(MANUAL, 1)) == "refund.amount"
    assert refund(capture(MANUAL, 400, at=NOW), 400).refunded == 400


def test_a_chargeback_takes_what_is_not_refunded_and_is_reversed_once():
    taken = charge_back(refund(SALE, 600))
    assert (taken.charged_back, taken.refundable) == (400, 0)
    assert {code(lambda: charge_back(taken)), code(lambda: refund(taken, 1))} == {"refund.amount"}
    returned = reverse(taken)
    assert (returned.charged_back, refund(returned, 400).refundable) == (0, 0)
    assert {code(lambda: reverse(returned)), code(lambda: charge_back(MANUAL))} == {"refund.amount"}


def test_which_clock_ends_an_attempt_and_an_order():
    half = timedelta(minutes=30)
    for mode, period, after in ((None, None, half), (None, "PT2H", 2 * HOUR), (CaptureMode.MANUAL, "P7D", half)):
        assert attempt_ends_at(NOW, capture_mode=mode, expiration_period=period) == NOW + after
    assert order_ends_at(NOW, expiration_period=None, attempt=NOW + half) == NOW + half
    assert order_ends_at(NOW, expiration_period="PT1H", attempt=NOW + half) == NOW + HOUR
    assert order_ends_at(NOW, expiration_period=None, attempt=None) == NOW + 24 * HOUR
    assert ends_at(NOW, None, default=LINK_PERIOD) == NOW + timedelta(days=30)


steps = st.lists(
    st.tuples(
        st.sampled_from(["capture", "void", "refund", "charge back", "reverse", "wait"]),
        st.none() | st.integers(-1, 1100),
    ),
    max_size=8,
)


@given(st.sampled_from([None, *CaptureMode]), st.integers(0, 1000), steps)
def test_money_is_never_made(mode, amount, steps):
    now, state = NOW, accept(amount, capture_mode=mode, expiration_period=None, at=NOW)
    captures = 0
    for step, number in steps:
        now += HOUR * (abs(number or 0) if step == "wait" else 0)
        before, state = state, settle(state, at=now)
        captures += state.captured != before.captured
        try:
            before, state = state, _act(step, number, state, now)
        except LocalProtocolError:
            continue
        captures += step == "capture"
        assert (before.state is AuthorisationState.OPEN) or step not in ("capture", "void")
        assert (
            0
            <= state.refunded
            <= state.refunded + state.charged_back
            <= state.captured
            <= state.amount - state.voided
            <= amount
        )
    assert captures <= 1


def _act(step: str, number: int | None, state: Authorisation, now: datetime) -> Authorisation:
    if step == "refund":
        return refund(state, number or 0)
    if step in ("charge back", "reverse"):
        return (reverse if step == "reverse" else charge_back)(state)
    return state if step == "wait" else {"capture": capture, "void": void}[step](state, number, at=now)
