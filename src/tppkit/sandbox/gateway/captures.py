"""Captures, voids, refunds, chargebacks and reversals of accepted amounts; each is a separate order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway import authorisations
from tppkit.protocol.gateway.authorisations import Authorisation, capture, refund, settle, void
from tppkit.protocol.gateway.bodies import CaptureRequest, RefundRequest, VoidRequest
from tppkit.protocol.gateway.endpoints import CAPTURE, CAPTURE_AMOUNT, CREATE_REFUND, VOID, VOID_AMOUNT
from tppkit.protocol.gateway.orders import LINKED_ORDERS, Order, OrderTerms, OrderTransaction
from tppkit.protocol.gateway.states import AuthorisationState, OrderStatus, TransactionStatus
from tppkit.protocol.gateway.values import write_timestamp
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.clock import run_contained
from tppkit.sandbox.gateway.bounds import require_room
from tppkit.sandbox.gateway.orders import new_event, order_answer, order_of_caller, transaction_of_caller
from tppkit.sandbox.gateway.payments import expire, settle_order, touch
from tppkit.sandbox.gateway.settings import Work
from tppkit.sandbox.gateway.tables import (
    ORDERS,
    TRANSACTIONS,
    StoredOrder,
    StoredTransaction,
    add_order,
    count_made_from,
    due_orders,
    stop_order,
    transactions_of,
)
from tppkit.sandbox.gateway.webhooks import notify


def capture_all(call: HostCall[None]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/captures/."""
    return _capture(call, None, None)


