"""The table of payments, with its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    func,
    select,
    update,
)  # fmt: skip

from tppkit._clock import from_microseconds, optional_microseconds, optional_time, to_microseconds
from tppkit.protocol.psd2 import PaymentInitiation, PaymentProduct, TransactionStatus
from tppkit.protocol.psd2.payment import Progress, Trigger
from tppkit.sandbox.bank.tables import TRANSFERS
from tppkit.sql.statement import Statement, insert_or

SOURCE = "psd2"  # source of this interface's transfers in the ledger
_ID = re.compile("[A-Za-z0-9_-]{1,64}")
TABLES = MetaData()
_PAYMENTS = Table(
    "payments", TABLES,
    Column("payment_id", String(64), primary_key=True),
    Column("organization", String(256), nullable=False),
    Column("provider_name", String(256)),
    Column("product", String(64), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("link_token", String(64), nullable=False, unique=True),
    Column("redirect_uri", String(2048)),
    Column("status", String(4), nullable=False),
    Column("active_at", BigInteger, nullable=False),
    Column("opened", Boolean, nullable=False),
    Column("approved_at", BigInteger),
    Column("moved_by", String(16)),
)  # fmt: skip

_ADD = insert_or(_PAYMENTS, lambda into: into.on_conflict_do_nothing().returning(_PAYMENTS.c.payment_id))
# The lock prevents concurrent decisions about one payment; SQLite has only one writer.
_BY_ID = select(_PAYMENTS).where(_PAYMENTS.c.payment_id == bindparam("of_payment"))
_FIND, _LOCK = Statement(_BY_ID), Statement(_BY_ID.with_for_update())
_BY_LINK = select(_PAYMENTS).where(_PAYMENTS.c.link_token == bindparam("of_link")).with_for_update()
_PROGRESS = ("status", "active_at", "opened", "approved_at", "moved_by")
_SET_PROGRESS = (
    update(_PAYMENTS)
    .where(_PAYMENTS.c.payment_id == bindparam("of_payment"))
    .values({name: bindparam(name) for name in _PROGRESS})
)
_LATEST_DONE = select(func.max(TRANSFERS.c.due_at)).where(TRANSFERS.c.source == SOURCE, TRANSFERS.c.state != "pending")
_LATEST = select(func.max(_PAYMENTS.c.active_at), func.max(_PAYMENTS.c.approved_at), _LATEST_DONE.scalar_subquery())
_IDS = select(_PAYMENTS.c.payment_id)
_LATEST_ONES = select(_PAYMENTS).order_by(_PAYMENTS.c.active_at.desc(), _PAYMENTS.c.payment_id).limit(bindparam("most"))
# A payment that the customer has not approved has no transfer; one that fails at execution has a failed one.
_WITH_STATES = (
    select(_PAYMENTS.c.payment_id, _PAYMENTS.c.status, TRANSFERS.c.state)
    .outerjoin(TRANSFERS, (TRANSFERS.c.source == SOURCE) & (TRANSFERS.c.order_id == _PAYMENTS.c.payment_id))
    .where(
        (_PAYMENTS.c.status + " " + func.coalesce(TRANSFERS.c.state, "")).not_in(
            ["RCVD ", "ACTC ", "CANC ", "RJCT ", "RJCT failed", "ACSP pending", "ACSC booked"]
        )
    )
)
_ORPHANS = (
    select(TRANSFERS.c.id)
    .outerjoin(_PAYMENTS, _PAYMENTS.c.payment_id == TRANSFERS.c.order_id)
    .where(TRANSFERS.c.source == SOURCE, _PAYMENTS.c.payment_id.is_(None))
)


@dataclass(frozen=True, slots=True)
class StoredPayment:
    """A payment.

    Attributes:
        payment_id: opaque id.
        organization: organizationIdentifier of the provider that initiated it.
        product: the payment product.
        body: the initiation's body as received.
        link_token: the secret part of the approval link.
        redirect_uri: where the payer's browser returns, or None.
        progress: its state.
        provider_name: name of the provider in its certificate, or None.
    """

    payment_id: str
    organization: str
    product: PaymentProduct
    body: bytes
    link_token: str
    redirect_uri: str | None
    progress: Progress
    provider_name: str | None = None

    @property
    def initiation(self) -> PaymentInitiation:
        """The payment as the provider has initiated it."""
        return PaymentInitiation.from_wire(self.body, unknown_fields=True)


def is_id(text: str) -> bool:
    """Whether a text can be an id or a token of the bank, because PostgreSQL rejects some texts in queries."""
    return _ID.fullmatch(text) is not None


def add_payment(db: Connection, payment: StoredPayment) -> bool:
    """Store a new payment; False if its id or link is used already."""
    values = {
        "payment_id": payment.payment_id, "organization": payment.organization, "product": payment.product.value,
        "body": payment.body, "link_token": payment.link_token, "redirect_uri": payment.redirect_uri,
        "provider_name": payment.provider_name,
    }  # fmt: skip
    return _ADD.first(db, values | _progress_columns(payment.progress)) is not None


def find_payment(db: Connection, payment_id: str) -> StoredPayment | None:
    """Return the payment with this id without a lock, or None."""
    return _read(_FIND.first(db, {"of_payment": payment_id}))


def lock_payment(db: Connection, payment_id: str) -> StoredPayment | None:
    """Return the payment with this id, locked for a change, or None."""
    return _read(_LOCK.first(db, {"of_payment": payment_id}))


def lock_payment_by_link(db: Connection, link_token: str) -> StoredPayment | None:
    """Return the payment with this approval link, locked for a change, or None."""
    return _read(db.execute(_BY_LINK, {"of_link": link_token}).one_or_none())


def set_progress(db: Connection, payment_id: str, progress: Progress) -> None:
    """Store the state of a payment."""
    db.execute(_SET_PROGRESS, {"of_payment": payment_id, **_progress_columns(progress)})


def latest_time(db: Connection) -> datetime:
    """Return the latest virtual time at which a payment was used, decided or executed."""
    return from_microseconds(max(at or 0 for at in db.execute(_LATEST).one()))


def payment_ids(db: Connection) -> Iterator[str]:
    """Return the ids of all payments."""
    return iter(db.execute(_IDS).scalars())


def latest_payments(db: Connection, most: int) -> tuple[StoredPayment, ...]:
    """Return the payments that were used or decided last, newest first."""
    return tuple(payment for row in db.execute(_LATEST_ONES, {"most": most}) if (payment := _read(row)) is not None)


def check_payments(db: Connection) -> list[str]:
    """Return the payments whose state and transfer do not agree, and the transfers without a payment."""
    differences = [
        f"payment {id_} is {status}, its transfer {state}" for id_, status, state in db.execute(_WITH_STATES)
    ]
    return differences + [f"the transfer {id_} has no payment" for id_ in db.execute(_ORPHANS).scalars()]


def _read(row: Any) -> StoredPayment | None:
    """Return the payment of a row with all columns of the table, in their order."""
    if row is None:
        return None
    payment_id, organization, provider_name, product, body, link_token, redirect_uri, *rest = row
    status, active_at, opened, approved_at, moved_by = rest
    progress = Progress(
        TransactionStatus(status), from_microseconds(active_at), bool(opened),
        optional_time(approved_at), None if moved_by is None else Trigger(moved_by),
    )  # fmt: skip
    return StoredPayment(
        payment_id, organization, PaymentProduct(product), bytes(body), link_token, redirect_uri, progress, provider_name
    )  # fmt: skip


def _progress_columns(progress: Progress) -> dict[str, Any]:
    return {
        "status": progress.status.value, "active_at": to_microseconds(progress.active_at), "opened": progress.opened,
        "approved_at": optional_microseconds(progress.approved_at), "moved_by": progress.moved_by and progress.moved_by.value,
    }  # fmt: skip
