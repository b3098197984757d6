"""Handlers of the payment endpoints, and the payer's actions on the approval page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from tppkit._encoding import JsonNumber, parse_json, shown, write_json
from tppkit.errors import LocalProtocolError
from tppkit.protocol.psd2 import (
    AuthorisationStart,
    AuthorisationStarted,
    BankRules,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.protocol.psd2.endpoints import (
    CANCEL_PAYMENT,
    INITIATE_PAYMENT,
    PAYMENT_DETAILS,
    PAYMENT_STATUS,
    START_PAYMENT_AUTHORISATION,
)
from tppkit.protocol.psd2.models import ApprovalLinks, Href
from tppkit.protocol.psd2.payment import PAYMENT, Progress, Trigger, cancel, due_trigger, reported_status
from tppkit.protocol.psd2.persona_file import CANCELLED
from tppkit.protocol.psd2.rules import instant_obstacle, parse_psu_ip_address, parse_redirect_uri
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox.bank.customers import Account, Customer, approving_accounts
from tppkit.sandbox.bank.instant import is_reachable
from tppkit.sandbox.bank.ledger import (
    book_transfer,
    delay_transfer,
    drop_transfer,
    execute_due,
    start_transfer,
    to_minor,
)
from tppkit.sandbox.bank.tables import Transfer
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.psd2.settings import Psd2Settings
from tppkit.sandbox.psd2.tables import PAYMENTS, SOURCE, StoredPayment, is_id, lock_payment_by_link

_ANSWERED = frozenset({"paymentId", "transactionStatus", "_links", "tppMessages"})  # only the bank writes these names


class _Details(PaymentDetails):
    """Payment details with the submitted text of numbers."""

    def to_wire(self) -> bytes:
        return write_json(self.model_dump(by_alias=True)).encode()


def initiate_payment(call: HostCall[PaymentInitiation]) -> Answer[PaymentInitiated]:
    """POST /payments/{payment-product}."""
    product, settings = _parse_product(call.parameters["product"]), call.settings
    parse_psu_ip_address(call.message.single("psu-ip-address"))  # assumption psu-ip-address
    address = parse_redirect_uri(call.message.single("tpp-redirect-uri"))
    obstacle = _obstacle(call.db, call.body, settings.rules) if product is PaymentProduct.INSTANT else None
    if obstacle is not None:
        raise LocalProtocolError("product.invalid", obstacle)
    payment = _add_payment(call, product, address)
    place = {"product": product.value, "payment_id": payment.payment_id}
    facts = {
        "approval": approval_link(settings, payment.link_token),
        "status": call.target(PAYMENT_STATUS, **place),
        "self": call.target(PAYMENT_DETAILS, **place),
    }
    answer = PaymentInitiated(
        transaction_status=payment.progress.status, payment_id=payment.payment_id, links=approval_links(facts)
    )  # fmt: skip
    return Answer(answer, subject=payment.payment_id, facts=facts)


def approval_links(facts: Mapping[str, str]) -> ApprovalLinks:
    """Return the links of a new payment or consent."""
    return ApprovalLinks(
        sca_redirect=Href(href=facts["approval"]), status=Href(href=facts["status"]), self_=Href(href=facts["self"])
    )


def approval_link(settings: Psd2Settings, link_token: str) -> str:
    """Return the address of the page where the customer decides a payment or consent."""
    return f"{settings.approval_url}/approve/{link_token}"


def payment_status(call: HostCall[None]) -> Answer[PaymentStatus]:
    """GET /payments/{payment-product}/{paymentId}/status."""
    status = _of_provider(call).progress.status
    return Answer(PaymentStatus(transaction_status=reported_status(status)), facts=_polled(status))


def payment_details(call: HostCall[None]) -> Answer[PaymentDetails]:
    """GET /payments/{payment-product}/{paymentId}: the submitted payment, with its id and state."""
    payment = _of_provider(call)
    fields = parse_json(payment.body, what="the stored payment", max_bytes=MAX_BODY_BYTES, number=JsonNumber)
    submitted = {name: value for name, value in fields.items() if name not in _ANSWERED}
    state = {"paymentId": payment.payment_id, "transactionStatus": reported_status(payment.progress.status).value}
    details = _Details.model_validate(submitted | state, strict=False, by_alias=True, by_name=False)
    return Answer(details, facts=_polled(payment.progress.status))


def _polled(status: TransactionStatus) -> Mapping[str, str]:
    return {"state": CANCELLED} if status is TransactionStatus.CANC else {}


def cancel_payment(call: HostCall[None]) -> Answer[PaymentStatus]:
    """DELETE /payments/{payment-product}/{paymentId}."""
    payment = _of_provider(call, find=PAYMENTS.lock)
    cancelled = replace(payment.progress, status=cancel(payment.progress), moved_by=Trigger.CANCELLED)
    _store(call.db, payment, cancelled)
    return Answer(PaymentStatus(transaction_status=TransactionStatus.CANC))


def start_payment_authorisation(call: HostCall[AuthorisationStart]) -> Answer[AuthorisationStarted]:
    """POST /payments/{payment-product}/{paymentId}/authorisations; every time the same link."""
    payment = _of_provider(call)
    require_open(payment)
    return Answer(started(call, payment.payment_id, payment.link_token))


def started(call: HostCall[Any], order_id: str, link_token: str) -> AuthorisationStarted:
    """Return the answer to the start of an authorisation, of which each payment and consent has one."""
    link = ApprovalLinks(sca_redirect=Href(href=approval_link(call.settings, link_token)))
    return AuthorisationStarted(sca_status="received", authorisation_id=order_id, links=link)


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(INITIATE_PAYMENT, initiate_payment),
    Handler(PAYMENT_STATUS, payment_status, writes=False),
    Handler(PAYMENT_DETAILS, payment_details, writes=False),
    Handler(CANCEL_PAYMENT, cancel_payment),
    Handler(START_PAYMENT_AUTHORISATION, start_payment_authorisation, writes=False),
)


def lock_linked_payment(db: Connection, link_token: str, *, at: datetime, rules: BankRules) -> StoredPayment:
    """Return the payment of an approval link in its state at a time, locked for a change.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = lock_payment_by_link(db, link_token) if is_id(link_token) else None
    if payment is None:
        raise LocalProtocolError("payment.unknown", "this approval link belongs to no payment")
    return up_to_date(payment, at, rules)


