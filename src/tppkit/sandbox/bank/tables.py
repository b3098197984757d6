"""The tables of the ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Annotated

from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table

from tppkit.sql.records import Named, Records

EUR = "EUR"

TABLES = MetaData()
BOOKINGS = Table(
    "bookings", TABLES,
    Column("transaction_id", String(64), primary_key=True),
    Column("booked_at", BigInteger, nullable=False),
    Column("debtor_name", String(140), nullable=False),
    Column("creditor_name", String(140), nullable=False),
    Column("remittance", String(140)),
)  # fmt: skip
# Stored in the order of the key, so that a page of an account is one range.
ENTRIES = Table(
    "entries", TABLES,
    Column("account", String(32), primary_key=True),
    Column("booked_at", BigInteger, primary_key=True, autoincrement=False),
    Column("transaction_id", String(64), primary_key=True),
    Column("currency", String(3), primary_key=True),
    Column("amount", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
BALANCES = Table(
    "balances", TABLES,
    Column("account", String(32), primary_key=True),
    Column("currency", String(3), primary_key=True),
    Column("amount", BigInteger, nullable=False),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer that a customer has approved.

    Attributes:
        source: the interface that ordered it, for example `psd2`.
        order_id: the interface's id of the order, used once; providers of other interfaces never see it.
        account: id of the account that pays.
        amount_minor: above zero, in minor units.
        debtor_name: name of the payer.
        creditor_iban: the account of the payee, here or at another bank.
        creditor_name: name of the payee.
        remittance: remittance information, or None.
        instant: whether it uses the instant rail.
        started_at: when it was approved, aware UTC.
        due_at: when it is executed, aware UTC.
        state: `pending`, `booked` or `failed`.
        currency: its code.
    """

    source: Annotated[str, String(16)]
    order_id: Annotated[str, String(64)]
    account: Annotated[str, String(32)]
    amount_minor: Annotated[int, Named("amount")]
    debtor_name: Annotated[str, String(140)]
    creditor_iban: Annotated[str, String(34)]
    creditor_name: Annotated[str, String(140)]
    remittance: Annotated[str | None, String(140)]
    instant: bool
    started_at: datetime
    due_at: datetime
    state: Annotated[str, String(8)] = "pending"
    currency: Annotated[str, String(3)] = EUR

    @property
    def id(self) -> str:
        """The transactionId, which does not reveal the order's id."""
        return transfer_id(self.source, self.order_id)


def transfer_id(source: str, order_id: str) -> str:
    """Return the id of the transfer that an order of an interface starts."""
    return hashlib.sha256(f"{source}:{order_id}".encode()).hexdigest()[:48]


TRANSFERS = Records(
    Transfer, "transfers", TABLES, derived={Column("id", String(64), primary_key=True): attrgetter("id")}
)
Index("transfers_by_order", TRANSFERS.c.source, TRANSFERS.c.order_id, unique=True)
Index("transfers_due", TRANSFERS.c.source, TRANSFERS.c.state, TRANSFERS.c.due_at)
Index("transfers_of_account", TRANSFERS.c.account, TRANSFERS.c.state)
