"""The bank's customers, its accounts, and the customers' rights to use accounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, bindparam, insert, select

from tppkit.errors import LocalProtocolError
from tppkit.sql.records import KEY, UNIQUE, Form, Records
from tppkit.sql.statement import Statement

PERSONAL, BUSINESS = "personal", "business"


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

    id: Annotated[str, String(32), KEY]
    name: Annotated[str, String(140)]
    phone: Annotated[str, String(32), UNIQUE]
    email: Annotated[str, String(254), UNIQUE]
    address: Annotated[str, String(140)]
    city: Annotated[str, String(140)]
    country: Annotated[str, String(3)]
    person_code: Annotated[str, String(32), UNIQUE]


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

    id: Annotated[str, String(32), KEY]
    iban: Annotated[str, String(34), UNIQUE]
    name: Annotated[str, String(140)]
    owner_name: Annotated[str, String(140)]
    kind: Annotated[str, String(8)]
    currencies: Annotated[tuple[str, ...], Form(String(64), ",".join, lambda text: tuple(text.split(",")))]


TABLES = MetaData()
CUSTOMERS = Records(Customer, "customers", TABLES)
ACCOUNTS = Records(Account, "accounts", TABLES)
_USES = Table(
    "account_uses", TABLES,
    Column("customer", String(32), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("account", String(32), nullable=False),
)  # fmt: skip
_ALL_CUSTOMERS = Statement(select(CUSTOMERS.table).order_by(CUSTOMERS.c.id))
_ANY_CUSTOMER = select(CUSTOMERS.c.id).limit(1)
_BY_PHONE = Statement(select(CUSTOMERS.table).where(CUSTOMERS.c.phone == bindparam("of_phone")))
_BY_IBAN = Statement(select(ACCOUNTS.table).where(ACCOUNTS.c.iban == bindparam("of_iban")))
_OF_CUSTOMER = Statement(
    select(ACCOUNTS.table)
    .join(_USES, _USES.c.account == ACCOUNTS.c.id)
    .where(_USES.c.customer == bindparam("of_customer"))
    .order_by(_USES.c.position)
)
_ADD_USE = insert(_USES)


def allow_use(db: Connection, customer: Customer, *accounts: Account) -> None:
    """Allow a customer to use these accounts, listed in this order: own ones, and those of represented businesses."""
    uses = [{"customer": customer.id, "position": i, "account": account.id} for i, account in enumerate(accounts)]
    db.execute(_ADD_USE, uses)


def has_customers(db: Connection) -> bool:
    """Whether the bank has any customer."""
    return db.execute(_ANY_CUSTOMER).first() is not None


def customers(db: Connection) -> tuple[Customer, ...]:
    """Return all customers, by id."""
    return CUSTOMERS.all(db, _ALL_CUSTOMERS, {})


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
    return CUSTOMERS.first(db, _BY_PHONE, {"of_phone": f"+{phone.removeprefix('+')}"})


def accounts_of(db: Connection, customer_id: str) -> tuple[Account, ...]:
    """Return the accounts that a customer may use, own and of represented businesses; empty for an unknown customer."""
    return ACCOUNTS.all(db, _OF_CUSTOMER, {"of_customer": customer_id})


def find_account(db: Connection, iban: str) -> Account | None:
    """Return the account with this IBAN, or None."""
    return ACCOUNTS.first(db, _BY_IBAN, {"of_iban": iban})


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
