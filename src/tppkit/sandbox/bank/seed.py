"""The initial customers of a bank, and a year of transactions. The same seed makes the same data."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from tppkit.sandbox.bank.charges import Charge, Charges, charge_bookings
from tppkit.sandbox.bank.customers import (
    ACCOUNTS,
    BUSINESS,
    CUSTOMERS,
    PERSONAL,
    Account,
    Customer,
    allow_use,
    has_customers,
)
from tppkit.sandbox.bank.ledger import CLEARING, EXCHANGE, RATES, Booking, Move, post
from tppkit.sandbox.bank.tables import EUR

_YEAR = timedelta(days=365)
_CHARGED_MINOR, _FEE_MINOR = 89_00, 50

_ONA = Customer(
    "customer-1",
    "Ona Kazlauskienė",
    "+37060000001",
    "ona@example.com",
    "Gedimino pr. 1",
    "Vilnius",
    "LTU",
    "48501010014",
)
_JONAS = Customer(
    "customer-2",
    "Jonas Petraitis",
    "+37060000002",
    "jonas@example.com",
    "Laisvės al. 2",
    "Kaunas",
    "LTU",
    "39002020025",
)
_MARTA = Customer(
    "customer-3", "Marta Nowak", "+48600000003", "marta@example.com", "ul. Długa 3", "Gdańsk", "POL", "92030300036"
)


class _Start(NamedTuple):
    """The initial state of an account."""

    account: Account
    bookings: int  # in the year, approximately
    ends_with_minor: int  # EUR, without payments from other customers of the bank


# Has enough EUR for any test payment.
_DAILY = Account("a1", "LT029999900000000001", "Daily account", _ONA.name, PERSONAL, ("EUR", "USD", "GBP"))
_SAVINGS = Account("a2", "LT729999900000000002", "Savings", _ONA.name, PERSONAL, ("EUR",))
_SHOP = Account("a3", "LT459999900000000003", "Business account", "Knygynas UAB", BUSINESS, ("EUR", "USD"))
_SMALL = Account("a4", "LT189999900000000004", "Daily account", _JONAS.name, PERSONAL, ("EUR", "PLN"))
_TRAVEL = Account("a5", "LT889999900000000005", "Travel account", _MARTA.name, PERSONAL, ("EUR", "PLN", "CZK"))

_STARTS = (
    _Start(_DAILY, 160, 5_000_000_00),
    _Start(_SAVINGS, 24, 12_345_67),
    _Start(_SHOP, 90, 48_210_35),
    _Start(_SMALL, 60, 8_40),
    _Start(_TRAVEL, 60, 1_930_00),
)
_USES = ((_ONA, (_DAILY, _SAVINGS, _SHOP)), (_JONAS, (_SMALL,)), (_MARTA, (_TRAVEL, _SHOP)))
_SHOPS = (
    "Maxi Market", "Kavinė Rytas", "Vilniaus autobusai", "Telekomas", "Energija LT", "Vaistinė Nr. 5", "Kino teatras",
    "Sporto klubas", "Online Books", "Railway Tickets",
)  # fmt: skip


def seed_bank(db: Connection, *, seed: int, at: datetime) -> None:
    """Fill a bank without customers: a year of bookings before `at`, more than 20 in every account."""
    if has_customers(db):
        return
    for start in _STARTS:
        ACCOUNTS.add(db, start.account)
    for customer, accounts in _USES:
        CUSTOMERS.add(db, customer)
        allow_use(db, customer, *accounts)
    chance = random.Random(f"bank {seed}")  # noqa: S311  # reproducible data
    post(db, [booking for start in _STARTS for booking in _bookings(start, chance, at - _YEAR)])


def _bookings(start: _Start, chance: random.Random, begin: datetime) -> Iterator[Booking]:
    """Yield purchases, twelve salaries each followed by a rent of the same amount, and before them the initial deposit."""
    account, owner = start.account.id, start.account.owner_name
    needed = start.ends_with_minor
    month = _YEAR / 12
    for number in range(12):
        at, amount = begin + month * number + month / 2, chance.randrange(900_00, 2500_00)
        yield _booking(chance, at, "Darbdavys UAB", owner, f"Salary {number + 1}", CLEARING, account, amount)
        yield _booking(chance, at + month / 10, owner, "Nuoma UAB", f"Rent {number + 1}", account, CLEARING, amount)
    for _ in range(start.bookings - 24):
        at, amount = begin + timedelta(hours=2) + _after(chance), chance.randrange(1_00, 60_00)
        needed += amount
        if account != _SHOP.id and chance.random() < 0.1:
            yield _booking(chance, at, owner, _SHOP.owner_name, "Books", account, _SHOP.id, amount)
        else:
            yield _booking(chance, at, owner, chance.choice(_SHOPS), None, account, CLEARING, amount)
    for currency in start.account.currencies[1:]:
        amount = chance.randrange(200_00, 400_00)
        needed += amount
        moves = Move(account, EXCHANGE, amount), Move(EXCHANGE, account, amount * RATES[currency] // 100, currency)
        at = begin + timedelta(hours=1, minutes=chance.randrange(60))
        yield Booking(_new_id(chance), at, owner, owner, f"Exchange to {currency}", moves)
    if start.account == _DAILY:
        needed += _CHARGED_MINOR + _FEE_MINOR
        yield from _charged_purchase(start, begin + _YEAR / 2)
    yield _booking(chance, begin, owner, owner, "Opening balance", CLEARING, account, needed)


def _charged_purchase(start: _Start, at: datetime) -> Iterator[Booking]:
    """Yield a purchase with a fee and a second amount."""
    account, id_ = start.account, hashlib.sha256(f"charged {start.account.id}".encode()).hexdigest()[:48]
    yield Booking(id_, at, account.owner_name, "Hotel Central", None, (Move(account.id, CLEARING, _CHARGED_MINOR),))
    charges = Charges(fee=Charge(EUR, -_FEE_MINOR), second=Charge(account.currencies[1], -5_00))
    yield from charge_bookings(account, id_, charges, at=at)


def _booking(
    chance: random.Random, at: datetime, debtor: str, creditor: str, text: str | None, debit: str, credit: str, amount: int
) -> Booking:  # fmt: skip
    return Booking(_new_id(chance), at, debtor, creditor, text, (Move(debit, credit, amount),))


def _after(chance: random.Random) -> timedelta:
    return timedelta(seconds=chance.randrange(int(_YEAR.total_seconds()) - 10_000))


def _new_id(chance: random.Random) -> str:
    return f"{chance.getrandbits(192):048x}"
