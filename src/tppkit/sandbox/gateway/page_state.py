"""The state that the hosted page of an order, a transaction or a link shows to its customer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256

from sqlalchemy import Connection, bindparam, select

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.protocol.gateway.orders import OrderTerms
from tppkit.protocol.gateway.states import LinkStatus, OrderStatus, TransactionStatus
from tppkit.sandbox.gateway.link_tables import LINKS, StoredLink, orders_of_link
from tppkit.sandbox.gateway.projects import Project
from tppkit.sandbox.gateway.settings import GatewaySettings, Place
from tppkit.sandbox.gateway.tables import ORDERS, TRANSACTIONS, StoredOrder, StoredTransaction, transactions_of


class Result(StrEnum):
    """The result of a payment."""

    PAID = "paid"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNCLEAR = "unclear"  # the order is see-transactions


_RESULTS = {
    OrderStatus.COMPLETED: Result.PAID, OrderStatus.ERROR: Result.FAILED, OrderStatus.CANCELLED: Result.CANCELLED,
    OrderStatus.EXPIRED: Result.EXPIRED, OrderStatus.SEE_TRANSACTIONS: Result.UNCLEAR,
}  # fmt: skip
_OF_PAGE = {
    place: select(id_).where(token == bindparam("of_token"))
    for place, id_, token in (
        (Place.ORDER, ORDERS.c.id, ORDERS.c.page_token),
        (Place.TRANSACTION, TRANSACTIONS.c.order_id, TRANSACTIONS.c.page_token),
        (Place.LINK, LINKS.c.id, LINKS.c.page_token),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """The state that a page shows.

    Attributes:
        place: the subject of the page.
        terms: the amount to pay, the texts and the return addresses.
        order: the order of the page; None on a link that accepts a payment.
        link: the link of the page, or of the order; None if there is no link.
        asked: the attempt whose issuer waits for the customer, or None.
        methods: the payment methods to choose from; the first one is shown.
        result: the result of the payment; None while it can be paid.
        last: the latest attempt, if it is decided; None otherwise.
        payee: the merchant's name, or a name made of its id.
        step: identifies what the page offers, so that a form has an effect only while the page still offers it.
    """

    place: Place
    terms: OrderTerms | PaymentLinkRequest
    order: StoredOrder | None = None
    link: StoredLink | None = None
    asked: StoredTransaction | None = None
    methods: tuple[str, ...] = ()
    result: Result | None = None
    last: StoredTransaction | None = None
    payee: str = ""
    step: str = ""

    @property
    def takes_another(self) -> bool:
        """Whether the order was not paid, and its link accepts another payment."""
        return (
            self.order is not None
            and self.link is not None
            and self.link.status is LinkStatus.ALL_UNSUCCESSFUL
            and self.result in (Result.FAILED, Result.EXPIRED, Result.CANCELLED)
        )

    @property
    def next_page(self) -> str | None:
        """The address to send the customer to after the payment; None: stay (assumption return-redirects)."""
        if self.result in (Result.PAID, Result.UNCLEAR) or not isinstance(self.terms, OrderTerms):
            return self.terms.return_url
        return self.terms.failure_url or self.terms.return_url


def page_state(db: Connection, settings: GatewaySettings, place: Place, token: str, *, lock: bool = False) -> PageState:
    """Return the state that a page shows.

    Args:
        db: the transaction.
        settings: the settings of the gateway.
        place: the subject of the page.
        token: the token in the page's address.
        lock: lock the order or link, because the customer acts.

    Raises:
        LocalProtocolError: `order.unknown`, there is no such page.
    """
    found: str | None = db.execute(_OF_PAGE[place], {"of_token": token}).scalar_one_or_none()
    if found is not None and place is Place.LINK:
        link = (LINKS.lock if lock else LINKS.find)(db, found)
        if link is not None:
            return _of_link(db, settings.project(link.project_id), link)
    order = None if found is None else (ORDERS.lock if lock else ORDERS.find)(db, found)
    if order is None or order.made_by is not None:
        raise LocalProtocolError("order.unknown", "there is no such page")
    state = _of_order(db, settings.project(order.project_id), order)
    if place is Place.ORDER:
        return state
    (attempt,) = [one for one in transactions_of(db, order.id) if one.page_token == token]
    return _of_transaction(state, attempt)


def _of_order(db: Connection, project: Project, order: StoredOrder) -> PageState:
    transactions = transactions_of(db, order.id)
    open_ = [one for one in transactions if one.is_open]
    asked = next((one for one in open_ if one.vault_token is not None), None)
    methods = project.offered(order.terms.payment_methods)
    if order.has_one_attempt:
        methods = tuple(one.shown.payment_method or "" for one in open_)
    elif open_:  # what the merchant or the customer has chosen comes first
        methods = tuple(dict.fromkeys((open_[0].shown.payment_method or "", *methods)))
    link = None if order.link_id is None else LINKS.find(db, order.link_id)
    last = transactions[-1] if transactions and not transactions[-1].is_open else None
    return PageState(
        place=Place.ORDER, terms=order.terms, order=order, link=link, asked=asked, methods=methods, result=_result(order, transactions),
        last=last, payee=order.terms.merchant_name or _payee(project), step=f"{len(transactions)}.{len(open_)}.{_asked_card(asked)}",
    )  # fmt: skip


def _of_transaction(state: PageState, attempt: StoredTransaction) -> PageState:
    """Return the state of the page of one attempt. If the attempt is decided, the page shows its order."""
    if not attempt.is_open or state.result is not None:
        return state
    asked = attempt if attempt.vault_token is not None else None
    return replace(
        state, place=Place.TRANSACTION, asked=asked, methods=(attempt.shown.payment_method or "",), last=None,
        step=f"transaction-{attempt.number}-{_asked_card(asked)}",
    )  # fmt: skip


def _asked_card(attempt: StoredTransaction | None) -> str:
    """Return an id of the card whose issuer waits for the customer, for forms; empty if there is none."""
    token = attempt and attempt.vault_token
    return sha256(token.encode()).hexdigest()[:16] if token else ""


def _of_link(db: Connection, project: Project, link: StoredLink) -> PageState:
    """Return the state of the page of a link: its paid order, its open order, or a form for a new one."""
    made = orders_of_link(db, link.id)
    under_way = [*made.get(OrderStatus.NEW, ()), *made.get(OrderStatus.PROCESSING, ())]
    wanted = link.completed_order_id or (under_way[0] if under_way else None)
    order = None if wanted is None else ORDERS.find(db, wanted)
    if order is not None:
        return _of_order(db, project, order)
    latest = [found for ids in made.values() if (found := ORDERS.find(db, ids[-1])) is not None]
    last = max(latest, key=lambda one: one.created_at, default=None)
    attempts = () if last is None or last.status is not OrderStatus.ERROR else transactions_of(db, last.id)
    is_over = link.status is LinkStatus.EXPIRED
    return PageState(
        place=Place.LINK, terms=link.terms, link=link, methods=project.offered(link.terms.payment_methods),
        result=Result.EXPIRED if is_over else None, last=attempts[-1] if attempts else None, payee=_payee(project),
        step=str(sum(map(len, made.values()))),
    )  # fmt: skip


def _payee(project: Project) -> str:
    return f"Merchant {project.merchant_id[:8]}"


def _result(order: StoredOrder, transactions: tuple[StoredTransaction, ...]) -> Result | None:
    """Return the result of a payment. An order with one attempt ends with it, although its status may change later."""
    if order.status in _RESULTS:
        return _RESULTS[order.status]
    if not order.has_one_attempt or not transactions or any(one.is_open for one in transactions):
        return None
    return Result.PAID if transactions[-1].shown.status == TransactionStatus.ACCEPTED else Result.FAILED
