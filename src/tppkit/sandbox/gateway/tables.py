"""The tables of orders and their transactions, with their statements.

An order's row is locked before it or one of its transactions is changed, so the transactions need no locks of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    update,
)

from tppkit._clock import from_microseconds, optional_microseconds, optional_time, to_microseconds
from tppkit.protocol.gateway.authorisations import Authorisation
from tppkit.protocol.gateway.orders import CaptureMode, OrderTerms, Transaction
from tppkit.protocol.gateway.states import AuthorisationState, OrderStatus, SetupTokenState, TransactionStatus
from tppkit.protocol.gateway.values import MAX_REFERENCE
from tppkit.sandbox.gateway.bounds import require_short
from tppkit.sql.statement import Statement

TABLES = MetaData()  # the tables of the whole gateway
TRANSACTIONS = Table(
    "gateway_transactions", TABLES,
    Column("id", String(36), primary_key=True),
    Column("order_id", String(36), nullable=False),
    Column("number", Integer, nullable=False),
    Column("shown", LargeBinary, nullable=False),
    Column("page_token", String(64), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("setup_token", String(36), unique=True),
    Column("setup_state", String(6)),
    Column("vault_token", String(36)),
    Column("capture_mode", String(7)),
    Column("authorised", BigInteger),
    Column("ends_at", BigInteger),
    Column("state", String(8)),
    Column("voided", BigInteger, nullable=False),
    Column("captured", BigInteger, nullable=False),
    Column("refunded", BigInteger, nullable=False),
    Column("charged_back", BigInteger, nullable=False),
    Column("due_at", BigInteger),
)  # fmt: skip
Index("gateway_transactions_of_order", TRANSACTIONS.c.order_id, TRANSACTIONS.c.number)
Index("gateway_transactions_due", TRANSACTIONS.c.due_at, sqlite_where=TRANSACTIONS.c.due_at.is_not(None))
_ADD_TRANSACTION = Statement(insert(TRANSACTIONS).inline())
_OF_ORDERS = (
    select(TRANSACTIONS)
    .where(TRANSACTIONS.c.order_id.in_(bindparam("of_orders", expanding=True)))
    .order_by(TRANSACTIONS.c.order_id, TRANSACTIONS.c.number)
)
_SHOWN_OF_ORDERS = _OF_ORDERS.with_only_columns(TRANSACTIONS.c.order_id, TRANSACTIONS.c.shown)
_OF_ORDER = Statement(
    select(TRANSACTIONS).where(TRANSACTIONS.c.order_id == bindparam("of_order")).order_by(TRANSACTIONS.c.number)
)
_CHANGING_TRANSACTION = (
    "shown", "setup_state", "vault_token", "capture_mode", "authorised", "ends_at", "state", "voided", "captured", "refunded",
    "charged_back", "due_at",
)  # fmt: skip
_SET_TRANSACTION = Statement(
    update(TRANSACTIONS)
    .where(TRANSACTIONS.c.id == bindparam("of_id"))
    .values({name: bindparam(f"to_{name}") for name in _CHANGING_TRANSACTION})
)


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

    id: str
    order_id: str
    number: int
    shown: Transaction
    page_token: str = field(repr=False)
    created_at: datetime
    setup_token: str | None = field(default=None, repr=False)
    setup_state: SetupTokenState | None = None
    vault_token: str | None = field(default=None, repr=False)
    authorisation: Authorisation | None = None
    due_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is neither accepted nor declined."""
        return self.shown.status == TransactionStatus.NEW


def add_transaction(db: Connection, transaction: StoredTransaction) -> None:
    """Store a new attempt."""
    fixed = {
        "id": transaction.id, "order_id": transaction.order_id, "number": transaction.number, "page_token": transaction.page_token,
        "created_at": to_microseconds(transaction.created_at), "setup_token": transaction.setup_token,
    }  # fmt: skip
    _ADD_TRANSACTION.run_one(db, fixed | _changing(transaction))


def transactions_of(db: Connection, order_id: str) -> tuple[StoredTransaction, ...]:
    """Return the transactions of an order, oldest first."""
    return tuple(map(_transaction, _OF_ORDER.all(db, {"of_order": order_id})))


def transactions_of_orders(db: Connection, order_ids: Collection[str]) -> dict[str, list[StoredTransaction]]:
    """Return the transactions of several orders, by the orders' ids."""
    found: dict[str, list[StoredTransaction]] = {order_id: [] for order_id in order_ids}
    for row in db.execute(_OF_ORDERS, {"of_orders": list(order_ids)}):
        transaction = _transaction(row)
        found[transaction.order_id].append(transaction)
    return found


def shown_transactions(db: Connection, order_ids: Collection[str]) -> dict[str, list[bytes]]:
    """Return the content in answers of the transactions of several orders, as JSON, by the orders' ids."""
    found: dict[str, list[bytes]] = {order_id: [] for order_id in order_ids}
    for order_id, shown in db.execute(_SHOWN_OF_ORDERS, {"of_orders": list(order_ids)}):
        found[order_id].append(shown)
    return found


