"""The bank's customers, its accounts, and the customers' rights to use accounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, bindparam, insert, select

from tppkit.errors import LocalProtocolError
from tppkit.sql.statement import Statement

PERSONAL, BUSINESS = "personal", "business"

TABLES = MetaData()
_CUSTOMERS = Table(
    "customers", TABLES,
    Column("id", String(32), primary_key=True),
    Column("name", String(140), nullable=False),
    Column("phone", String(32), nullable=False, unique=True),
    Column("email", String(254), nullable=False, unique=True),
    Column("address", String(140), nullable=False),
    Column("city", String(140), nullable=False),
    Column("country", String(3), nullable=False),
    Column("person_code", String(32), nullable=False, unique=True),
)  # fmt: skip
_ACCOUNTS = Table(
    "accounts", TABLES,
    Column("id", String(32), primary_key=True),
    Column("iban", String(34), nullable=False, unique=True),
    Column("name", String(140), nullable=False),
    Column("owner_name", String(140), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("currencies", String(64), nullable=False),
)  # fmt: skip
_USES = Table(
    "account_uses", TABLES,
    Column("customer", String(32), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("account", String(32), nullable=False),
)  # fmt: skip

_ALL_CUSTOMERS = select(_CUSTOMERS).order_by(_CUSTOMERS.c.id)
_ANY_CUSTOMER = select(_CUSTOMERS.c.id).limit(1)
_BY_PHONE = select(_CUSTOMERS).where(_CUSTOMERS.c.phone == bindparam("of_phone"))
_BY_IBAN = Statement(select(_ACCOUNTS).where(_ACCOUNTS.c.iban == bindparam("of_iban")))
_OF_CUSTOMER = (
    select(_ACCOUNTS)
    .join(_USES, _USES.c.account == _ACCOUNTS.c.id)
    .where(_USES.c.customer == bindparam("of_customer"))
    .order_by(_USES.c.position)
)
_ADD_CUSTOMER, _ADD_ACCOUNT, _ADD_USE = insert(_CUSTOMERS), insert(_ACCOUNTS), insert(_USES)


@dataclass(frozen=True, slots=True)
class Customer:
    """A person.

    Attributes:
        id: short name, for control calls.
        name: first and last name.
        phone: in international form, unique.
        email: unique.
        address: street and number.
        city: the city.
        country: ISO 3166 alpha-3.
        person_code: national identification number, unique.
    """

    id: str
    name: str
    phone: str
    email: str
    address: str
    city: str
    country: str
    person_code: str


@dataclass(frozen=True, slots=True)
class Account:
    """A payment account, with a balance in each of its currencies.

    Attributes:
        id: internal id, never shown to providers.
        iban: unique.
        name: name of the account.
        owner_name: the person or business that it belongs to.
        kind: `personal` or `business`.
        currencies: codes, the main one first.
    """

    id: str
    iban: str
    name: str
    owner_name: str
    kind: str
    currencies: tuple[str, ...]


def add_customer(db: Connection, customer: Customer) -> None:
    """Add a customer."""
    db.execute(_ADD_CUSTOMER, {name: getattr(customer, name) for name in Customer.__slots__})


def add_account(db: Connection, account: Account) -> None:
    """Add an account. No customer may use it until `allow_use` allows it."""
    values = {name: getattr(account, name) for name in Account.__slots__}
    db.execute(_ADD_ACCOUNT, values | {"currencies": ",".join(account.currencies)})


def allow_use(db: Connection, customer: Customer, *accounts: Account) -> None:
    """Allow a customer to use these accounts, listed in this order: own ones, and those of represented businesses."""
    uses = [{"customer": customer.id, "position": i, "account": account.id} for i, account in enumerate(accounts)]
    db.execute(_ADD_USE, uses)


def has_customers(db: Connection) -> bool:
    """Whether the bank has any customer."""
    return db.execute(_ANY_CUSTOMER).first() is not None


def customers(db: Connection) -> tuple[Customer, ...]:
    """Return all customers, by id."""
    return tuple(Customer(**row) for row in db.execute(_ALL_CUSTOMERS).mappings())


def require_customer(db: Connection, id_: str | None) -> Customer:
    """Return the customer with this id; None: the first customer.

    Raises:
        LocalProtocolError: `account.unfit`.
    """
    found = next((one for one in customers(db) if id_ in (None, one.id)), None)
    if found is None:
        raise LocalProtocolError("account.unfit", "the bank has no such customer")
    return found


def find_customer(db: Connection, phone: str) -> Customer | None:
    """Return the customer with this phone number in international form, with or without its `+`, or None."""
    row = db.execute(_BY_PHONE, {"of_phone": f"+{phone.removeprefix('+')}"}).mappings().one_or_none()
    return None if row is None else Customer(**row)


def accounts_of(db: Connection, customer_id: str) -> tuple[Account, ...]:
    """Return the accounts that a customer may use, own and of represented businesses; empty for an unknown customer."""
    return tuple(_account(row) for row in db.execute(_OF_CUSTOMER, {"of_customer": customer_id}))


def find_account(db: Connection, iban: str) -> Account | None:
    """Return the account with this IBAN, or None."""
    row = _BY_IBAN.first(db, {"of_iban": iban})
    return None if row is None else _account(row)


def approving_accounts(
    db: Connection, iban: str | None, *, customer_id: str | None = None, creditor_iban: str | None = None
) -> Iterator[tuple[Customer, Account]]:
    """Yield each customer with each account that the customer may approve with, in order.

    Args:
        db: the transaction.
        iban: IBAN of the account; None for any account.
        customer_id: id of the customer; None for any customer.
        creditor_iban: IBAN of the account that is paid; it cannot pay itself.
    """
    for customer in customers(db):
        if customer_id in (None, customer.id):
            for account in accounts_of(db, customer.id):
                if iban in (None, account.iban) and account.iban != creditor_iban:
                    yield customer, account


def _account(row: Any) -> Account:
    """Return the account of a row with all columns of the table, in their order."""
    id_, iban, name, owner_name, kind, currencies = row
    return Account(id_, iban, name, owner_name, kind, tuple(currencies.split(",")))
