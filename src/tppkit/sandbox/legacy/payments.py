"""Payments: the provider's requests, the customer's decisions, and the execution.

Each callback is added in the transaction of the change that it reports.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection

from tppkit._iban import is_iban
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.legacy import PaymentOrder
from tppkit.protocol.legacy.endpoints import PAY
from tppkit.protocol.legacy.rules import LifeCycle, is_token, require_token
from tppkit.sandbox.bank.charges import Charges, book_charges, find_charges
from tppkit.sandbox.bank.customers import PERSONAL, Account, accounts_of, find_account, find_customer
from tppkit.sandbox.bank.ledger import book_transfer, drop_transfer, execute_due, start_transfer, to_minor
from tppkit.sandbox.bank.tables import Transfer, transfer_id
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.legacy.access import account_of_caller
from tppkit.sandbox.legacy.records import VERSIONS, payment_record
from tppkit.sandbox.legacy.sender import callback
from tppkit.sandbox.legacy.tables import PAYMENTS, PIS, SOURCE, PaymentState, StoredPayment, payments_of_records

_NO_CHARGES = Charges()
EXECUTION = timedelta(hours=1)  # the normal rail; assumption tlc-values


class _Receiver(NamedTuple):
    """The payee of an order."""

    iban: str
    name: str


def pay(call: HostCall[PaymentOrder]) -> Answer[None]:
    """POST /pis/<access_token>/TX/<uuid>. The same order with the same uuid is one payment (assumption tx-repeats)."""
    payer, order = account_of_caller(call, PIS), call.body
    uuid = require_token(call.parameters["uuid"], "uuid")
    receiver = _receiver(call.db, order, payer)
    if not order.has_receiver and find_account(call.db, receiver.iban) is None:
        raise FormatError(
            "order.receiver",
            "name, street, city and country are required for a receiver who is not a customer of the bank",
        )
    token = call.parameters["access_token"]
    payment = _new_payment(call.settings.name, uuid, token, order, payer, receiver, at=call.at)
    if not PAYMENTS.add_new(call.db, payment):
        known = lock_any_payment(call.db, payment.host, uuid)
        if known.token is None or (known.iban, known.order) != (payer.iban, order):
            raise LocalProtocolError("request-id.reuse", "the uuid was used for another payment request")
    return Answer(None)


HANDLERS: tuple[Handler[Any, Any], ...] = (Handler(PAY, pay),)


def pay_scanned(
    db: Connection, host: str, uuid: str, order: PaymentOrder, payer: Account, *, at: datetime
) -> StoredPayment:
    """Pay a scanned code as the customer, without a callback because no provider requested it. The same uuid pays once.

    Raises:
        LocalProtocolError: `account.unknown`, `order.currency`, `order.self`; `payment.decided`, the uuid was used for another
            payment; and those of `start_transfer`.
    """
    payment = _new_payment(host, uuid, None, order, payer, _receiver(db, order, payer), at=at)
    if PAYMENTS.add_new(db, payment):
        return approve_payment(db, payment, at=at)
    known = lock_any_payment(db, host, uuid)
    if (known.token, known.order, known.iban) != (None, order, payer.iban):
        raise LocalProtocolError("payment.decided", "the uuid was used for another payment")
    return known


def lock_any_payment(db: Connection, host: str, uuid: str) -> StoredPayment:
    """Return the payment with this uuid, locked for a decision.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = PAYMENTS.lock(db, host, uuid) if is_token(uuid) else None
    if payment is None:
        raise LocalProtocolError("payment.unknown", "no payment was requested with this uuid")
    return payment


def approve_payment(
    db: Connection, payment: StoredPayment, *, at: datetime, charges: Charges = _NO_CHARGES
) -> StoredPayment:
    """Approve as the customer: start the transfer, book the charges, and add the callback.

    Raises:
        LocalProtocolError: `payment.decided`, and those of `start_transfer` and `book_charges`.
    """
    _require_undecided(payment)
    account = find_account(db, payment.iban)
    if account is None:
        raise LocalProtocolError("account.unfit", "the bank no longer has the account that pays")
    order = payment.order
    transfer = Transfer(
        SOURCE, _order_id(payment.host, payment.uuid), account.id, to_minor(str(order.amount.value)), account.owner_name,
        payment.creditor_iban, payment.creditor_name, order.msg, False, at, at + EXECUTION, currency=order.amount.currency,
    )  # fmt: skip
    start_transfer(db, transfer)
    book_charges(db, account, payment.record_id, charges, at=at)
    return _move(db, replace(payment, decided_at=at), LifeCycle.POSTED, at)


