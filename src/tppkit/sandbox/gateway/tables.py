"""The tables of orders and their transactions, with their statements.

An order's row is locked before it or one of its transactions is changed, so the transactions need no locks of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Annotated

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    bindparam,
    func,
    select,
    update,
)

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.protocol.gateway.authorisations import Authorisation
from tppkit.protocol.gateway.orders import OrderTerms, OrderTransaction
from tppkit.protocol.gateway.states import OrderStatus, SetupTokenState, TransactionStatus
from tppkit.protocol.gateway.values import MAX_REFERENCE
from tppkit.sandbox.gateway.bounds import require_short
from tppkit.sandbox.queries import Newest
from tppkit.sql.records import KEY, UNIQUE, Fields, Form, Named, Records
from tppkit.sql.statement import Statement

Uuid = Annotated[str, String(36)]
_SUMS = dict.fromkeys(("voided", "captured", "refunded", "charged_back"), 0)
_AUTHORISATION = Fields(_SUMS, amount=Named("authorised"), capture_mode=String(7), state=String(8))
_TERMS = Form(LargeBinary(), lambda terms: require_short(terms.to_wire()), partial(OrderTerms.from_wire, tolerant=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransaction:
    """A payment attempt.

    Attributes:
        id: UUID.
        order_id: id of its order.
        number: its number in the order, from 0.
        shown: its content in answers, except fields that depend on the time; never a card number or security code.
        page_token: unguessable part of `payment_url`.
        created_at: aware UTC.
        setup_token: token with which a card can be stored for it, or None.
        setup_state: whether the setup token was used.
        vault_token: token of the card that pays, or None.
        authorisation: the accepted amount with its captures, voids and refunds; None until it is accepted.
        due_at: time of its next event, or None.
    """

    id: Annotated[Uuid, KEY]
    order_id: Uuid
    number: Annotated[int, Integer()]
    shown: OrderTransaction
    page_token: Annotated[str, String(64), UNIQUE] = field(repr=False)
    created_at: datetime
    setup_token: Annotated[Uuid | None, UNIQUE] = field(default=None, repr=False)
    setup_state: Annotated[SetupTokenState | None, String(6)] = None
    vault_token: Uuid | None = field(default=None, repr=False)
    authorisation: Annotated[Authorisation | None, _AUTHORISATION] = None
    due_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is neither accepted nor declined."""
        return self.shown.status == TransactionStatus.NEW


TABLES = MetaData()  # the tables of the whole gateway
TRANSACTIONS = Records(
    StoredTransaction, "gateway_transactions", TABLES,
    changing=["shown", "setup_state", "vault_token", "authorisation", "due_at"],
)  # fmt: skip
Index("gateway_transactions_of_order", TRANSACTIONS.c.order_id, TRANSACTIONS.c.number)
Index("gateway_transactions_due", TRANSACTIONS.c.due_at, sqlite_where=TRANSACTIONS.c.due_at.is_not(None))
_OF_ORDERS = (
    select(TRANSACTIONS.table)
    .where(TRANSACTIONS.c.order_id.in_(bindparam("of_orders", expanding=True)))
    .order_by(TRANSACTIONS.c.order_id, TRANSACTIONS.c.number)
)
_SHOWN_OF_ORDERS = _OF_ORDERS.with_only_columns(TRANSACTIONS.c.order_id, TRANSACTIONS.c.shown)
_OF_ORDER = Statement(
    select(TRANSACTIONS.table).where(TRANSACTIONS.c.order_id == bindparam("of_order")).order_by(TRANSACTIONS.c.number)
)


def transactions_of(db: Connection, order_id: str) -> tuple[StoredTransaction, ...]:
    """Return the transactions of an order, oldest first."""
    return TRANSACTIONS.all(db, _OF_ORDER, {"of_order": order_id})


