"""Orders as merchants see them. Answers have only fields that the document lists, because others may contain a card number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.authorisations import attempt_ends_at, is_capturable, order_ends_at
from tppkit.protocol.gateway.endpoints import ORDER_DETAILS, REFUNDS
from tppkit.protocol.gateway.orders import (
    AFT,
    CREDIT_CARD,
    IS_TEST,
    LINKED_ORDERS,
    CaptureMode,
    CreditDebit,
    Event,
    OneClickType,
    Order,
    OrderTerms,
    OrderTransaction,
    PaymentMethodDetails,
    Refund,
    TransactionRequest,
)
from tppkit.protocol.gateway.payments import is_aft, shown_details
from tppkit.protocol.gateway.states import OrderStatus, SetupTokenState, TransactionStatus
from tppkit.protocol.gateway.values import GatewayModel, write_timestamp
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.gateway.projects import Project
from tppkit.sandbox.gateway.settings import GatewaySettings, Place, Work
from tppkit.sandbox.gateway.tables import (
    ORDERS,
    StoredOrder,
    StoredTransaction,
    orders_made_from,
    transactions_of,
    transactions_of_orders,
)

SOURCE = "set_status"  # source of a transaction's events; section 2.3
_Terms = TypeVar("_Terms", bound=GatewayModel)
# Fields of a card payment that a merchant sends and can read again; others are set by the service or secret.
_KEPT_DETAILS = (
    "cardholder_name", "one_click_type", "first_transaction_id", "recurring_type", "schedule_type", "first_network_transaction_id",
    "receiver_account_number_type",
)  # fmt: skip


def order_details(call: HostCall[None]) -> Answer[Order]:
    """GET /v1/orders/{order_id}/."""
    return Answer(order_answer(call, order_of_caller(call)))


def refunds(call: HostCall[None]) -> Answer[tuple[Refund, ...]]:
    """GET /v1/orders/{order_id}/refunds/."""
    order = order_of_caller(call)
    made = [one for one in orders_made_from(call.db, [order.id])[order.id] if one.made_by == "refund"]
    return Answer(tuple(_refund(one) for one in made))


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(ORDER_DETAILS, order_details, writes=False),
    Handler(REFUNDS, refunds, writes=False),
)


def order_of_caller(call: HostCall[Any], *, lock: bool = False) -> StoredOrder:
    """Return the order of the path.

    Raises:
        LocalProtocolError: `order.unknown`, also for an order of another project.
    """
    order = (ORDERS.lock if lock else ORDERS.find)(call.db, call.parameters["order_id"].lower())
    if order is None or order.project_id != call.caller:
        raise LocalProtocolError("order.unknown", "the project has no order with this id")
    return order


def transaction_of_caller(call: HostCall[Any]) -> tuple[StoredOrder, StoredTransaction]:
    """Return the transaction of the path with its order, locked.

    Raises:
        LocalProtocolError: `order.unknown`, `transaction.unknown`.
    """
    order, wanted = order_of_caller(call, lock=True), call.parameters["transaction_id"].lower()
    for transaction in transactions_of(call.db, order.id):
        if transaction.id == wanted:
            return order, transaction
    raise LocalProtocolError("transaction.unknown", "the order has no transaction with this id")


def new_order(
    work: Work, terms: OrderTerms, project: Project, *, transaction: TransactionRequest | None = None,
    link_id: str | None = None,
) -> StoredOrder:  # fmt: skip
    """Build a new order of a merchant, without storing it and without fields that the document does not list.

    Args:
        work: the current job.
        terms: the merchant's fields.
        project: its project.
        transaction: the payment method, if the merchant has chosen one.
        link_id: id of its payment link, whose customer has chosen the payment method, or None.
    """
    at, is_card = work.at, transaction is not None and transaction.payment_method == CREDIT_CARD
    attempt = None if transaction is None else _attempt_ends_at(transaction, at)
    ends = order_ends_at(at, expiration_period=terms.expiration_period, attempt=attempt)
    return StoredOrder(
        id=work.settings.new_uuid(), project_id=project.id, status=OrderStatus.NEW, terms=listed_fields(terms, OrderTerms),
        is_test=project.is_test, own_checkout=is_card and link_id is None, page_token=work.settings.new_id(), created_at=at,
        modified_at=at, ends_at=ends, due_at=ends, link_id=link_id,
    )  # fmt: skip


def new_transaction(
    work: Work, order: StoredOrder, request: TransactionRequest, *, number: int = 0
) -> StoredTransaction:
    """Build a new attempt to pay an order, without storing it and without card number and security code.

    Args:
        work: the current job.
        order: the order to pay.
        request: the payment method.
        number: the number of earlier attempts.
    """
    at, settings = work.at, work.settings
    given = request.payment_method_details or PaymentMethodDetails()
    takes_card = order.own_checkout and given.one_click_type != OneClickType.ONE_CLICK
    setup_token = settings.new_uuid() if takes_card else None
    details = PaymentMethodDetails(
        **{name: getattr(given, name) for name in _KEPT_DETAILS}, setup_token=setup_token
    )  # fmt: skip
    id_ = settings.new_uuid()
    shown = OrderTransaction(
        id=id_, order_id=order.id, status=TransactionStatus.NEW, created=write_timestamp(at), currency=order.terms.currency,
        amount=order.terms.amount, credit_debit=CreditDebit.CREDIT, payment_method=request.payment_method,
        capture_mode=request.capture_mode, expiration_period=request.expiration_period,
        transaction_type=AFT if is_aft(given) else None, payment_method_details=details if request.payment_method == CREDIT_CARD else None,
        events=(new_event(work, TransactionStatus.NEW),),
    )  # fmt: skip
    return StoredTransaction(
        id=id_, order_id=order.id, number=number, shown=shown, page_token=settings.new_id(), created_at=at, setup_token=setup_token,
        setup_state=SetupTokenState.UNUSED if takes_card else None, due_at=_attempt_ends_at(request, at),
    )  # fmt: skip


def new_event(work: Work, status: TransactionStatus) -> Event:
    """Return an event of a transaction at the time of the job."""
    time = write_timestamp(work.at)
    return Event(event=status.value, id=work.settings.new_uuid(), occurred=time, noticed=time, source=SOURCE)


def listed_fields(model: GatewayModel, kind: type[_Terms]) -> _Terms:
    """Convert a model to another class with the same fields, without fields that the document does not list."""
    values = {name: getattr(model, name) for name in kind.model_fields}
    known: dict[str, Any] = {
        name: listed_fields(value, type(value)) if isinstance(value, GatewayModel) else value
        for name, value in values.items()
    }
    return kind.model_construct(**known)


def order_answer(work: Work, order: StoredOrder) -> Order:
    """Return the merchant's view of an order, with its stored transactions."""
    (answer,) = order_answers(work, [order])
    return answer


