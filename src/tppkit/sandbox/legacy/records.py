"""Transaction records (<TRAN>) for callbacks about payments, and for LIST with all entries of an account."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Connection

from tppkit.protocol.legacy import Amount, LifeCycle, Transaction
from tppkit.protocol.legacy.rules import LIST_LENGTH, write_time_stamp
from tppkit.sandbox.bank.customers import Account
from tppkit.sandbox.bank.ledger import Transfer, booked, pending, to_decimal, transfers
from tppkit.sandbox.legacy.tables import StoredPayment, payments_of_records

VERSIONS: Mapping[LifeCycle, int] = {  # assumption tlc-values
    LifeCycle.POSTED: 1, LifeCycle.DECLINED: 1, LifeCycle.EXECUTED: 2, LifeCycle.FAILED: 2,
}  # fmt: skip


class _Entry(NamedTuple):
    """A change of an account's balance in one currency, booked or pending."""

    id: str
    at: datetime
    amount: Amount
    debtor_name: str
    creditor_name: str
    remittance: str | None
    stage: LifeCycle


def payment_record(payment: StoredPayment, stage: LifeCycle, at: datetime) -> Transaction:
    """Return the record of a payment for the payer's account.

    Args:
        payment: the payment.
        stage: its stage in the life cycle.
        at: when it reached the stage, aware UTC; the record's time stamp is that of the decision.
    """
    order, amount = payment.order, payment.order.amount
    return Transaction(
        id=payment.record_id, ver=VERSIONS[stage], time_stamp=write_time_stamp(payment.decided_at or at), tlc=stage.value, acc=order.acc,
        amounts=(amount._replace(value=-amount.value),), name=payment.creditor_name, street=order.street, city=order.city,
        country=order.country, msg=order.msg, time=order.time, tcc=order.tcc,
    )  # fmt: skip


def account_records(db: Connection, account: Account) -> tuple[Transaction, ...]:
    """Return all records of an account, booked and pending, newest first (assumption list-form); an exchange has two amounts."""
    listed = [_pending(one) for one in pending(db, account.id)]
    most = LIST_LENGTH * len(account.currencies)
    for one in booked(db, account.id, date.min, date.max, limit=most, both_sides=True):
        amount, names = _amount(one.currency, one.amount_minor), (one.debtor_name, one.creditor_name)
        listed.append(_Entry(one.transaction_id, one.booked_at, amount, *names, one.remittance, LifeCycle.EXECUTED))
    listed.sort(key=lambda entry: (entry.at, entry.id), reverse=True)
    found = [tuple(of_one) for _, of_one in groupby(listed, attrgetter("id"))][:LIST_LENGTH]
    ids = [of_one[0].id for of_one in found]
    payments, ordered = payments_of_records(db, ids), transfers(db, ids)
    records = (_record(account, one, payments.get(one[0].id), ordered.get(one[0].id)) for one in found)
    return tuple(sorted(records, key=attrgetter("time_stamp"), reverse=True))


def _record(
    account: Account, entries: tuple[_Entry, ...], payment: StoredPayment | None, transfer: Transfer | None
) -> Transaction:
    """Return the record of a booking or transfer; amounts that the account pays come first."""
    first, amounts = entries[0], tuple(sorted((entry.amount for entry in entries), key=attrgetter("value")))
    pays = amounts[0].value < 0
    if payment is not None and pays:
        return payment_record(payment, first.stage, first.at)
    # Only an exchange within the account has no transfer and its owner on both sides.
    if not pays or (transfer is None and first.debtor_name == first.creditor_name):
        acc = account.iban
    else:
        acc = _iban_of(first.creditor_name) if transfer is None else transfer.creditor_iban
    at = first.at if transfer is None else transfer.started_at
    return Transaction(
        id=first.id, ver=VERSIONS[first.stage], time_stamp=write_time_stamp(at), tlc=first.stage.value, acc=acc,
        amounts=amounts, name=first.creditor_name if pays else first.debtor_name, msg=first.remittance,
        tcc=None if payment is None else payment.order.tcc,
    )  # fmt: skip


def _pending(one: Transfer) -> _Entry:
    names = one.debtor_name, one.creditor_name, one.remittance
    return _Entry(one.id, one.started_at, _amount(one.currency, -one.amount_minor), *names, LifeCycle.POSTED)


def _amount(currency: str, amount_minor: int) -> Amount:
    return Amount(currency, Decimal(to_decimal(amount_minor)))


def _iban_of(name: str) -> str:
    """Return an account at another bank for a seeded shop, of which the ledger has only the name."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % 10**11
    bban = f"21000{number:011}"
    check = 98 - int(f"{bban}212900") % 97  # L is 21, T is 29
    return f"LT{check:02}{bban}"
