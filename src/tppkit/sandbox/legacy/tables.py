"""The tables of the legacy interface: the provider's address, access and payments, with their statements."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
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
)

from tppkit._clock import from_microseconds, optional_microseconds, optional_time, to_microseconds
from tppkit.protocol.legacy import PaymentOrder
from tppkit.sandbox.bank.tables import TRANSFERS
from tppkit.sql.statement import Statement, insert_or

SOURCE = "legacy"  # source of this interface's transfers in the ledger
AIS, PIS = "ais", "pis"

TABLES = MetaData()
_PROVIDER = Table(
    "legacy_provider", TABLES,
    Column("name", String(16), primary_key=True),
    Column("callback_url", String(2400), nullable=False),
)  # fmt: skip
_ACCESS = Table(
    "legacy_access", TABLES,
    Column("host", String(4), primary_key=True),
    Column("token", String(40), primary_key=True),
    Column("kind", String(3), nullable=False),
    Column("acc", String(34), nullable=False),
    Column("state", String(10), nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("iban", String(34)),
    Column("expires_at", BigInteger),
)  # fmt: skip
_PAYMENTS = Table(
    "legacy_payments", TABLES,
    Column("host", String(4), primary_key=True),
    Column("uuid", String(40), primary_key=True),
    Column("token", String(40)),
    Column("body", LargeBinary, nullable=False),
    Column("iban", String(34), nullable=False),
    Column("creditor_iban", String(34), nullable=False),
    Column("creditor_name", String(140), nullable=False),
    Column("state", String(10), nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
    Column("record_id", String(64), nullable=False, unique=True),
)  # fmt: skip
_CALLBACK_URL = select(_PROVIDER.c.callback_url)
_SET_CALLBACK_URL = insert_or(
    _PROVIDER,
    lambda into: into.values(name="provider", callback_url=bindparam("callback_url")).on_conflict_do_update(
        index_elements=["name"], set_={"callback_url": bindparam("callback_url")}
    ),
)
_ADD_ACCESS = insert_or(_ACCESS, lambda into: into.on_conflict_do_nothing().returning(_ACCESS.c.token))
_ONE_ACCESS = select(_ACCESS).where(_ACCESS.c.host == bindparam("of_host"), _ACCESS.c.token == bindparam("of_token"))
_FIND_ACCESS, _LOCK_ACCESS = Statement(_ONE_ACCESS), _ONE_ACCESS.with_for_update()
_SET_ACCESS = (
    update(_ACCESS)
    .where(_ACCESS.c.host == bindparam("of_host"), _ACCESS.c.token == bindparam("of_token"))
    .values(state=bindparam("to_state"), iban=bindparam("to_iban"), expires_at=bindparam("to_expires_at"))
)
_ACCESS_TO = (
    select(_ACCESS)
    .where(_ACCESS.c.acc.in_(bindparam("of_accs", expanding=True)))
    .order_by(_ACCESS.c.requested_at.desc(), _ACCESS.c.token)
)
_LATEST_ACCESS = select(_ACCESS).order_by(_ACCESS.c.requested_at.desc(), _ACCESS.c.token).limit(bindparam("most"))

_ADD_PAYMENT = insert_or(_PAYMENTS, lambda into: into.on_conflict_do_nothing().returning(_PAYMENTS.c.uuid))
_LOCK_PAYMENT = (
    select(_PAYMENTS)
    .where(_PAYMENTS.c.host == bindparam("of_host"), _PAYMENTS.c.uuid == bindparam("of_uuid"))
    .with_for_update()
)
_SET_PAYMENT = (
    update(_PAYMENTS)
    .where(_PAYMENTS.c.record_id == bindparam("of_record"))
    .values(state=bindparam("to_state"), decided_at=bindparam("to_decided_at"))
)
_OF_RECORDS = select(_PAYMENTS).where(_PAYMENTS.c.record_id.in_(bindparam("of_records", expanding=True)))
_WAITING_PAYMENTS = (
    select(_PAYMENTS)
    .where(_PAYMENTS.c.state == "requested", _PAYMENTS.c.iban.in_(bindparam("of_ibans", expanding=True)))
    .order_by(_PAYMENTS.c.requested_at.desc(), _PAYMENTS.c.uuid)
)
_LATEST_PAYMENTS = (
    select(_PAYMENTS).order_by(_PAYMENTS.c.requested_at.desc(), _PAYMENTS.c.uuid).limit(bindparam("most"))
)

_LATEST = select(
    *(
        select(func.max(column)).scalar_subquery()
        for column in (_ACCESS.c.requested_at, _PAYMENTS.c.requested_at, _PAYMENTS.c.decided_at)
    ),
    select(func.max(TRANSFERS.c.due_at))
    .where(TRANSFERS.c.source == SOURCE, TRANSFERS.c.state != "pending")
    .scalar_subquery(),
)
# A payment that the customer has not approved has no transfer.
_WITH_STATES = (
    select(_PAYMENTS.c.uuid, _PAYMENTS.c.state, TRANSFERS.c.state)
    .outerjoin(TRANSFERS, TRANSFERS.c.id == _PAYMENTS.c.record_id)
    .where(
        (_PAYMENTS.c.state + " " + func.coalesce(TRANSFERS.c.state, "")).not_in(
            ["requested ", "declined ", "posted pending", "executed booked", "failed failed"]
        )
    )
)
_ORPHANS = (
    select(TRANSFERS.c.id)
    .outerjoin(_PAYMENTS, _PAYMENTS.c.record_id == TRANSFERS.c.id)
    .where(TRANSFERS.c.source == SOURCE, _PAYMENTS.c.uuid.is_(None))
)


class AccessState(StrEnum):
    """The state of a request for access; its expiry is computed, not stored."""

    REQUESTED = "requested"
    GRANTED = "granted"
    DECLINED = "declined"
    REVOKED = "revoked"


class PaymentState(StrEnum):
    """The state of a payment."""

    REQUESTED = "requested"
    POSTED = "posted"
    EXECUTED = "executed"
    DECLINED = "declined"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StoredAccess:
    """A provider's access to an account.

    Attributes:
        host: `test` or `live`.
        token: made by the provider.
        kind: `ais` or `pis`.
        acc: the requested account, IBAN or phone number.
        state: the stored state; see `is_valid`.
        requested_at: aware UTC.
        iban: IBAN of the account that the customer chose, or None.
        expires_at: aware UTC, or None.
    """

    host: str
    token: str
    kind: str
    acc: str
    state: AccessState
    requested_at: datetime
    iban: str | None = None
    expires_at: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Whether it gives access at a time."""
        return self.state is AccessState.GRANTED and self.expires_at is not None and at < self.expires_at


