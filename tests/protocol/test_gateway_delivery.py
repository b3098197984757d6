"""Whether to deliver, where the sandbox does not lead: linked orders that are open or failed, and orders of another kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tppkit.protocol.gateway import Order
from tppkit.protocol.gateway.payments import delivery_state

ID, OTHER = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
SALE = {"id": ID, "status": "accepted"}
HELD, ENDED = ({**SALE, "capture_mode": "manual", "is_capturable": capturable} for capturable in (True, False))


def order(*transactions: Any, status: str = "completed", **fields: Any) -> Order:
    content = {"id": ID, "status": status, "currency": "EUR", "amount": 1000, "transactions": transactions, **fields}
    return Order.from_wire(json.dumps(content).encode(), tolerant=True)


def linked(kind: str, amount: int = 1000, status: str = "completed") -> Order:
    return order(status=status, amount=amount, id=OTHER, **{f"{kind}_of_order_id": ID})


@pytest.mark.parametrize(
    ("paid", "related", "decision"),
    [
        (order(SALE), [linked("refund", status="processing")], "do-not-deliver"),  # money on its way out counts
        (order(SALE), [linked("refund", status="error")], "deliver"),
        (order(SALE, refunded_amount=1000), [], "do-not-deliver"),
        (order(SALE), [linked("chargeback", 1, "new")], "do-not-deliver"),
        (order(SALE), [linked("chargeback"), linked("reversal", status="new")], "wait"),
        (order(SALE), [linked("chargeback"), linked("reversal", status="error")], "do-not-deliver"),
        (order(ENDED), [linked("capture", status="processing")], "wait"),
        (order(ENDED), [linked("capture", status="error")], "do-not-deliver"),
        (order(ENDED), [linked("capture", 400), linked("refund", 399)], "deliver"),
        (order(ENDED), [linked("capture", 400), linked("refund", 400)], "do-not-deliver"),
        (order(HELD), [linked("void", 600), linked("void", 400)], "do-not-deliver"),
        (order(HELD), [linked("void", 999)], "deliver"),
        (order(SALE), [order(id=OTHER, related_order_id=ID)], "deliver"),  # of no known kind
        (order(SALE, amount=0), [], "deliver"),  # verifies a card
        (order(SALE, status="see-transactions"), [], "do-not-deliver"),
        (order(SALE, status="on-hold"), [], "wait"),
        (order(SALE, refund_of_order_id=OTHER), [], "do-not-deliver"),
        (order(SALE, status="new", refund_of_order_id=OTHER), [], "do-not-deliver"),  # not even later
    ],
)
def test_the_decision(paid, related, decision):
    state = delivery_state(paid, *related, own_checkout=False)
    assert (state.delivery, bool(state.reason)) == (decision, True)


@pytest.mark.parametrize(
    ("status", "own_checkout", "decision"),
    [
        ("new", True, ("deliver", "paid")),  # the transaction counts
        ("new", False, ("wait", "not paid: it is new")),
        ("cancelled", False, ("do-not-deliver", "not paid: it is cancelled")),
    ],
)
def test_the_decision_about_an_order_that_lags_behind_its_transaction(status, own_checkout, decision):
    state = delivery_state(order(SALE, status=status), own_checkout=own_checkout)
    assert (state.delivery, state.reason) == decision