def transactions_of_orders(db: Connection, order_ids: Collection[str]) -> dict[str, list[StoredTransaction]]:
    """Return the transactions of several orders, by the orders' ids."""
    found: dict[str, list[StoredTransaction]] = {order_id: [] for order_id in order_ids}
    for transaction in TRANSACTIONS.all(db, _OF_ORDERS, {"of_orders": list(order_ids)}):
        found[transaction.order_id].append(transaction)
    return found


def shown_transactions(db: Connection, order_ids: Collection[str]) -> dict[str, list[bytes]]:
    """Return the content in answers of the transactions of several orders, as JSON, by the orders' ids."""
    found: dict[str, list[bytes]] = {order_id: [] for order_id in order_ids}
    for order_id, shown in db.execute(_SHOWN_OF_ORDERS, {"of_orders": list(order_ids)}):
        found[order_id].append(shown)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOrder:
    """An order; its transactions have rows of their own.

    Attributes:
        id: UUID.
        project_id: its project.
        status: its status, as in answers.
        terms: the merchant's fields, without those that the document does not list.
        is_test: whether its project is a test project.
        own_checkout: whether it was created with a card transaction, which is paid without the order page.
        page_token: unguessable part of `order_url`.
        created_at, modified_at, completed_at: aware UTC.
        ends_at: when it expires if it is not paid; None for an order that was made from another.
        due_at: time of its next event: its expiry, or the end of the project's lag.
        made_by: `capture`, `void`, `refund`, `chargeback`, `reversal`, or None.
        original_id: id of the order that it was made from, or None.
        link_id: id of the payment link that it was created from, or None.
    """

    id: Annotated[Uuid, KEY]
    project_id: Uuid
    status: Annotated[OrderStatus, String(16)]
    terms: Annotated[OrderTerms, _TERMS]
    is_test: bool
    own_checkout: bool
    page_token: Annotated[str, String(64), UNIQUE] = field(repr=False)
    created_at: datetime
    modified_at: datetime
    completed_at: datetime | None = None
    ends_at: datetime | None = None
    due_at: datetime | None = None
    made_by: Annotated[str | None, String(10)] = None
    original_id: Uuid | None = None
    link_id: Uuid | None = None

    @property
    def has_one_attempt(self) -> bool:
        """Whether it can have only one attempt, and fails with it."""
        return self.own_checkout or self.link_id is not None


ORDERS = Records(
    StoredOrder, "gateway_orders", TABLES, changing=["status", "modified_at", "completed_at", "due_at"],
    derived={
        Column("merchant_order_id", String(MAX_REFERENCE)): attrgetter("terms.merchant_order_id"),
        Column("merchant_customer_id", String(MAX_REFERENCE)): lambda order: (
            order.terms.customer.merchant_customer_id if order.terms.customer else None
        ),
        Column("currency", String(3), nullable=False): attrgetter("terms.currency"),
        Column("amount", BigInteger, nullable=False): attrgetter("terms.amount"),
    },
)  # fmt: skip
Index("gateway_orders_by_time", ORDERS.c.project_id, ORDERS.c.created_at, ORDERS.c.id)
Index("gateway_orders_by_change", ORDERS.c.project_id, ORDERS.c.modified_at, ORDERS.c.id)
Index("gateway_orders_by_reference", ORDERS.c.project_id, ORDERS.c.merchant_order_id, ORDERS.c.created_at, ORDERS.c.id)
Index("gateway_orders_made", ORDERS.c.original_id, sqlite_where=ORDERS.c.original_id.is_not(None))
Index("gateway_orders_of_link", ORDERS.c.link_id, sqlite_where=ORDERS.c.link_id.is_not(None))
Index("gateway_orders_due", ORDERS.c.due_at, sqlite_where=ORDERS.c.due_at.is_not(None))
_ORDER_OF_TRANSACTION = select(TRANSACTIONS.c.order_id).where(TRANSACTIONS.c.id == bindparam("of_id"))
_ORDER_OF_SETUP = select(TRANSACTIONS.c.order_id).where(TRANSACTIONS.c.setup_token == bindparam("of_token"))
_MADE_FROM = (
    select(ORDERS.table)
    .where(ORDERS.c.original_id.in_(bindparam("of_orders", expanding=True)))
    .order_by(ORDERS.c.created_at, ORDERS.c.id)
)
_COUNT_MADE = Statement(select(func.count()).where(ORDERS.c.original_id == bindparam("of_order")))
_DUE_TIMES = ORDERS.c.due_at, TRANSACTIONS.c.due_at  # SQLite uses the index only for times that are not NULL
_NEXT_DUE = tuple(Statement(select(func.min(time)).where(time.is_not(None))) for time in _DUE_TIMES)
_DUE_ORDERS = select(ORDERS.c.id).where(ORDERS.c.due_at <= bindparam("until")).order_by(ORDERS.c.due_at, ORDERS.c.id)
_DUE_TRANSACTIONS = (
    select(TRANSACTIONS.c.order_id)
    .where(TRANSACTIONS.c.due_at <= bindparam("until"))
    .order_by(TRANSACTIONS.c.due_at, TRANSACTIONS.c.order_id)
)
_STOP = tuple(
    update(owner.table).where(owner == bindparam("of_order")).values(due_at=None)
    for owner in (ORDERS.c.id, TRANSACTIONS.c.order_id)
)
newest_orders = Newest(ORDERS, ORDERS.c.created_at)


