"""State machines as tables."""

from __future__ import annotations

from itertools import product

import pytest

from refusals import refused
from tppkit.errors import LocalProtocolError
from tppkit.protocol.machine import Machine
from tppkit.protocol.psd2.payment import PAYMENT, TransactionStatus, Trigger

TURNSTILE: Machine[str, str] = Machine(
    initial="locked", moves={("locked", "coin"): "open", ("open", "push"): "locked", ("open", "break"): "broken"}
)


def test_the_states_without_moves_are_final():
    assert TURNSTILE.final == {"broken"}


@pytest.mark.parametrize(("state", "trigger"), [("locked", "push"), ("broken", "coin"), ("open", "coin"), ("x", "y")])
def test_a_move_that_is_not_in_the_table_cannot_happen(state, trigger):
    with pytest.raises(LocalProtocolError) as caught:
        TURNSTILE.move(state, trigger)
    assert caught.value.code == "machine.no-such-move"
    assert state in caught.value.message
    assert trigger in caught.value.message


# The PSD2 document, part A section 3, "From / Trigger / To", and the assumptions about declined payments and ACTC.
SHOWN = {
    (TransactionStatus.RCVD, Trigger.APPROVED): TransactionStatus.ACSP,
    (TransactionStatus.ACSP, Trigger.EXECUTED): TransactionStatus.ACSC,
    (TransactionStatus.RCVD, Trigger.EXPIRED): TransactionStatus.RJCT,
    (TransactionStatus.RCVD, Trigger.CANCELLED): TransactionStatus.CANC,
    (TransactionStatus.RCVD, Trigger.DECLINED): TransactionStatus.RJCT,
    (TransactionStatus.ACSP, Trigger.FAILED): TransactionStatus.RJCT,
    (TransactionStatus.RCVD, Trigger.STARTED): TransactionStatus.ACTC,
    (TransactionStatus.ACTC, Trigger.APPROVED): TransactionStatus.ACSP,
    (TransactionStatus.ACTC, Trigger.DECLINED): TransactionStatus.RJCT,
    (TransactionStatus.ACTC, Trigger.EXPIRED): TransactionStatus.RJCT,
    (TransactionStatus.ACTC, Trigger.FAILED): TransactionStatus.RJCT,
}


def test_a_payment_moves_as_the_document_shows_and_not_otherwise():
    for state, trigger in product(TransactionStatus, Trigger):
        if (state, trigger) in SHOWN:
            assert PAYMENT.move(state, trigger) is SHOWN[state, trigger], (state, trigger)
        else:
            with refused(LocalProtocolError, "machine.no-such-move"):
                PAYMENT.move(state, trigger)


def test_a_payment_begins_as_received():
    assert PAYMENT.initial is TransactionStatus.RCVD


def test_the_final_states_of_a_payment_are_those_of_the_document():
    assert {state.value for state in PAYMENT.final} == {"ACSC", "RJCT", "CANC"}
