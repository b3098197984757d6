"""Transaction records (<TRAN>) for callbacks about payments, and for LIST with all entries of an account."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection

from tppkit.protocol.legacy import Amount, Transaction
from tppkit.protocol.legacy.rules import LIST_LENGTH, LifeCycle, write_time_stamp
from tppkit.sandbox.bank.charges import Charge, Charges, charged_transaction, charges_of
from tppkit.sandbox.bank.customers import Account
from tppkit.sandbox.bank.ledger import Booked, booked, pending, to_decimal, transfers
from tppkit.sandbox.bank.tables import Transfer
from tppkit.sandbox.legacy.tables import StoredPayment, payments_of_records

_NO_CHARGES = Charges()
VERSIONS: Mapping[LifeCycle, int] = {  # assumption tlc-values
    LifeCycle.POSTED: 1, LifeCycle.DECLINED: 1, LifeCycle.EXECUTED: 2, LifeCycle.FAILED: 2,
}  # fmt: skip


def payment_record(
    payment: StoredPayment, stage: LifeCycle, at: datetime, *, charges: Charges = _NO_CHARGES
) -> Transaction:
    """Return the record of a payment for the payer's account.

    Args:
        payment: the payment.
        stage: its stage in the life cycle.
        at: when it reached the stage, aware UTC; the record's time stamp is that of the decision.
        charges: its fee and second amount.
    """
    order, amount = payment.order, payment.order.amount
    return Transaction(
        id=payment.record_id, ver=VERSIONS[stage], time_stamp=write_time_stamp(payment.decided_at or at), tlc=stage.value, acc=order.acc,
        amounts=(amount._replace(value=-amount.value), *_amounts(charges.second)), fees=_amounts(charges.fee),
        name=payment.creditor_name, street=order.street, city=order.city,
        country=order.country, msg=order.msg, time=order.time, tcc=order.tcc,
    )  # fmt: skip


def account_records(db: Connection, account: Account) -> tuple[Transaction, ...]:
    """Return all records of an account, booked and pending, newest first (assumption list-form); an exchange has two amounts."""
    window, most = (date.min, date.max), LIST_LENGTH * (len(account.currencies) + len(_NO_CHARGES))
    entries = [*map(_pending, pending(db, account.id)), *booked(db, account.id, *window, limit=most, both_sides=True)]
    extra = {one.transaction_id: Charge(one.currency, one.amount_minor) for one in entries if _is_charge(one)}
    entries = [one for one in entries if not _is_charge(one)]
    entries.sort(key=lambda entry: (entry.booked_at, entry.transaction_id), reverse=True)
    found = [tuple(of_one) for _, of_one in groupby(entries, attrgetter("transaction_id"))][:LIST_LENGTH]
    ids = [of_one[0].transaction_id for of_one in found]
    payments, ordered = payments_of_records(db, ids), transfers(db, ids)
    records = (
        _record(account, one, payments.get(id_), ordered.get(id_), charges_of(id_, extra))
        for id_, one in zip(ids, found, strict=True)
    )
    return tuple(sorted(records, key=attrgetter("time_stamp"), reverse=True))


def _record(
    account: Account,
    entries: tuple[Booked, ...],
    payment: StoredPayment | None,
    transfer: Transfer | None,
    charges: Charges,
) -> Transaction:
    """Return the record of a booking or transfer; amounts that the account pays come first."""
    first, stage = entries[0], LifeCycle.POSTED if transfer and transfer.state == "pending" else LifeCycle.EXECUTED
    each = (Amount(entry.currency, Decimal(to_decimal(entry.amount_minor))) for entry in entries)
    amounts = tuple(sorted(each, key=attrgetter("value")))
    pays = amounts[0].value < 0
    if payment is not None and pays:
        return payment_record(payment, stage, first.booked_at, charges=charges)
    # Only an exchange within the account has no transfer and its owner on both sides.
    if not pays or (transfer is None and first.debtor_name == first.creditor_name):
        acc = account.iban
    else:
        acc = _iban_of(first.creditor_name) if transfer is None else transfer.creditor_iban
    at = first.booked_at if transfer is None else transfer.started_at
    return Transaction(
        id=first.transaction_id, ver=VERSIONS[stage], time_stamp=write_time_stamp(at), tlc=stage.value, acc=acc,
        amounts=(*amounts, *_amounts(charges.second)), fees=_amounts(charges.fee),
        name=first.creditor_name if pays else first.debtor_name, msg=first.remittance,
        tcc=None if payment is None else payment.order.tcc,
    )  # fmt: skip


def _is_charge(one: Booked) -> bool:
    return charged_transaction(one.transaction_id) is not None


def _amounts(charge: Charge | None) -> tuple[Amount, ...]:
    return () if charge is None else (Amount(charge.currency, Decimal(to_decimal(charge.amount_minor))),)


def _pending(one: Transfer) -> Booked:
    names = one.debtor_name, one.creditor_name, one.remittance
    return Booked(one.id, one.started_at, -one.amount_minor, *names, one.currency)


def _iban_of(name: str) -> str:
    """Return an account at another bank for a seeded shop, of which the ledger has only the name."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % 10**11
    bban = f"21000{number:011}"
    check = 98 - int(f"{bban}212900") % 97  # L is 21, T is 29
    return f"LT{check:02}{bban}"
