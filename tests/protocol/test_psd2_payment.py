"""The life of a payment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from tppkit.errors import LocalProtocolError
from tppkit.protocol.psd2.payment import (
    PAYMENT,
    Progress,
    TransactionStatus,
    Trigger,
    cancel,
    due_trigger,
    reported_status,
)

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
INACTIVITY = timedelta(seconds=300)
TICK = timedelta(microseconds=1)
RECEIVED = Progress(TransactionStatus.RCVD, START)
APPROVED = Progress(TransactionStatus.ACSP, START, opened=True, approved_at=START)


def due(progress: Progress, now: datetime) -> Trigger | None:
    return due_trigger(progress, now=now, inactivity=INACTIVITY)


def test_a_payment_waits_until_the_last_moment_of_its_inactivity():
    assert due(RECEIVED, START + INACTIVITY - TICK) is None


def test_a_payment_expires_when_its_inactivity_is_over():
    assert due(RECEIVED, START + INACTIVITY) is Trigger.EXPIRED


def test_opening_the_link_starts_the_inactivity_again():
    opened = replace(RECEIVED, opened=True, active_at=START + timedelta(seconds=200))
    assert due(opened, START + INACTIVITY) is None
    assert due(opened, START + timedelta(seconds=500)) is Trigger.EXPIRED


@pytest.mark.parametrize("status", ["ACSP", "ACSC", "RJCT", "CANC"])
def test_time_alone_moves_no_other_payment(status):
    assert due(replace(APPROVED, status=TransactionStatus(status)), START + timedelta(days=365)) is None


@pytest.mark.parametrize("progress", [RECEIVED, replace(RECEIVED, status=TransactionStatus.ACTC)], ids=["RCVD", "ACTC"])
def test_what_time_makes_happen_is_a_move_of_the_table(progress):
    trigger = due(progress, START + timedelta(days=1))
    assert trigger is not None
    assert PAYMENT.move(progress.status, trigger) in PAYMENT.final


def test_an_unopened_payment_is_cancelled():
    assert cancel(RECEIVED) is TransactionStatus.CANC


OPENED_OR_OTHER = [
    pair for pair in product(TransactionStatus, [False, True]) if pair != (TransactionStatus.RCVD, False)
]


@pytest.mark.parametrize(("status", "opened"), OPENED_OR_OTHER)
def test_an_opened_approved_or_final_payment_is_not_cancelled(status, opened):
    with pytest.raises(LocalProtocolError) as caught:
        cancel(Progress(status, START, opened=opened))
    assert caught.value.code == "payment.not-cancellable"


@pytest.mark.parametrize("status", TransactionStatus)
def test_a_poll_reports_a_cancelled_payment_as_rejected_and_every_other_as_it_is(status):
    expected = "RJCT" if status is TransactionStatus.CANC else status.value
    assert reported_status(status).value == expected
