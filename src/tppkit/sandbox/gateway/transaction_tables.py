"""The table of transactions, with its statements; their order is locked before one of them is changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    select,
    update,
)

from tppkit._clock import from_microseconds, optional_microseconds, optional_time, to_microseconds
from tppkit._statement import Statement
from tppkit.protocol.gateway.authorisations import Authorisation
from tppkit.protocol.gateway.orders import CaptureMode, Transaction
from tppkit.protocol.gateway.states import AuthorisationState, SetupTokenState, TransactionStatus

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
