"""The bank's ledger: double entry in minor units, balances, and pending transfers.

Each move has a debit and a credit account, so no booking can create or lose money. Balances are updated in the booking's transaction.
All currencies here have two decimals. A booking has at most one move of a currency for each account.

    start_transfer(db, transfer)                        # lowers what the account can spend
    book_transfer(db, transfer, at=transfer.due_at)     # False: it failed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    case,
    cast,
    func,
    insert,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from tppkit._clock import from_microseconds, optional_time, to_microseconds
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.sandbox.bank.customers import find_account
from tppkit.sandbox.bank.tables import BALANCES, BOOKINGS, ENTRIES, EUR, TRANSFERS, Transfer
from tppkit.sandbox.bank.zone import bank_day, day_end, day_start
from tppkit.sandbox.clock import run_contained
from tppkit.sql.statement import Statement, insert_or

OWN_BANK = "LT99999"  # country and bank code of this bank's IBANs
CLEARING = "bank:clearing"  # the account for money to and from other banks
EXCHANGE = "bank:exchange"  # the bank's side of currency exchanges
MAX_PENDING = 1000  # transfers of one account, which one answer lists
RATES = {EUR: 100, "USD": 108, "GBP": 86, "PLN": 428, "CZK": 2525}  # hundredths for one EUR; assumption entry-currency

_ADD_BOOKING, _ADD_ENTRY = insert(BOOKINGS), insert(ENTRIES)
_ADD_TO_BALANCE = insert_or(
    BALANCES,
    lambda into: into.values(
        {column: bindparam(column) for column in ("account", "currency", "amount")}
    ).on_conflict_do_update(
        index_elements=["account", "currency"], set_={"amount": BALANCES.c.amount + bindparam("amount")}
    ),
)
_OF_ACCOUNT = BALANCES.c.account == bindparam("of_account")
_FUNDS = select(BALANCES.c.amount).where(_OF_ACCOUNT, BALANCES.c.currency == bindparam("of_currency")).with_for_update()
_IN_FLIGHT = TRANSFERS.c.account == bindparam("of_account"), TRANSFERS.c.state == "pending"
_RESERVED = (
    select(func.coalesce(func.sum(TRANSFERS.c.amount), 0))
    .where(*_IN_FLIGHT, TRANSFERS.c.currency == BALANCES.c.currency)
    .scalar_subquery()
)
_AVAILABLE = Statement(select(BALANCES.c.currency, cast(BALANCES.c.amount - _RESERVED, BigInteger)).where(_OF_ACCOUNT))
_POSITION = (
    select(BOOKINGS.c.booked_at)
    .join(
        ENTRIES,
        (ENTRIES.c.account == bindparam("of_account")) & (ENTRIES.c.booked_at == BOOKINGS.c.booked_at)
        & (ENTRIES.c.transaction_id == BOOKINGS.c.transaction_id),
    )
    .where(BOOKINGS.c.transaction_id == bindparam("of_transaction"))
)  # fmt: skip
_ENTRIES_OF = (
    select(
        BOOKINGS.c.transaction_id, BOOKINGS.c.booked_at, ENTRIES.c.amount, BOOKINGS.c.debtor_name, BOOKINGS.c.creditor_name,
        BOOKINGS.c.remittance, ENTRIES.c.currency,
    )
    .join(BOOKINGS, BOOKINGS.c.transaction_id == ENTRIES.c.transaction_id)
    .where(
        ENTRIES.c.account == bindparam("of_account"), ENTRIES.c.booked_at >= bindparam("since"),
        tuple_(ENTRIES.c.booked_at, ENTRIES.c.transaction_id) < tuple_(bindparam("before"), bindparam("before_id")),
    )
    .order_by(ENTRIES.c.booked_at.desc(), ENTRIES.c.transaction_id.desc())
    .limit(bindparam("most"))
)  # fmt: skip
_EVERY = Statement(_ENTRIES_OF)
_EURO = ENTRIES.alias("euro")
_HAS_EURO_SIDE = (  # the booking is an exchange
    select(_EURO.c.account)
    .where(
        *(_EURO.c[name] == ENTRIES.c[name] for name in ("account", "booked_at", "transaction_id")),
        _EURO.c.currency == EUR,
    )
    .exists()
)
_BOOKED = Statement(_ENTRIES_OF.where(or_(ENTRIES.c.currency == EUR, ~_HAS_EURO_SIDE)))
_PENDING = Statement(
    select(TRANSFERS.table).where(*_IN_FLIGHT).order_by(TRANSFERS.c.started_at.desc(), TRANSFERS.c.id.desc())
)
_PENDING_COUNT = select(func.count()).where(*_IN_FLIGHT)
_WAITING = TRANSFERS.c.source == bindparam("of_source"), TRANSFERS.c.state == "pending"
_NEXT_DUE = select(func.min(TRANSFERS.c.due_at)).where(*_WAITING)
_DUE = Statement(
    select(TRANSFERS.table)
    .where(*_WAITING, TRANSFERS.c.due_at <= bindparam("until"))
    .order_by(TRANSFERS.c.due_at, TRANSFERS.c.started_at, TRANSFERS.c.id)
)
_BY_IDS = select(TRANSFERS.table).where(TRANSFERS.c.id.in_(bindparam("of_ids", expanding=True)))
_SET_STATE = (
    update(TRANSFERS.table).where(TRANSFERS.c.id == bindparam("of_transfer")).values(state=bindparam("to_state"))
)
_DELAY = (
    update(TRANSFERS.table)
    .where(TRANSFERS.c.id == bindparam("of_transfer"))
    .values(due_at=bindparam("to_due_at"), instant=False)
)

_AMOUNTS_OF = select(ENTRIES.c.transaction_id, ENTRIES.c.currency, ENTRIES.c.amount).where(
    ENTRIES.c.account == bindparam("of_account"), ENTRIES.c.transaction_id.in_(bindparam("of_ids", expanding=True))
)

# What `check` looks for.
_UNEVEN = (
    select(ENTRIES.c.transaction_id, ENTRIES.c.currency, func.sum(ENTRIES.c.amount))
    .group_by(ENTRIES.c.transaction_id, ENTRIES.c.currency)
    .having(func.sum(ENTRIES.c.amount) != 0)
)
_STRAY = (
    select(ENTRIES.c.transaction_id)
    .outerjoin(BOOKINGS, BOOKINGS.c.transaction_id == ENTRIES.c.transaction_id)
    .where(or_(BOOKINGS.c.booked_at.is_(None), BOOKINGS.c.booked_at != ENTRIES.c.booked_at))
)
_BOTH_SIDES = union_all(
    select(BALANCES.c.account, BALANCES.c.currency, BALANCES.c.amount),
    select(ENTRIES.c.account, ENTRIES.c.currency, -ENTRIES.c.amount),
).subquery()
_UNEXPLAINED = (
    select(_BOTH_SIDES.c.account, _BOTH_SIDES.c.currency, func.sum(_BOTH_SIDES.c.amount))
    .group_by(_BOTH_SIDES.c.account, _BOTH_SIDES.c.currency)
    .having(func.sum(_BOTH_SIDES.c.amount) != 0)
)
_OVERDRAWN = select(BALANCES).where(BALANCES.c.amount < 0, BALANCES.c.account.not_like("bank:%"))
_UNMATCHED = (
    select(TRANSFERS.c.id, TRANSFERS.c.state, TRANSFERS.c.amount, ENTRIES.c.amount)
    .outerjoin(BOOKINGS, BOOKINGS.c.transaction_id == TRANSFERS.c.id)
    .outerjoin(
        ENTRIES,
        (ENTRIES.c.account == TRANSFERS.c.account) & (ENTRIES.c.currency == TRANSFERS.c.currency)
        & (ENTRIES.c.booked_at == BOOKINGS.c.booked_at) & (ENTRIES.c.transaction_id == TRANSFERS.c.id),
    )
    .where(
        func.coalesce(ENTRIES.c.amount, 0)
        != case((TRANSFERS.c.state == "booked", -TRANSFERS.c.amount), else_=0)
    )
)  # fmt: skip
_CHECKS = (
    ("the entries of a booking do not add up to zero", _UNEVEN),
    ("an entry has no booking of its time", _STRAY),
    ("a balance is not the sum of its entries", _UNEXPLAINED),
    ("a customer's balance is below zero", _OVERDRAWN),
    ("a transfer and its booking differ", _UNMATCHED),
)


class Move(NamedTuple):
    """Money that goes from one account to another.

    Attributes:
        debit: id of the account that pays.
        credit: id of the account that is paid.
        amount_minor: above zero, in minor units.
        currency: its code.
    """

    debit: str
    credit: str
    amount_minor: int
    currency: str = EUR


@dataclass(frozen=True, slots=True)
class Booking:
    """One transaction, which moves money.

    Attributes:
        transaction_id: opaque.
        booked_at: aware UTC; the booking date and the value date are the bank's day of it.
        debtor_name: name of the payer.
        creditor_name: name of the payee.
        remittance: remittance information, or None.
        moves: at most one of a currency for each account.
    """

    transaction_id: str
    booked_at: datetime
    debtor_name: str
    creditor_name: str
    remittance: str | None
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Booked:
    """A booking as one account sees it.

    Attributes:
        transaction_id: opaque.
        booked_at: aware UTC.
        amount_minor: in minor units, below zero if the account pays.
        debtor_name: name of the payer.
        creditor_name: name of the payee.
        remittance: remittance information, or None.
        currency: its code.
    """

    transaction_id: str
    booked_at: datetime
    amount_minor: int
    debtor_name: str
    creditor_name: str
    remittance: str | None
    currency: str = EUR

    @property
    def day(self) -> date:
        """The booking date, and the value date."""
        return bank_day(self.booked_at)


def to_minor(amount: str) -> int:
    """Convert a decimal text with at most two decimals to minor units: 1250 for `12.50`."""
    return int(Decimal(amount).scaleb(2))


def to_decimal(amount_minor: int) -> str:
    """Convert an amount in minor units to a decimal text: `-12.50` for -1250."""
    return str(Decimal(amount_minor).scaleb(-2))


def in_euro(amount_minor: int, currency: str) -> int:
    """Return the value of an amount in euro cents at the bank's rate, rounded to the nearest cent, but at least one cent."""
    rate = RATES[currency]
    cents = max(1, (abs(amount_minor) * 100 + rate // 2) // rate)
    return cents if amount_minor > 0 else -cents


def post(db: Connection, bookings: Sequence[Booking]) -> None:
    """Book transactions and update the balances."""
    entries, totals = [], Counter[tuple[str, str]]()
    for booking in bookings:
        key = {"transaction_id": booking.transaction_id, "booked_at": to_microseconds(booking.booked_at)}
        for move in booking.moves:
            for account, amount in ((move.debit, -move.amount_minor), (move.credit, move.amount_minor)):
                entries.append({**key, "account": account, "currency": move.currency, "amount": amount})
                totals[account, move.currency] += amount
    names = ("transaction_id", "debtor_name", "creditor_name", "remittance")
    rows = [
        {name: getattr(one, name) for name in names} | {"booked_at": to_microseconds(one.booked_at)} for one in bookings
    ]
    db.execute(_ADD_BOOKING, rows)
    db.execute(_ADD_ENTRY, entries)
    for (account, currency), amount in sorted(totals.items()):  # sorted, to lock rows in one order
        _ADD_TO_BALANCE.run_one(db, {"account": account, "currency": currency, "amount": amount})


def available(db: Connection, account: str) -> dict[str, int]:
    """Return what an account can spend in minor units for each currency: its balance without its pending transfers."""
    return dict(_AVAILABLE.all(db, {"of_account": account}))


def booked(
    db: Connection, account: str, first_day: date, last_day: date, *, after: str | None = None, limit: int,
    both_sides: bool = False,
) -> tuple[Booked, ...]:  # fmt: skip
    """Return the bookings of an account in a window of days, newest first; of an exchange the EUR side.

    New bookings do not change a page that follows another one.

    Args:
        db: the transaction.
        account: id of the account.
        first_day: first booking date.
        last_day: last booking date, inclusive.
        after: transactionId of the last booking of the previous page; None: the first page.
        limit: maximum number of bookings.
        both_sides: return an exchange twice, with its amount in each currency.

    Raises:
        FormatError: `query.after`, the account has no such booking.
    """
    before, before_id = to_microseconds(day_end(last_day)), ""
    if after is not None:
        position = db.execute(_POSITION, {"of_account": account, "of_transaction": after}).scalar()
        if position is None:
            raise FormatError("query.after", "the account has no transaction where this page should begin")
        before, before_id = min((position, after), (before, before_id))
    window = {"since": to_microseconds(day_start(first_day)), "before": before, "before_id": before_id}
    found = (_EVERY if both_sides else _BOOKED).all(db, {"of_account": account, **window, "most": limit})
    return tuple([Booked(id_, from_microseconds(at), *rest) for id_, at, *rest in found])


def amounts_of(db: Connection, account: str, transaction_ids: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return currency and amount in minor units of an account's bookings with these ids, each with one currency."""
    rows = db.execute(_AMOUNTS_OF, {"of_account": account, "of_ids": list(transaction_ids)})
    return {id_: (currency, int(amount)) for id_, currency, amount in rows}


def start_transfer(db: Connection, transfer: Transfer) -> None:
    """Store a transfer, which lowers what its account can spend until it is booked or dropped (assumption available-balance).

    Raises:
        LocalProtocolError: `account.funds`, the account cannot spend as much; `account.unfit`, too many of its transfers are pending
            (assumption pending-limit).
    """
    held = {"of_account": transfer.account, "of_currency": transfer.currency}
    db.execute(_FUNDS, held)  # lock the balance, so that two approvals do not spend the same money
    if int(db.execute(_PENDING_COUNT, held).scalar_one()) >= MAX_PENDING:
        raise LocalProtocolError("account.unfit", "too many transfers of this account are pending")
    spendable = available(db, transfer.account).get(transfer.currency, 0)
    if spendable < transfer.amount_minor:
        needed = to_decimal(transfer.amount_minor)
        raise LocalProtocolError(
            "account.funds", f"the account can spend {to_decimal(spendable)} {transfer.currency}, not {needed}"
        )
    TRANSFERS.add(db, transfer)


def book_transfer(db: Connection, transfer: Transfer, *, at: datetime) -> bool:
    """Book a pending transfer; False, without changes, if its money is missing or the bank has no account of the payee."""
    held = {"of_account": transfer.account, "of_currency": transfer.currency}
    funds = db.execute(_FUNDS, held).one_or_none()
    if funds is None or funds.amount < transfer.amount_minor:
        return False
    creditor = find_account(db, transfer.creditor_iban)
    if (
        creditor is None and transfer.creditor_iban[:2] + transfer.creditor_iban[4:9] == OWN_BANK
    ):  # assumption own-iban-unknown
        return False
    paid = CLEARING if creditor is None else creditor.id
    move = Move(transfer.account, paid, transfer.amount_minor, transfer.currency)
    names = transfer.debtor_name, transfer.creditor_name, transfer.remittance
    post(db, [Booking(transfer.id, at, *names, (move,))])
    db.execute(_SET_STATE, {"of_transfer": transfer.id, "to_state": "booked"})
    return True


def drop_transfer(db: Connection, transfer: Transfer) -> None:
    """End a pending transfer without executing it."""
    db.execute(_SET_STATE, {"of_transfer": transfer.id, "to_state": "failed"})


def delay_transfer(db: Connection, transfer: Transfer, *, due_at: datetime) -> None:
    """Move a pending transfer to the normal rail."""
    db.execute(_DELAY, {"of_transfer": transfer.id, "to_due_at": to_microseconds(due_at)})


def next_due(db: Connection, source: str) -> datetime | None:
    """Return when the next pending transfer of an interface is due, or None."""
    return optional_time(db.execute(_NEXT_DUE, {"of_source": source}).scalar_one())


def execute_due(db: Connection, source: str, at: datetime, execute: Callable[[Connection, Transfer], None]) -> None:
    """Execute the due transfers of an interface, in the order of their time.

    After an internal error the transfer is dropped, and the consistency check of the interface reports it.
    """
    for transfer in TRANSFERS.all(db, _DUE, {"of_source": source, "until": to_microseconds(at)}):
        if not run_contained(db, f"the transfer {transfer.id}", partial(execute, db, transfer)):
            drop_transfer(db, transfer)


def transfers(db: Connection, ids: Collection[str]) -> dict[str, Transfer]:
    """Return the transfers with these ids, by their ids."""
    return {one.id: one for one in TRANSFERS.all(db, _BY_IDS, {"of_ids": list(ids)})}


def pending(db: Connection, account: str) -> tuple[Transfer, ...]:
    """Return the pending transfers of an account, in every currency, newest first."""
    return TRANSFERS.all(db, _PENDING, {"of_account": account})


def check(db: Connection) -> list[str]:
    """Return the faults of the ledger: empty if money is conserved, and bookings explain each balance and each transfer."""
    return [f"{text}: {tuple(row)}" for text, statement in _CHECKS for row in db.execute(statement)]