def lock_any_payment(db: Connection, payment_id: str, *, at: datetime, rules: BankRules) -> StoredPayment:
    """Return the payment of any provider in its state at a time, locked for a change.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = PAYMENTS.lock(db, payment_id) if is_id(payment_id) else None
    if payment is None:
        raise LocalProtocolError("payment.unknown", f"there is no payment {shown(payment_id)}")
    return up_to_date(payment, at, rules)


def open_payment(db: Connection, payment: StoredPayment, *, at: datetime, rules: BankRules) -> StoredPayment:
    """Record that the payer opens or uses the approval page.

    The provider can no longer cancel, and the inactivity window restarts. A decided payment does not change.
    """
    progress = payment.progress
    if not is_open(payment):
        return payment
    if rules.technical_validation and (progress.status, Trigger.STARTED) in PAYMENT.moves:  # assumption payment-actc
        progress = _moved(progress, Trigger.STARTED)
    return _store(db, payment, replace(progress, opened=True, active_at=at))


def is_open(payment: StoredPayment) -> bool:
    """Whether the customer can decide."""
    return (payment.progress.status, Trigger.APPROVED) in PAYMENT.moves


def choices(db: Connection, payment: StoredPayment) -> tuple[tuple[Customer, Account], ...]:
    """Return each customer with each account that may pay; debtorAccount restricts them (assumption no-matching-account)."""
    return tuple(_approving_accounts(db, payment.initiation, None, None))


def approve_payment(
    db: Connection, payment: StoredPayment, customer: str | None, iban: str | None, *, at: datetime, rules: BankRules
) -> StoredPayment:
    """Approve a payment as the payer, which starts the transfer.

    Args:
        db: the transaction.
        payment: the payment in its state at this time.
        customer: id of the customer who approves; None: the first who can.
        iban: IBAN of the paying account; None: the first that can pay.
        at: the time, aware UTC.
        rules: the rules of this bank.

    Raises:
        LocalProtocolError: `payment.decided`; `account.funds`, the account cannot spend as much; `account.unfit`, the customer has no
            such account, debtorAccount names another, or too many of its transfers are pending.
    """
    require_open(payment)
    order = payment.initiation
    chosen = next(_approving_accounts(db, order, customer, iban), None)
    if chosen is None:
        raise LocalProtocolError("account.unfit", "no such account may pay this payment")
    creditor, amount = order.creditor_account.iban, to_minor(order.instructed_amount.amount)
    instant = payment.product is PaymentProduct.INSTANT or _obstacle(db, order, rules) is None
    due_at = at + (rules.instant_execution if instant else rules.normal_execution)
    names = chosen[1].owner_name, creditor, order.creditor_name, order.remittance_information_unstructured
    start_transfer(db, Transfer(SOURCE, payment.payment_id, chosen[1].id, amount, *names, instant, at, due_at))
    progress = _moved(payment.progress, Trigger.APPROVED)
    return _store(db, payment, replace(progress, opened=True, active_at=at, approved_at=at))


def decline_payment(db: Connection, payment: StoredPayment, *, at: datetime) -> StoredPayment:
    """Decline a payment as the payer.

    Raises:
        LocalProtocolError: `payment.decided`.
    """
    require_open(payment)
    progress = _moved(payment.progress, Trigger.DECLINED)
    return _store(db, payment, replace(progress, opened=True, active_at=at))


def execute_payments(db: Connection, at: datetime, *, rules: BankRules) -> None:
    """Execute the due payments, each at its time.

    The instant rail is checked again: without it, a SEPA payment becomes a normal transfer, and an instant one fails.

    Source: section 4, product rules; assumption available-balance.
    """
    execute_due(db, SOURCE, at, partial(_execute, rules=rules))


def _execute(db: Connection, transfer: Transfer, *, rules: BankRules) -> None:
    payment = PAYMENTS.lock(db, transfer.order_id)
    if payment is None:
        raise LocalProtocolError("payment.unknown", f"the transfer {transfer.id} has no payment")
    on_rail = not transfer.instant or _obstacle(db, payment.initiation, rules) is None
    if not on_rail and payment.product is PaymentProduct.SEPA:
        delay_transfer(db, transfer, due_at=transfer.started_at + rules.normal_execution)
        return
    trigger = Trigger.EXECUTED
    if not on_rail or not book_transfer(db, transfer, at=transfer.due_at):
        drop_transfer(db, transfer)
        trigger = Trigger.FAILED
    _store(db, payment, _moved(payment.progress, trigger))


def _approving_accounts(
    db: Connection, order: PaymentInitiation, customer: str | None, iban: str | None
) -> Iterator[tuple[Customer, Account]]:
    debtor = None if order.debtor_account is None else order.debtor_account.iban
    for one in approving_accounts(db, iban or debtor, customer_id=customer, creditor_iban=order.creditor_account.iban):
        if debtor in (None, one[1].iban):
            yield one


def require_open(payment: StoredPayment) -> None:
    """Check that the customer can decide.

    Raises:
        LocalProtocolError: `payment.decided`.
    """
    if not is_open(payment):
        raise LocalProtocolError(
            "payment.decided", f"the payment is {reported_status(payment.progress.status)}, so it can no longer be decided"
        )  # fmt: skip


def _obstacle(db: Connection, order: PaymentInitiation, rules: BankRules) -> str | None:
    """Return why the instant rail cannot take a payment now, or None."""
    country = order.creditor_account.iban[:2]
    decided = is_reachable(db, country)
    reachable = country not in rules.instant_unreachable if decided is None else decided
    return instant_obstacle(order, cap=rules.instant_cap, unreachable=() if reachable else (country,))


def _of_provider(
    call: HostCall[Any], find: Callable[[Connection, str], StoredPayment | None] = PAYMENTS.find
) -> StoredPayment:
    """Return a provider's own payment in its current state; that of another provider is unknown (assumption unknown-payment)."""
    product, payment_id = _parse_product(call.parameters["product"]), call.parameters["payment_id"]
    payment = find(call.db, payment_id)
    if payment is None or payment.organization != call.caller or payment.product is not product:
        raise LocalProtocolError(
            "payment.unknown", f"there is no payment {shown(payment_id)} of this provider and product"
        )
    return up_to_date(payment, call.at, call.settings.rules)


