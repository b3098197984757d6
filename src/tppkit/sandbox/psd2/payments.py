"""Payments as the bank answers for them: one function for each endpoint row, and what the payer does on the approval page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import Connection

from tppkit._encoding import shown
from tppkit.errors import LocalProtocolError
from tppkit.protocol.psd2 import (
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.protocol.psd2.endpoints import CANCEL_PAYMENT, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.models import ApprovalLinks, Href
from tppkit.protocol.psd2.payment import PAYMENT, Progress, Trigger, cancel, due_trigger, reported_status
from tppkit.protocol.psd2.rules import parse_redirect_uri, require_product
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.psd2.tables import StoredPayment, add_payment, find_payment, find_payment_by_link, set_progress

_TOKEN = re.compile("[A-Za-z0-9_-]{1,64}")  # PostgreSQL cannot be asked for every text


@dataclass(frozen=True, slots=True)
class PaymentRules:
    """What this bank has decided (each an assumption row).

    Attributes:
        inactivity: how long an unapproved payment waits.
        execution: how long execution takes.
        instant_cap: highest instant amount in EUR.
        instant_unreachable: IBAN countries without instant payments.
    """

    inactivity: timedelta = timedelta(seconds=300)
    execution: timedelta = timedelta(seconds=1)
    instant_cap: Decimal = Decimal("100000.00")
    instant_unreachable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Psd2Settings:
    """What the handlers need to know of this bank.

    Attributes:
        rules: its decisions.
        approval_url: address of the approval host, without a path.
    """

    rules: PaymentRules = field(default_factory=PaymentRules)
    approval_url: str = ""

    def approval_link(self, payment: StoredPayment) -> str:
        """The address of the page where the payer decides."""
        return f"{self.approval_url}/approve/{payment.link_token}"


def initiate_payment(call: HostCall[PaymentInitiation]) -> Answer[PaymentInitiated]:
    """POST /payments/{payment-product}."""
    product, settings = _parse_product(call.parameters["product"]), call.settings
    redirect_uri = call.header("tpp-redirect-uri")  # assumption uncovered-headers: the seal does not cover it
    if redirect_uri is not None:
        parse_redirect_uri(redirect_uri)
    rules = settings.rules
    require_product(call.body, product, cap=rules.instant_cap, unreachable=rules.instant_unreachable)
    payment = _add_payment(call, product, redirect_uri)
    place = {"product": product.value, "payment_id": payment.payment_id}
    links = ApprovalLinks(  # assumption scheme-links
        sca_redirect=Href(href=settings.approval_link(payment)),
        status=Href(href=PAYMENT_STATUS.target(**place)),
        self_=Href(href=PAYMENT_DETAILS.target(**place)),
    )
    answer = PaymentInitiated(
        transaction_status=payment.progress.status, payment_id=payment.payment_id, links=links
    )  # fmt: skip
    return Answer(answer, subject=payment.payment_id)


def payment_status(call: HostCall[None]) -> Answer[PaymentStatus]:
    """GET /payments/{payment-product}/{paymentId}/status."""
    return Answer(PaymentStatus(transaction_status=reported_status(_of_provider(call).progress.status)))


def payment_details(call: HostCall[None]) -> Answer[PaymentDetails]:
    """GET /payments/{payment-product}/{paymentId}: what was submitted, with its id and state."""
    payment = _of_provider(call)
    submitted = PaymentInitiation.from_wire(payment.body).to_object()
    state = {"paymentId": payment.payment_id, "transactionStatus": reported_status(payment.progress.status).value}
    return Answer(PaymentDetails.model_validate(submitted | state, strict=False))


def cancel_payment(call: HostCall[None]) -> Answer[PaymentStatus]:
    """DELETE /payments/{payment-product}/{paymentId}."""
    payment = _of_provider(call)
    set_progress(call.db, payment.payment_id, replace(payment.progress, status=cancel(payment.progress)))
    return Answer(PaymentStatus(transaction_status=TransactionStatus.CANC))


HANDLERS = (
    Handler(INITIATE_PAYMENT, initiate_payment),
    Handler(PAYMENT_STATUS, payment_status, writes=False),
    Handler(PAYMENT_DETAILS, payment_details, writes=False),
    Handler(CANCEL_PAYMENT, cancel_payment),
)


def look_at_payment(db: Connection, link_token: str, *, at: datetime, rules: PaymentRules) -> StoredPayment:
    """The payment of an approval link, as it is at a time.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = find_payment_by_link(db, link_token) if _TOKEN.fullmatch(link_token) else None
    if payment is None:
        raise LocalProtocolError("payment.unknown", "this approval link leads to no payment")
    return _up_to_date(payment, at, rules)


def open_payment(db: Connection, link_token: str, *, at: datetime, rules: PaymentRules) -> StoredPayment:
    """The payer opens or uses the approval page: the provider cannot cancel any more, and the inactivity window restarts.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = look_at_payment(db, link_token, at=at, rules=rules)
    if payment.progress.status in PAYMENT.final or payment.progress.approved_at:
        return payment
    return _store(db, payment, replace(payment.progress, opened=True, active_at=at))


def decide_payment(
    db: Connection, link_token: str, trigger: Trigger, *, at: datetime, rules: PaymentRules
) -> StoredPayment:
    """The payer approves or declines. A used link changes nothing.

    Raises:
        LocalProtocolError: `payment.unknown`.
    """
    payment = open_payment(db, link_token, at=at, rules=rules)
    before = payment.progress
    if (before.status, trigger) not in PAYMENT.moves:
        return payment
    approved_at = at if trigger is Trigger.APPROVED else None
    return _store(
        db, payment, replace(before, status=PAYMENT.move(before.status, trigger), approved_at=approved_at)
    )  # fmt: skip


def _of_provider(call: HostCall[None]) -> StoredPayment:
    """A provider's own payment, as it is now; another provider's is as unknown (assumption unknown-payment)."""
    product, payment_id = _parse_product(call.parameters["product"]), call.parameters["payment_id"]
    payment = find_payment(call.db, payment_id)
    if payment is None or payment.organization != call.caller or payment.product is not product:
        raise LocalProtocolError(
            "payment.unknown", f"there is no payment {shown(payment_id)} of this provider and product"
        )
    return _up_to_date(payment, call.at, call.settings.rules)


def _up_to_date(payment: StoredPayment, at: datetime, rules: PaymentRules) -> StoredPayment:
    # What time alone changes follows from what is stored, so nothing is written for it.
    trigger = due_trigger(payment.progress, now=at, inactivity=rules.inactivity, execution=rules.execution)
    if trigger is None:
        return payment
    return replace(
        payment, progress=replace(payment.progress, status=PAYMENT.move(payment.progress.status, trigger))
    )  # fmt: skip


def _store(db: Connection, payment: StoredPayment, progress: Progress) -> StoredPayment:
    set_progress(db, payment.payment_id, progress)
    return replace(payment, progress=progress)


def _add_payment(call: HostCall[PaymentInitiation], product: PaymentProduct, redirect_uri: str | None) -> StoredPayment:
    progress = Progress(PAYMENT.initial, call.at)
    while True:  # a seed makes the ids of an earlier run again, which are skipped
        payment = StoredPayment(
            call.new_id(), call.caller, product, call.message.body, call.new_id(), redirect_uri, progress
        )  # fmt: skip
        if add_payment(call.db, payment):
            return payment


def _parse_product(text: str) -> PaymentProduct:
    try:
        return PaymentProduct(text)
    except ValueError as e:
        raise LocalProtocolError("product.unknown", f"{shown(text)} is not a payment product") from e