def add_order(db: Connection, order: StoredOrder, *transactions: StoredTransaction) -> None:
    """Store a new order and its transactions.

    Raises:
        FormatError: `message.too-large`, its terms.
    """
    ORDERS.add(db, order)
    for transaction in transactions:
        TRANSACTIONS.add(db, transaction)


def lock_order_of_setup_token(db: Connection, token: str) -> StoredOrder | None:
    """Return the order whose transaction has this setup token, locked for a change, or None."""
    order_id = db.execute(_ORDER_OF_SETUP, {"of_token": token}).scalar_one_or_none()
    return None if order_id is None else ORDERS.lock(db, order_id)


def find_order_of_transaction(db: Connection, transaction_id: str) -> StoredOrder | None:
    """Return the order that has this transaction without a lock, or None."""
    order_id = db.execute(_ORDER_OF_TRANSACTION, {"of_id": transaction_id}).scalar_one_or_none()
    return None if order_id is None else ORDERS.find(db, order_id)


def orders_made_from(db: Connection, order_ids: Collection[str]) -> dict[str, list[StoredOrder]]:
    """Return captures, voids, refunds, chargebacks and reversals by the original orders' ids, earliest first."""
    found: dict[str, list[StoredOrder]] = {order_id: [] for order_id in order_ids}
    for order in ORDERS.all(db, _MADE_FROM, {"of_orders": list(order_ids)}):
        found[order.original_id or ""].append(order)
    return found


def count_made_from(db: Connection, order_id: str) -> int:
    """Return the number of captures, voids, refunds, chargebacks and reversals of an order."""
    return int(_COUNT_MADE.first(db, {"of_order": order_id})[0])


def next_due(db: Connection) -> datetime | None:
    """Return when the next order or transaction is due, or None."""
    times = [row[0] for statement in _NEXT_DUE if (row := statement.first(db, {}))[0] is not None]
    return from_microseconds(min(times)) if times else None


def due_orders(db: Connection, until: datetime) -> tuple[str, ...]:
    """Return the ids of orders that are due or have a due transaction: due transactions first, each by time."""
    values = {"until": to_microseconds(until)}
    found = [*db.execute(_DUE_TRANSACTIONS, values).scalars(), *db.execute(_DUE_ORDERS, values).scalars()]
    return tuple(dict.fromkeys(found))


def stop_order(db: Connection, order_id: str) -> None:
    """Remove the due times of an order and its transactions."""
    for statement in _STOP:
        db.execute(statement, {"of_order": order_id})
