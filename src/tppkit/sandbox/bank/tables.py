"""The tables of the ledger."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table

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
TRANSFERS = Table(
    "transfers", TABLES,
    Column("id", String(64), primary_key=True),
    Column("source", String(16), nullable=False),
    Column("order_id", String(64), nullable=False),
    Column("account", String(32), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("debtor_name", String(140), nullable=False),
    Column("creditor_iban", String(34), nullable=False),
    Column("creditor_name", String(140), nullable=False),
    Column("remittance", String(140)),
    Column("instant", Boolean, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("state", String(8), nullable=False),
)  # fmt: skip
Index("transfers_by_order", TRANSFERS.c.source, TRANSFERS.c.order_id, unique=True)
Index("transfers_due", TRANSFERS.c.source, TRANSFERS.c.state, TRANSFERS.c.due_at)
Index("transfers_of_account", TRANSFERS.c.account, TRANSFERS.c.state)