def set_transaction(db: Connection, transaction: StoredTransaction) -> None:
    """Store the columns of a transaction that can change; its order is locked."""
    values = {f"to_{name}": value for name, value in _changing(transaction).items()}
    _SET_TRANSACTION.run_one(db, {"of_id": transaction.id} | values)


def _transaction(row: Any) -> StoredTransaction:
    """Return the transaction of a row with all columns of the table, in their order."""
    (
        id_, order_id, number, shown, page_token, created_at, setup_token, setup_state, vault_token, capture_mode, authorised, ends_at,
        state, voided, captured, refunded, charged_back, due_at,
    ) = row  # fmt: skip
    authorisation = None
    if authorised is not None:
        mode = None if capture_mode is None else CaptureMode(capture_mode)
        authorisation = Authorisation(
            authorised,
            mode,
            from_microseconds(ends_at),
            AuthorisationState(state),
            voided,
            captured,
            refunded,
            charged_back,
        )
    return StoredTransaction(
        id=id_, order_id=order_id, number=number, shown=Transaction.from_wire(bytes(shown), tolerant=True), page_token=page_token,
        created_at=from_microseconds(created_at), setup_token=setup_token,
        setup_state=None if setup_state is None else SetupTokenState(setup_state), vault_token=vault_token, authorisation=authorisation,
        due_at=optional_time(due_at),
    )  # fmt: skip


def _changing(transaction: StoredTransaction) -> dict[str, Any]:
    held = transaction.authorisation
    return {
        "shown": transaction.shown.to_wire(),
        "setup_state": None if transaction.setup_state is None else transaction.setup_state.value,
        "vault_token": transaction.vault_token,
        "capture_mode": None if held is None or held.capture_mode is None else held.capture_mode.value,
        "authorised": None if held is None else held.amount,
        "ends_at": None if held is None else to_microseconds(held.ends_at),
        "state": None if held is None else held.state.value,
        "voided": 0 if held is None else held.voided,
        "captured": 0 if held is None else held.captured,
        "refunded": 0 if held is None else held.refunded,
        "charged_back": 0 if held is None else held.charged_back,
        "due_at": optional_microseconds(transaction.due_at),
    }


