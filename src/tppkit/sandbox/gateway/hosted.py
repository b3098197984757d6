"""Actions of customers on the hosted pages of orders and transactions."""

from __future__ import annotations

from enum import StrEnum

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.card_data import CardSecret, require_unexpired
from tppkit.protocol.gateway.orders import CREDIT_CARD, OneClickType, OrderTerms, TransactionRequest
from tppkit.protocol.gateway.states import ORDER, OrderStatus, OrderTrigger
from tppkit.sandbox.gateway.bounds import require_room
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.link_tables import StoredLink, orders_of_link
from tppkit.sandbox.gateway.orders import new_order, new_transaction
from tppkit.sandbox.gateway.outcomes import APPROVED, AUTHENTICATION_FAILED, outcome_of
from tppkit.sandbox.gateway.payments import PayingCard, attempt, cancel, challenged_card, decide, move_order, store
from tppkit.sandbox.gateway.projects import Project
from tppkit.sandbox.gateway.settings import Work
from tppkit.sandbox.gateway.tables import (
    ORDERS,
    TRANSACTIONS,
    StoredOrder,
    StoredTransaction,
    add_order,
    transactions_of,
)


class Choice(StrEnum):
    """The outcome that a customer chooses instead of a card."""

    APPROVED = "approved"
    DECLINED = "declined"
    CANCELLED = "cancelled"


_CARDS = {Choice.APPROVED: "4111111111111111", Choice.DECLINED: "4000000000000002"}


def pay(
    work: Work, order: StoredOrder, *, card: StoredCard | None = None, choice: Choice | None = None, method: str | None = None,
    asks: bool = False,
) -> StoredOrder:  # fmt: skip
    """Pay an order as its customer, with authentication if the issuer requires it; the order is locked.

    Args:
        work: the current job.
        order: the order to pay.
        card: the card; None: `choice` decides.
        choice: approved, declined, or cancelled by the customer.
        method: the payment method; by default a card, or without a card the first method of the page.
        asks: if the issuer requires 3-D Secure, wait for the customer's answer, which is a second call with `choice`.

    Raises:
        LocalProtocolError: `machine.no-such-move`, the order is final, or its only attempt is over;
            `order.method`, the page does not offer it; `card.expired`.
    """
    if choice is Choice.CANCELLED:
        return cancel(work, order)
    if card is not None:
        require_unexpired(card.expiry, at=work.at)
    transaction = _open_transaction(work, order, method if card is None else CREDIT_CARD)
    asked = transaction.vault_token if card is None else None  # the card whose issuer waits for the customer
    if card is None and (asked or transaction.shown.payment_method != CREDIT_CARD):
        if asked and choice is Choice.APPROVED:
            return _paid(work, order, transaction, challenged_card(work, order.project_id, asked))
        if order.status is OrderStatus.NEW:
            order = move_order(work, order, OrderTrigger.STARTED)
        return decide(work, order, transaction, APPROVED if choice is Choice.APPROVED else AUTHENTICATION_FAILED)
    card = card or _test_card(work, choice or Choice.APPROVED)
    return _paid(work, order, transaction, _stored_if_needed(work, order, transaction, card), asks=asks)


def pay_link(
    work: Work, link: StoredLink, *, card: StoredCard | None = None, choice: Choice | None = None, method: str | None = None,
    asks: bool = False,
) -> StoredOrder:  # fmt: skip
    """Pay a link as its customer, by a new order with one attempt.

    Arguments are those of `pay`.

    Raises:
        LocalProtocolError: `machine.no-such-move`, the link is final or a payment is in progress; `order.method`, `order.too-many`,
            `card.expired`.
    """
    require_room(sum(map(len, orders_of_link(work.db, link.id).values())))
    listed = {name: value for name in OrderTerms.model_fields if (value := getattr(link.terms, name, None)) is not None}
    terms = OrderTerms.model_construct(**listed | {"expiration_period": None})  # the link's period is not the order's
    project = work.settings.project(link.project_id)
    request = TransactionRequest(payment_method=_method(project, terms, method if card is None else CREDIT_CARD))
    order = new_order(work, terms, project, transaction=request, link_id=link.id)
    add_order(work.db, order, new_transaction(work, order, request))
    return pay(
        work, move_order(work, order, OrderTrigger.STARTED), card=card, choice=choice, method=method, asks=asks
    )  # fmt: skip


def _paid(
    work: Work, order: StoredOrder, transaction: StoredTransaction, paying: PayingCard, *, asks: bool = False
) -> StoredOrder:
    """Return the order after the customer's authentication, or waiting for it; the card decides."""
    attempt(work, order, transaction, paying, is_authenticated=not asks)
    return ORDERS.lock(work.db, order.id) or order


def _method(project: Project, terms: OrderTerms, wanted: str | None) -> str:
    """Return the wanted method if the page offers it; by default the first one."""
    offered = project.offered(terms.payment_methods)
    if wanted not in (None, *offered):
        raise LocalProtocolError("order.method", f"the page offers {', '.join(offered)}")
    return wanted or offered[0]


def _open_transaction(work: Work, order: StoredOrder, method: str | None) -> StoredTransaction:
    """Return the open attempt, else a new one if the order allows another; an attempt with another method stays open."""
    if order.status in ORDER.final:
        raise LocalProtocolError("machine.no-such-move", f"the order is {order.status}")
    transactions = transactions_of(work.db, order.id)
    for one in transactions:
        if one.is_open and method in (None, one.shown.payment_method):
            return one
    if transactions and order.has_one_attempt:
        raise LocalProtocolError("machine.no-such-move", "the only attempt of the order is over")
    require_room(len(transactions))
    request = TransactionRequest(payment_method=_method(work.settings.project(order.project_id), order.terms, method))
    made = new_transaction(work, order, request, number=len(transactions))
    TRANSACTIONS.add(work.db, made)
    return made


def _stored_if_needed(work: Work, order: StoredOrder, transaction: StoredTransaction, card: StoredCard) -> PayingCard:
    """Store the card until the payment is decided if the issuer asks the customer; a first one-click payment keeps it for longer."""
    details = transaction.shown.payment_method_details
    is_first = details is not None and details.one_click_type == OneClickType.FIRST
    if not is_first and not outcome_of(card.pan).challenge:
        return PayingCard(card)
    return PayingCard(card, store(work, card, order.project_id, is_typed=True))


def _test_card(work: Work, choice: Choice) -> StoredCard:
    return StoredCard(CardSecret(_CARDS[choice]), CardSecret(f"12{work.at.year + 3}"))
