"""What a transaction costs beside its amount: a fee, and a second amount, each a booking of its own named after the transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from tppkit.errors import LocalProtocolError
from tppkit.sandbox.bank.customers import Account
from tppkit.sandbox.bank.ledger import Booking, Move, amounts_of, available, post, to_decimal

BANK = "bank:charges"  # the account for charges
_NAME = "Bank"


class Charge(NamedTuple):
    """Money that moves between an account and the bank.

    Attributes:
        currency: its code.
        amount_minor: in minor units, below zero if the account pays.
    """

    currency: str
    amount_minor: int


class Charges(NamedTuple):
    """The charges of a transaction; None for those that it does not have.

    Attributes:
        fee: its fee.
        second: its second amount.
    """

    fee: Charge | None = None
    second: Charge | None = None


_PREFIXES = {"fee": "fee-", "second": "second-"}
_TEXTS = {"fee": "Fee", "second": "Second amount"}


def charged_transaction(transaction_id: str) -> str | None:
    """Return the id of the transaction to which a booking belongs as a charge, or None."""
    return next(
        (transaction_id.removeprefix(one) for one in _PREFIXES.values() if transaction_id.startswith(one)), None
    )


def charges_of(transaction_id: str, amounts: Mapping[str, Charge]) -> Charges:
    """Return the charges of a transaction among amounts by the ids of their bookings."""
    return Charges(*(amounts.get(prefix + transaction_id) for prefix in _PREFIXES.values()))


def find_charges(db: Connection, account: str, transaction_id: str) -> Charges:
    """Read the charges of a transaction of an account."""
    found = amounts_of(db, account, [prefix + transaction_id for prefix in _PREFIXES.values()])
    return charges_of(transaction_id, {id_: Charge(*amount) for id_, amount in found.items()})


def charge_bookings(account: Account, transaction_id: str, charges: Charges, *, at: datetime) -> Iterable[Booking]:
    """Yield the bookings of the charges of a transaction."""
    for name, charge in charges._asdict().items():
        if charge is not None:
            pays = charge.amount_minor < 0
            move = Move(
                *((account.id, BANK) if pays else (BANK, account.id)), abs(charge.amount_minor), charge.currency
            )
            names = (account.owner_name, _NAME) if pays else (_NAME, account.owner_name)
            yield Booking(_PREFIXES[name] + transaction_id, at, *names, _TEXTS[name], (move,))


def book_charges(db: Connection, account: Account, transaction_id: str, charges: Charges, *, at: datetime) -> None:
    """Book the charges of a transaction of an account at once.

    Raises:
        LocalProtocolError: `account.funds`; `order.currency`, the account does not hold a currency.
    """
    if charges == Charges():
        return
    wanted = [charge for charge in charges if charge is not None]
    if not {charge.currency for charge in wanted} <= {*account.currencies}:
        raise LocalProtocolError("order.currency", f"the account holds only {', '.join(account.currencies)}")
    post(db, list(charge_bookings(account, transaction_id, charges, at=at)))
    for currency, left_minor in available(db, account.id).items():
        if left_minor < 0:
            raise LocalProtocolError(
                "account.funds", f"the charges exceed the account by {to_decimal(-left_minor)} {currency}"
            )