ORDERS = Table(
    "gateway_orders", TABLES,
    Column("id", String(36), primary_key=True),
    Column("project_id", String(36), nullable=False),
    Column("status", String(16), nullable=False),
    Column("terms", LargeBinary, nullable=False),
    Column("merchant_order_id", String(MAX_REFERENCE)),
    Column("merchant_customer_id", String(MAX_REFERENCE)),
    Column("currency", String(3), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("is_test", Boolean, nullable=False),
    Column("own_checkout", Boolean, nullable=False),
    Column("page_token", String(64), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("modified_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("ends_at", BigInteger),
    Column("due_at", BigInteger),
    Column("made_by", String(10)),
    Column("original_id", String(36)),
    Column("link_id", String(36)),
)  # fmt: skip
Index("gateway_orders_by_time", ORDERS.c.project_id, ORDERS.c.created_at, ORDERS.c.id)
Index("gateway_orders_by_change", ORDERS.c.project_id, ORDERS.c.modified_at, ORDERS.c.id)
Index("gateway_orders_by_reference", ORDERS.c.project_id, ORDERS.c.merchant_order_id, ORDERS.c.created_at, ORDERS.c.id)
Index("gateway_orders_made", ORDERS.c.original_id, sqlite_where=ORDERS.c.original_id.is_not(None))
Index("gateway_orders_of_link", ORDERS.c.link_id, sqlite_where=ORDERS.c.link_id.is_not(None))
Index("gateway_orders_due", ORDERS.c.due_at, sqlite_where=ORDERS.c.due_at.is_not(None))
_ADD_ORDER = Statement(insert(ORDERS).inline())
_ONE_ORDER = select(ORDERS).where(ORDERS.c.id == bindparam("of_id"))
_FIND_ORDER, _LOCK_ORDER = Statement(_ONE_ORDER), Statement(_ONE_ORDER.with_for_update())
_CHANGING_ORDER = ("status", "modified_at", "completed_at", "due_at")
_SET_ORDER = Statement(
    update(ORDERS).where(ORDERS.c.id == bindparam("of_id")).values({name: bindparam(f"to_{name}") for name in _CHANGING_ORDER})
)  # fmt: skip
_ORDER_OF_TRANSACTION = select(TRANSACTIONS.c.order_id).where(TRANSACTIONS.c.id == bindparam("of_id"))
_ORDER_OF_SETUP = select(TRANSACTIONS.c.order_id).where(TRANSACTIONS.c.setup_token == bindparam("of_token"))
_MADE_FROM = (
    select(ORDERS)
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
_LATEST_ORDERS = select(ORDERS).order_by(ORDERS.c.created_at.desc(), ORDERS.c.id).limit(bindparam("most"))
_LATEST = select(func.max(ORDERS.c.modified_at))


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

    id: str
    project_id: str
    status: OrderStatus
    terms: OrderTerms
    is_test: bool
    own_checkout: bool
    page_token: str = field(repr=False)
    created_at: datetime
    modified_at: datetime
    completed_at: datetime | None = None
    ends_at: datetime | None = None
    due_at: datetime | None = None
    made_by: str | None = None
    original_id: str | None = None
    link_id: str | None = None

    @property
    def has_one_attempt(self) -> bool:
        """Whether it can have only one attempt, and fails with it."""
        return self.own_checkout or self.link_id is not None


def add_order(db: Connection, order: StoredOrder, *transactions: StoredTransaction) -> None:
    """Store a new order and its transactions.

    Raises:
        FormatError: `message.too-large`, its terms.
    """
    terms = order.terms
    _ADD_ORDER.run_one(
        db,
        {
            "id": order.id, "project_id": order.project_id, "status": order.status.value, "terms": require_short(terms.to_wire()),
            "merchant_order_id": terms.merchant_order_id,
            "merchant_customer_id": terms.customer.merchant_customer_id if terms.customer else None,
            "currency": terms.currency, "amount": terms.amount, "is_test": order.is_test, "own_checkout": order.own_checkout,
            "page_token": order.page_token, "created_at": to_microseconds(order.created_at),
            "modified_at": to_microseconds(order.modified_at), "completed_at": optional_microseconds(order.completed_at),
            "ends_at": optional_microseconds(order.ends_at), "due_at": optional_microseconds(order.due_at), "made_by": order.made_by,
            "original_id": order.original_id, "link_id": order.link_id,
        },
    )  # fmt: skip
    for transaction in transactions:
        add_transaction(db, transaction)


def find_order(db: Connection, order_id: str) -> StoredOrder | None:
    """Return the order with this id without a lock, or None."""
    return _order(_FIND_ORDER.first(db, {"of_id": order_id}))


def lock_order(db: Connection, order_id: str) -> StoredOrder | None:
    """Return the order with this id, or None. It and its transactions are locked for a change."""
    return _order(_LOCK_ORDER.first(db, {"of_id": order_id}))


def lock_order_of_setup_token(db: Connection, token: str) -> StoredOrder | None:
    """Return the order whose transaction has this setup token, locked for a change, or None."""
    order_id = db.execute(_ORDER_OF_SETUP, {"of_token": token}).scalar_one_or_none()
    return None if order_id is None else lock_order(db, order_id)


def find_order_of_transaction(db: Connection, transaction_id: str) -> StoredOrder | None:
    """Return the order that has this transaction without a lock, or None."""
    order_id = db.execute(_ORDER_OF_TRANSACTION, {"of_id": transaction_id}).scalar_one_or_none()
    return None if order_id is None else find_order(db, order_id)


def set_order(db: Connection, order: StoredOrder) -> None:
    """Store the columns of an order that can change."""
    times = {f"to_{name}": optional_microseconds(getattr(order, name)) for name in _CHANGING_ORDER[1:]}
    _SET_ORDER.run_one(db, {"of_id": order.id, "to_status": order.status.value} | times)


def orders_made_from(db: Connection, order_ids: Collection[str]) -> dict[str, list[StoredOrder]]:
    """Return captures, voids, refunds, chargebacks and reversals by the original orders' ids, earliest first."""
    found: dict[str, list[StoredOrder]] = {order_id: [] for order_id in order_ids}
    for row in db.execute(_MADE_FROM, {"of_orders": list(order_ids)}):
        order = read_order(row)
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


def latest_orders(db: Connection, most: int) -> tuple[StoredOrder, ...]:
    """Return the latest orders of all projects, newest first."""
    return tuple(map(read_order, db.execute(_LATEST_ORDERS, {"most": most})))


def latest_time(db: Connection) -> datetime:
    """Return the latest virtual time at which an order changed."""
    return from_microseconds(db.execute(_LATEST).scalar_one() or 0)


def read_order(row: Any) -> StoredOrder:
    """Return the order of a row with all columns of `ORDERS`, in their order."""
    (
        id_, project_id, status, terms, _, _, _, _, is_test, own_checkout, page_token, created_at, modified_at, completed_at, ends_at,
        due_at, made_by, original_id, link_id,
    ) = row  # fmt: skip
    return StoredOrder(
        id=id_, project_id=project_id, status=OrderStatus(status), terms=OrderTerms.from_wire(bytes(terms), tolerant=True),
        is_test=bool(is_test), own_checkout=bool(own_checkout), page_token=page_token, created_at=from_microseconds(created_at),
        modified_at=from_microseconds(modified_at), completed_at=optional_time(completed_at), ends_at=optional_time(ends_at),
        due_at=optional_time(due_at),
        made_by=made_by, original_id=original_id, link_id=link_id,
    )  # fmt: skip


def _order(row: Any) -> StoredOrder | None:
    return None if row is None else read_order(row)
