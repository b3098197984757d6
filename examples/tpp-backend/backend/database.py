"""Tables, and the engine that all modules share."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    ForeignKey,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Uuid,
    create_engine,
)

metadata = MetaData()

customers = Table(
    "customers",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # the service's id of the customer
    Column("name", Text, nullable=False),
)
# A confirmed login waits here, under the digest of the session id that its code was made for, until that browser fetches it.
logins = Table(
    "logins",
    metadata,
    Column("session", String(64), primary_key=True),
    Column("customer_id", ForeignKey(customers.c.id), nullable=False),
    Column("received_at", DateTime(timezone=True), nullable=False),
)
sessions = Table(
    "sessions",
    metadata,
    Column("session", String(64), primary_key=True),  # a digest: the database contains no session id
    Column("customer_id", ForeignKey(customers.c.id), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)
consents = Table(
    "consents",
    metadata,
    Column("id", String(100), primary_key=True),
    Column("customer_id", ForeignKey(customers.c.id), nullable=False, index=True),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
payments = Table(
    "payments",
    metadata,
    Column("id", Uuid, primary_key=True),  # chosen by the browser, and sent to the bank as X-Request-ID
    Column("customer_id", ForeignKey(customers.c.id), nullable=False, index=True),
    Column("creditor_name", String(70), nullable=False),
    Column("iban", String(34), nullable=False),
    Column("amount", Numeric(12, 2), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("payment_id", String(100)),  # the bank's, when it has answered
    Column("approve", String(2048)),
    Column("status", String(40), nullable=False),
)


def make_engine(url: str) -> Engine:
    """Return the engine; a connection that the server has closed is replaced before it is used."""
    return create_engine(url, pool_pre_ping=True)