def decline_payment(db: Connection, payment: StoredPayment, *, at: datetime) -> StoredPayment:
    """Decline as the customer, and add the callback.

    Raises:
        LocalProtocolError: `payment.decided`.
    """
    _require_undecided(payment)
    return _move(db, replace(payment, decided_at=at), LifeCycle.DECLINED, at)


def execute_payments(db: Connection, at: datetime) -> None:
    """Execute the due payments, each at its time; one that cannot be booked fails."""
    execute_due(db, SOURCE, at, _execute)


def _execute(db: Connection, transfer: Transfer) -> None:
    payment = payments_of_records(db, [transfer.id])[transfer.id]
    executed = book_transfer(db, transfer, at=transfer.due_at)
    if not executed:
        drop_transfer(db, transfer)
    _move(db, payment, LifeCycle.EXECUTED if executed else LifeCycle.FAILED, transfer.due_at)


def _move(db: Connection, payment: StoredPayment, stage: LifeCycle, at: datetime) -> StoredPayment:
    """Store the state of a payment, and add a callback if a provider requested the payment."""
    moved = replace(payment, state=PaymentState(stage.value))
    PAYMENTS.set(db, moved)
    if payment.token is not None:
        account = find_account(db, payment.iban)
        charges = _NO_CHARGES if account is None else find_charges(db, account.id, payment.record_id)
        body = payment_record(moved, stage, at, charges=charges).to_wire()
        stream = _order_id(payment.host, payment.uuid)
        callback(db, payment.host, payment.uuid, body, at=at, stream=stream, ver=VERSIONS[stage])
    return moved


def _new_payment(
    host: str, uuid: str, token: str | None, order: PaymentOrder, payer: Account, receiver: _Receiver, *, at: datetime
) -> StoredPayment:
    record_id, state = transfer_id(SOURCE, _order_id(host, uuid)), PaymentState.REQUESTED
    return StoredPayment(host, uuid, token, order, payer.iban, receiver.iban, receiver.name, state, at, record_id)


def _order_id(host: str, uuid: str) -> str:
    return f"{host}:{uuid}"


def _receiver(db: Connection, order: PaymentOrder, payer: Account) -> _Receiver:
    """Return the payee's account. For a phone number, the first personal account with the currency that is not the payer's.

    Raises:
        LocalProtocolError: `account.unknown`, `order.currency`, `order.self`.
    """
    accounts: tuple[Account, ...] = ()
    if is_iban(order.acc):
        found = find_account(db, order.acc)
        if found is not None:
            accounts = (found,)
    else:
        customer = find_customer(db, order.acc)
        owned = () if customer is None else accounts_of(db, customer.id)
        accounts = tuple(one for one in owned if one.kind == PERSONAL)
        if not accounts:
            raise LocalProtocolError("account.unknown", "the bank has no customer with this phone number")
    currency = order.amount.currency
    others = [account for account in accounts if account.iban != payer.iban]
    if accounts and not others:
        raise LocalProtocolError("order.self", "the receiver's account is the account that pays")
    usable = [account for account in others if currency in account.currencies]
    if currency not in payer.currencies or (others and not usable):
        raise LocalProtocolError("order.currency", f"an account of the payment does not hold {currency}")
    if usable:
        return _Receiver(usable[0].iban, order.name or usable[0].owner_name)
    return _Receiver(order.acc, order.name or order.acc)


def _require_undecided(payment: StoredPayment) -> None:
    if payment.state is not PaymentState.REQUESTED:
        raise LocalProtocolError("payment.decided", f"the payment is {payment.state}, so it can no longer be decided")