def up_to_date(payment: StoredPayment, at: datetime, rules: BankRules) -> StoredPayment:
    """Return the payment in its state at a time. Its expiry is computed, its execution is stored by `execute_payments`."""
    trigger = due_trigger(payment.progress, now=at, inactivity=rules.inactivity)
    return payment if trigger is None else replace(payment, progress=_moved(payment.progress, trigger))


def _moved(progress: Progress, trigger: Trigger) -> Progress:
    return replace(progress, status=PAYMENT.move(progress.status, trigger), moved_by=trigger)


def _store(db: Connection, payment: StoredPayment, progress: Progress) -> StoredPayment:
    moved = replace(payment, progress=progress)
    PAYMENTS.set(db, moved)
    return moved


def _add_payment(call: HostCall[PaymentInitiation], product: PaymentProduct, address: str | None) -> StoredPayment:
    progress = Progress(PAYMENT.initial, call.at)
    while True:  # skip the ids of an earlier run with the same seed
        payment = StoredPayment(
            call.new_id(), call.caller, product, call.message.body, call.new_id(), address, progress,
            call.caller_name,
        )  # fmt: skip
        if PAYMENTS.add_new(call.db, payment):
            return payment


def _parse_product(text: str) -> PaymentProduct:
    try:
        return PaymentProduct(text)
    except ValueError as e:
        raise LocalProtocolError("product.unknown", f"{shown(text)} is not a payment product") from e