def capture_amount(call: HostCall[CaptureRequest]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/captures/amount/."""
    return _capture(call, call.body.amount, call.body.description)


def void_all(call: HostCall[None]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/voids/."""
    return _void(call, None, None)


def void_amount(call: HostCall[VoidRequest]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/voids/amount/."""
    return _void(call, call.body.amount, call.body.description)


def create_refund(call: HostCall[RefundRequest]) -> Answer[Order]:
    """POST /sandbox/v1/orders/{order_id}/refunds/ (assumption gateway-extensions)."""
    made = refund_order(call, order_of_caller(call, lock=True), call.body.amount, call.body.description)
    return Answer(order_answer(call, made), delivers=True)


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(CAPTURE, capture_all),
    Handler(CAPTURE_AMOUNT, capture_amount),
    Handler(VOID, void_all),
    Handler(VOID_AMOUNT, void_amount),
    Handler(CREATE_REFUND, create_refund),
)


def refund_order(work: Work, order: StoredOrder, amount: int, description: str | None = None) -> StoredOrder:
    """Refund captured money; the order is locked.

    Raises:
        LocalProtocolError: `refund.amount`, `order.too-many`.
    """
    return _return(work, order, "refund", lambda held: refund(held, amount), description)


def charge_back(work: Work, order: StoredOrder) -> StoredOrder:
    """Charge back the money that is captured and not refunded; the order is locked.

    Raises:
        LocalProtocolError: `refund.amount`, nothing is left; `order.too-many`.
    """
    return _return(work, order, "chargeback", authorisations.charge_back)


def reverse(work: Work, order: StoredOrder) -> StoredOrder:
    """Reverse the chargeback; the order is locked.

    Raises:
        LocalProtocolError: `refund.amount`, nothing is charged back; `order.too-many`.
    """
    return _return(work, order, "reversal", authorisations.reverse)


def run_due(work: Work) -> None:
    """Run due changes: attempts expire, delayed amounts are captured, manual authorisations lapse, orders end.

    If an internal error occurs, the order does not change, and `check_gateway` reports it.
    """
    for order_id in due_orders(work.db, work.at):
        if not run_contained(work.db, f"the order {order_id}", partial(_run_order, work, order_id)):
            stop_order(work.db, order_id)


def _run_order(work: Work, order_id: str) -> None:
    order = ORDERS.lock(work.db, order_id)
    if order is None:
        return
    for transaction in transactions_of(work.db, order.id):
        if transaction.due_at is None or transaction.due_at > work.at:
            continue
        order = touch(work, order)
        if transaction.authorisation is None:
            expire(work, transaction)
            continue
        after = settle(transaction.authorisation, at=work.at)
        if after.state is AuthorisationState.CAPTURED:
            _make(work, order, transaction, after, "capture", after.captured, None)
        else:
            TRANSACTIONS.set(work.db, replace(transaction, authorisation=after, due_at=None))
    settle_order(work, order)


def _capture(call: HostCall[Any], amount: int | None, description: str | None) -> Answer[Order]:
    return _change(
        call, "capture", lambda held: capture(held, amount, at=call.at), lambda held: held.captured, description
    )


def _void(call: HostCall[Any], amount: int | None, description: str | None) -> Answer[Order]:
    return _change(call, "void", lambda held: void(held, amount, at=call.at), lambda held: held.voided, description)


def _change(
    call: HostCall[Any], kind: str, rule: Callable[[Authorisation], Authorisation], total: Callable[[Authorisation], int],
    description: str | None,
) -> Answer[Order]:  # fmt: skip
    order, transaction = transaction_of_caller(call)
    held = transaction.authorisation
    if held is None:
        raise LocalProtocolError("authorisation.closed", f"the transaction is {transaction.shown.status}")
    after = rule(held)
    if after.state is AuthorisationState.OPEN:
        require_room(count_made_from(call.db, order.id))
    made = _make(call, order, transaction, after, kind, total(after) - total(held), description)
    return Answer(order_answer(call, made), delivers=True)


def _make(
    work: Work, order: StoredOrder, transaction: StoredTransaction, after: Authorisation, kind: str, amount: int, description: str | None
) -> StoredOrder:  # fmt: skip
    """Store the new authorisation, and the order that records the change (assumption linked-orders)."""
    due_at = transaction.due_at if after.state is AuthorisationState.OPEN else None
    TRANSACTIONS.set(work.db, replace(transaction, authorisation=after, due_at=due_at))
    touch(work, order)
    link, settings = LINKED_ORDERS[kind], work.settings
    terms = OrderTerms.model_construct(
        currency=order.terms.currency, amount=amount, merchant_order_id=order.terms.merchant_order_id, description=description
    )  # fmt: skip
    made = StoredOrder(
        id=settings.new_uuid(), project_id=order.project_id, status=OrderStatus.COMPLETED, terms=terms, is_test=order.is_test,
        own_checkout=False, page_token=settings.new_id(), created_at=work.at, modified_at=work.at, completed_at=work.at,
        made_by=kind, original_id=order.id,
    )  # fmt: skip
    fields: dict[str, Any] = {} if link.transaction_field is None else {link.transaction_field: transaction.id}
    id_ = settings.new_uuid()
    shown = OrderTransaction(
        id=id_, order_id=made.id, status=TransactionStatus.ACCEPTED, created=write_timestamp(work.at), currency=terms.currency,
        amount=amount, credit_debit=link.credit_debit, payment_method=transaction.shown.payment_method,
        payment_method_brand=transaction.shown.payment_method_brand,
        events=(new_event(work, TransactionStatus.NEW), new_event(work, TransactionStatus.ACCEPTED)), **fields,
    )  # fmt: skip
    row = StoredTransaction(
        id=id_, order_id=made.id, number=0, shown=shown, page_token=settings.new_id(), created_at=work.at
    )  # fmt: skip
    add_order(work.db, made, row)
    notify(work, made, original=order)
    return made


def _return(
    work: Work, order: StoredOrder, kind: str, rule: Callable[[Authorisation], Authorisation], description: str | None = None
) -> StoredOrder:  # fmt: skip
    """Change the captured amount by a refund, chargeback or reversal, and return its order."""
    for transaction in transactions_of(work.db, order.id):
        if (held := transaction.authorisation) is not None:
            after = rule(held)
            require_room(count_made_from(work.db, order.id))
            return _make(work, order, transaction, after, kind, abs(held.refundable - after.refundable), description)
    raise LocalProtocolError("refund.amount", "nothing of the order was captured")
