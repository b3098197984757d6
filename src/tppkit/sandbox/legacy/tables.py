"""The tables of the legacy interface: the provider's address, access and payments, with their statements."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from sqlalchemy import Column, Connection, MetaData, String, Table, bindparam, select

from tppkit.protocol.legacy import PaymentOrder
from tppkit.sandbox.bank.tables import TRANSFERS
from tppkit.sandbox.queries import Newest, TransferCheck
from tppkit.sql.records import KEY, UNIQUE, Named, Records
from tppkit.sql.statement import insert_or

SOURCE = "legacy"  # source of this interface's transfers in the ledger
AIS, PIS = "ais", "pis"


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

    host: Annotated[str, String(4), KEY]
    token: Annotated[str, String(40), KEY]
    kind: Annotated[str, String(3)]
    acc: Annotated[str, String(34)]
    state: Annotated[AccessState, String(10)]
    requested_at: datetime
    iban: Annotated[str | None, String(34)] = None
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

    host: Annotated[str, String(4), KEY]
    uuid: Annotated[str, String(40), KEY]
    token: Annotated[str | None, String(40)]
    order: Annotated[PaymentOrder, Named("body")]
    iban: Annotated[str, String(34)]
    creditor_iban: Annotated[str, String(34)]
    creditor_name: Annotated[str, String(140)]
    state: Annotated[PaymentState, String(10)]
    requested_at: datetime
    record_id: Annotated[str, String(64), UNIQUE]
    decided_at: datetime | None = None


TABLES = MetaData()
_PROVIDER = Table(
    "legacy_provider", TABLES,
    Column("name", String(16), primary_key=True),
    Column("callback_url", String(2400), nullable=False),
)  # fmt: skip
_CALLBACK_URL = select(_PROVIDER.c.callback_url)
_SET_CALLBACK_URL = insert_or(
    _PROVIDER,
    lambda into: into.values(name="provider", callback_url=bindparam("callback_url")).on_conflict_do_update(
        index_elements=["name"], set_={"callback_url": bindparam("callback_url")}
    ),
)

ACCESS = Records(StoredAccess, "legacy_access", TABLES, changing=["state", "iban", "expires_at"])
_ACCESS_TO = (
    select(ACCESS.table)
    .where(ACCESS.c.acc.in_(bindparam("of_accs", expanding=True)))
    .order_by(ACCESS.c.requested_at.desc(), ACCESS.c.token)
)
newest_access = Newest(ACCESS, ACCESS.c.requested_at)

PAYMENTS = Records(StoredPayment, "legacy_payments", TABLES, changing=["state", "decided_at"])
_OF_RECORDS = select(PAYMENTS.table).where(PAYMENTS.c.record_id.in_(bindparam("of_records", expanding=True)))
_WAITING_PAYMENTS = (
    select(PAYMENTS.table)
    .where(PAYMENTS.c.state == "requested", PAYMENTS.c.iban.in_(bindparam("of_ibans", expanding=True)))
    .order_by(PAYMENTS.c.requested_at.desc(), PAYMENTS.c.uuid)
)
newest_payments = Newest(PAYMENTS, PAYMENTS.c.requested_at)
# A payment that the customer has not approved has no transfer.
check_payments = TransferCheck(
    SOURCE, key=PAYMENTS.c.uuid, state=PAYMENTS.c.state, of_payment=TRANSFERS.c.id == PAYMENTS.c.record_id,
    allowed=["requested ", "declined ", "posted pending", "executed booked", "failed failed"],
)  # fmt: skip


def callback_url(db: Connection) -> str | None:
    """Return the provider's callback address, without a slash at its end, or None."""
    return db.execute(_CALLBACK_URL).scalar_one_or_none() or None


def set_callback_url(db: Connection, url: str | None) -> None:
    """Store the address for callbacks; None: send no callbacks."""
    _SET_CALLBACK_URL.run_one(db, {"callback_url": url or ""})


def access_to(db: Connection, accs: Collection[str]) -> tuple[StoredAccess, ...]:
    """Return the requests for access that name one of these IBANs and phone numbers, newest first."""
    return ACCESS.all(db, _ACCESS_TO, {"of_accs": list(accs)})


def payments_of_records(db: Connection, record_ids: Collection[str]) -> dict[str, StoredPayment]:
    """Return the payments of these transaction records, by the records' ids."""
    return {payment.record_id: payment for payment in PAYMENTS.all(db, _OF_RECORDS, {"of_records": list(record_ids)})}


def waiting_payments(db: Connection, ibans: Collection[str]) -> tuple[StoredPayment, ...]:
    """Return the undecided payments from these accounts, newest first."""
    return PAYMENTS.all(db, _WAITING_PAYMENTS, {"of_ibans": list(ibans)})