@dataclass(frozen=True, slots=True)
class StoredPayment:
    """A payment that a provider requests, or that a customer makes with a scanned code.

    Attributes:
        host: `test` or `live`.
        uuid: made by the provider, or by the bank for a scanned code.
        token: the access token of the request; None for a scanned code, which has no callback.
        order: the payment order.
        iban: IBAN of the paying account.
        creditor_iban: IBAN of the payee's account.
        creditor_name: its owner at this bank, else the name in the order.
        state: its state.
        requested_at: aware UTC.
        record_id: id of its transaction record, and of its transfer.
        decided_at: aware UTC, or None.
    """

    host: str
    uuid: str
    token: str | None
    order: PaymentOrder
    iban: str
    creditor_iban: str
    creditor_name: str
    state: PaymentState
    requested_at: datetime
    record_id: str
    decided_at: datetime | None = None


def callback_url(db: Connection) -> str | None:
    """Return the provider's callback address, without a slash at its end, or None."""
    return db.execute(_CALLBACK_URL).scalar_one_or_none() or None


def set_callback_url(db: Connection, url: str | None) -> None:
    """Store the address for callbacks; None: send no callbacks."""
    _SET_CALLBACK_URL.run_one(db, {"callback_url": url or ""})


def add_access(db: Connection, access: StoredAccess) -> bool:
    """Store a new request; False if its token is used already."""
    names = ("host", "token", "kind", "acc", "iban")
    values = {name: getattr(access, name) for name in names} | {
        "state": access.state.value, "requested_at": to_microseconds(access.requested_at), "expires_at": None,
    }  # fmt: skip
    return _ADD_ACCESS.first(db, values) is not None


def find_access(db: Connection, host: str, token: str) -> StoredAccess | None:
    """Return the access with this token without a lock, or None."""
    return _access(_FIND_ACCESS.first(db, {"of_host": host, "of_token": token}))


def lock_access(db: Connection, host: str, token: str) -> StoredAccess | None:
    """Return the access with this token, locked for a change, or None."""
    return _access(db.execute(_LOCK_ACCESS, {"of_host": host, "of_token": token}).one_or_none())