def order_answers(work: Work, orders: Sequence[StoredOrder]) -> list[Order]:
    """Return the merchants' views of orders, in the same order."""
    ids = [order.id for order in orders]
    transactions, made = transactions_of_orders(work.db, ids), orders_made_from(work.db, ids)
    return [write_order(work.settings, one, transactions[one.id], made[one.id], at=work.at) for one in orders]


def write_order(
    settings: GatewaySettings, order: StoredOrder, transactions: Sequence[StoredTransaction], made: Sequence[StoredOrder], *,
    at: datetime,
) -> Order:  # fmt: skip
    """Return the merchant's view of an order.

    Args:
        settings: the settings of the gateway.
        order: the order.
        transactions: its transactions.
        made: the orders that were made from it.
        at: the virtual time.
    """
    linked: dict[str, Any] = {}
    if order.original_id is not None and order.made_by is not None:
        linked = {"related_order_id": order.original_id, LINKED_ORDERS[order.made_by].field: order.original_id}
    for kind, link in LINKED_ORDERS.items():
        ids = tuple(one.id for one in made if one.made_by == kind)
        if link.listed is not None and ids:
            linked[link.listed] = ids
    refunded = sum(one.authorisation.refunded for one in transactions if one.authorisation)
    flags = (*((IS_TEST,) if order.is_test else ()), *(LINKED_ORDERS[order.made_by].flags if order.made_by else ()))
    terms = {name: getattr(order.terms, name) for name in OrderTerms.model_fields}
    return Order.model_construct(
        **terms, **linked, id=order.id, project_id=order.project_id, merchant_id=settings.project(order.project_id).merchant_id,
        status=order.status, flags=flags, created=write_timestamp(order.created_at), modified=write_timestamp(order.modified_at),
        completed=None if order.completed_at is None else write_timestamp(order.completed_at),
        transactions=tuple(_write_transaction(settings, order, one, at) for one in transactions),
        order_url=None if order.made_by else settings.page_url(Place.ORDER, order.page_token),
        refunded_amount=refunded or None, related_orders=tuple(one.id for one in made) or None,
        related_payment_link_id=order.link_id,
    )  # fmt: skip


def _write_transaction(
    settings: GatewaySettings, order: StoredOrder, transaction: StoredTransaction, at: datetime
) -> OrderTransaction:
    held, details, changes = transaction.authorisation, transaction.shown.payment_method_details, dict[str, Any]()
    if details is not None:
        changes["payment_method_details"] = shown_details(
            details, vault_token=transaction.vault_token, order_status=order.status
        )
    if held is not None:
        changes["is_capturable"] = is_capturable(held, at=at)
    if order.made_by is None:
        changes["payment_url"] = settings.page_url(Place.TRANSACTION, transaction.page_token)
    return transaction.shown.model_copy(update=changes)


def _refund(order: StoredOrder) -> Refund:
    flags = (*((IS_TEST,) if order.is_test else ()), *LINKED_ORDERS["refund"].flags)
    return Refund(
        id=order.id, amount=order.terms.amount, currency=order.terms.currency, status=order.status,
        created=write_timestamp(order.created_at),
        completed=None if order.completed_at is None else write_timestamp(order.completed_at),
        description=order.terms.description, flags=flags, merchant_order_id=order.terms.merchant_order_id,
        refund_of_order_id=order.original_id,
    )  # fmt: skip


def _attempt_ends_at(request: TransactionRequest, at: datetime) -> datetime:
    mode = None if request.capture_mode is None else CaptureMode(request.capture_mode)
    return attempt_ends_at(at, capture_mode=mode, expiration_period=request.expiration_period)