def set_access(db: Connection, access: StoredAccess) -> None:
    """Store the state of an access request."""
    db.execute(
        _SET_ACCESS,
        {"of_host": access.host, "of_token": access.token, "to_state": access.state.value, "to_iban": access.iban}
        | {"to_expires_at": optional_microseconds(access.expires_at)},
    )


def access_to(db: Connection, accs: Collection[str]) -> tuple[StoredAccess, ...]:
    """Return the requests for access that name one of these IBANs and phone numbers, newest first."""
    rows = map(_access, db.execute(_ACCESS_TO, {"of_accs": list(accs)}))
    return tuple(access for access in rows if access is not None)


def latest_access(db: Connection, most: int) -> tuple[StoredAccess, ...]:
    """Return the latest requests for access, newest first."""
    return tuple(found for row in db.execute(_LATEST_ACCESS, {"most": most}) if (found := _access(row)) is not None)


def add_payment(db: Connection, payment: StoredPayment) -> bool:
    """Store a new payment; False if its uuid is used already."""
    names = ("host", "uuid", "token", "iban", "creditor_iban", "creditor_name", "record_id")
    values = {name: getattr(payment, name) for name in names} | {
        "body": payment.order.to_wire(), "state": payment.state.value,
        "requested_at": to_microseconds(payment.requested_at), "decided_at": None,
    }  # fmt: skip
    return _ADD_PAYMENT.first(db, values) is not None


def lock_payment(db: Connection, host: str, uuid: str) -> StoredPayment | None:
    """Return the payment with this uuid, locked for a change, or None."""
    return _payment(db.execute(_LOCK_PAYMENT, {"of_host": host, "of_uuid": uuid}).one_or_none())


def set_payment(db: Connection, payment: StoredPayment) -> None:
    """Store the state of a payment."""
    decided = optional_microseconds(payment.decided_at)
    db.execute(
        _SET_PAYMENT, {"of_record": payment.record_id, "to_state": payment.state.value, "to_decided_at": decided}
    )


def payments_of_records(db: Connection, record_ids: Collection[str]) -> dict[str, StoredPayment]:
    """Return the payments of these transaction records, by the records' ids."""
    rows = map(_payment, db.execute(_OF_RECORDS, {"of_records": list(record_ids)}))
    return {payment.record_id: payment for payment in rows if payment is not None}


def waiting_payments(db: Connection, ibans: Collection[str]) -> tuple[StoredPayment, ...]:
    """Return the undecided payments from these accounts, newest first."""
    rows = map(_payment, db.execute(_WAITING_PAYMENTS, {"of_ibans": list(ibans)}))
    return tuple(payment for payment in rows if payment is not None)


def latest_payments(db: Connection, most: int) -> tuple[StoredPayment, ...]:
    """Return the latest payments, newest first."""
    return tuple(found for row in db.execute(_LATEST_PAYMENTS, {"most": most}) if (found := _payment(row)) is not None)


def latest_time(db: Connection) -> datetime:
    """Return the latest virtual time of a request, decision or execution."""
    return from_microseconds(max(at or 0 for at in db.execute(_LATEST).one()))


def check_payments(db: Connection) -> list[str]:
    """Return the payments whose state and transfer do not agree, and the transfers without a payment."""
    differences = [
        f"payment {uuid} is {state}, its transfer {transfer}" for uuid, state, transfer in db.execute(_WITH_STATES)
    ]
    return differences + [f"the transfer {id_} has no payment" for id_ in db.execute(_ORPHANS).scalars()]


def _access(row: Any) -> StoredAccess | None:
    """Return the access of a row with all columns of the table, in their order."""
    if row is None:
        return None
    host, token, kind, acc, state, requested_at, iban, expires_at = row
    return StoredAccess(
        host, token, kind, acc, AccessState(state), from_microseconds(requested_at), iban, optional_time(expires_at)
    )  # fmt: skip


def _payment(row: Any) -> StoredPayment | None:
    if row is None:
        return None
    return StoredPayment(
        row.host, row.uuid, row.token, PaymentOrder.from_wire(bytes(row.body), tolerant=True), row.iban, row.creditor_iban,
        row.creditor_name, PaymentState(row.state), from_microseconds(row.requested_at), row.record_id, optional_time(row.decided_at),
    )  # fmt: skip
