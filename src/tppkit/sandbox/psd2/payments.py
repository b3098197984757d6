"""Payments of the PSD2 interface as the bank answers them: one function an endpoint row, and what the payer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

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
from tppkit.protocol.psd2.endpoints import IDEMPOTENCY_WINDOW, INITIATE_PAYMENT, PAYMENT_DETAILS, PAYMENT_STATUS
from tppkit.protocol.psd2.models import Href, PaymentLinks
from tppkit.protocol.psd2.payment import PAYMENT, Progress, Trigger, cancel, due_trigger, reported_status
from tppkit.protocol.psd2.rules import request_fingerprint, require_product, same_request
from tppkit.sandbox.store import StoredPayment, Transaction, UsedRequestId
from tppkit.seals import Message


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
class Answer:
    """What an endpoint answers.

    Attributes:
        status: HTTP status.
        body: JSON.
        payment_id: the payment it concerns.
    """

    status: int
    body: bytes
    payment_id: str


class Payments:
    """The bank's payments.

    Args:
        rules: what this bank has decided.
        approval_url: address of the approval host, without a path.
        new_token: makes unguessable ids.
    """

    def __init__(self, rules: PaymentRules, *, approval_url: str, new_token: Callable[[], str]) -> None:
        self.rules = rules
        self.approval_url = approval_url
        self._new_token = new_token

    def initiate(
        self,
        message: Message,
        product: PaymentProduct,
        *,
        request_id: str,
        organization: str,
        redirect_uri: str | None,
        now: datetime,
        tx: Transaction,
    ) -> Answer:
        """POST /payments/{payment-product}: a new payment, or the replay of the answer to the same request.

        Args:
            message: the request; its body is proven by its seal, and method and target where the dialect covers them.
            product: the payment product of its path.
            request_id: its id.
            organization: organizationIdentifier of the provider.
            redirect_uri: where the payer's browser returns.
            now: the virtual present.
            tx: the transaction.

        Raises:
            FormatError: `json.*`, `model.invalid`.
            LocalProtocolError: `request-id.reuse`, `product.invalid`.
        """
        fingerprint = request_fingerprint(message.method, message.target, message.body)
        used = tx.used_request_id(organization, request_id)
        if used and same_request(fingerprint=fingerprint, first=used.fingerprint, first_at=used.first_at, now=now):
            return Answer(used.http_status, used.answer, used.payment_id)
        model = PaymentInitiation.from_wire(message.body)
        require_product(model, product, cap=self.rules.instant_cap, unreachable=self.rules.instant_unreachable)
        payment_id, link_token = self._new_ids(tx)
        payment = StoredPayment(
            payment_id,
            organization,
            product,
            message.body,
            link_token,
            redirect_uri,
            Progress(PAYMENT.initial, now),
        )
        tx.add_payment(payment)
        answer = Answer(INITIATE_PAYMENT.success, self._initiated(payment).to_wire(), payment.payment_id)
        first_use = UsedRequestId(fingerprint, now, answer.status, answer.body, payment.payment_id)
        tx.remember_request_id(organization, request_id, first_use, forget_before=now - IDEMPOTENCY_WINDOW)
        return answer

    def _new_ids(self, tx: Transaction) -> tuple[str, str]:
        """Payment id and link token; a seed makes those of an earlier run again, which are passed over."""
        while True:
            payment_id, link_token = self._new_token(), self._new_token()
            if tx.payment(payment_id) is None:
                return payment_id, link_token

    def approval_link(self, payment: StoredPayment) -> str:
        """The address of the page where the payer decides."""
        return f"{self.approval_url}/approve/{payment.link_token}"

    def _initiated(self, payment: StoredPayment) -> PaymentInitiated:
        # Assumption scheme-links.
        place = {"product": payment.product.value, "payment_id": payment.payment_id}
        links = PaymentLinks(
            sca_redirect=Href(href=self.approval_link(payment)),
            status=Href(href=PAYMENT_STATUS.target(**place)),
            self_=Href(href=PAYMENT_DETAILS.target(**place)),
        )
        return PaymentInitiated(transaction_status=payment.progress.status, payment_id=payment.payment_id, links=links)

    def status(self, payment: StoredPayment) -> Answer:
        """GET …/status."""
        status = PaymentStatus(transaction_status=reported_status(payment.progress.status))
        return Answer(200, status.to_wire(), payment.payment_id)

    def details(self, payment: StoredPayment) -> Answer:
        """GET …/{paymentId}: what was submitted, with its id and state."""
        submitted = PaymentInitiation.from_wire(payment.body).to_object()
        state = {"paymentId": payment.payment_id, "transactionStatus": reported_status(payment.progress.status).value}
        return Answer(200, PaymentDetails.model_validate(submitted | state, strict=False).to_wire(), payment.payment_id)

    def cancel(self, payment: StoredPayment, *, tx: Transaction) -> Answer:
        """DELETE …/{paymentId}.

        Raises:
            LocalProtocolError: `payment.not-cancellable`.
        """
        cancelled = replace(payment.progress, status=cancel(payment.progress))
        tx.set_progress(payment.payment_id, cancelled)
        return Answer(200, PaymentStatus(transaction_status=TransactionStatus.CANC).to_wire(), payment.payment_id)

    def of_provider(
        self, organization: str, product: PaymentProduct, payment_id: str, *, now: datetime, tx: Transaction
    ) -> StoredPayment:
        """A provider's own payment, as it is now.

        Raises:
            LocalProtocolError: `payment.unknown`, also for another provider's (assumption unknown-payment).
        """
        payment = tx.payment(payment_id)
        if payment is None or payment.organization != organization or payment.product is not product:
            raise LocalProtocolError(
                "payment.unknown", f"there is no payment {shown(payment_id)} of this provider and product"
            )
        return self._up_to_date(payment, now, tx)

    def by_link(self, link_token: str, *, now: datetime, tx: Transaction) -> StoredPayment:
        """The payment of an approval link, as it is now.

        Raises:
            LocalProtocolError: `payment.unknown`.
        """
        payment = tx.payment_by_link(link_token)
        if payment is None:
            raise LocalProtocolError("payment.unknown", "this approval link leads to no payment")
        return self._up_to_date(payment, now, tx)

    def open(self, link_token: str, *, now: datetime, tx: Transaction) -> StoredPayment:
        """The payer opens or uses the approval page: the provider cannot cancel any more, and the inactivity window restarts.

        Raises:
            LocalProtocolError: `payment.unknown`.
        """
        payment = self.by_link(link_token, now=now, tx=tx)
        if payment.progress.status in PAYMENT.final or payment.progress.approved_at:
            return payment
        return self._store(payment, replace(payment.progress, opened=True, active_at=now), tx)

    def decide(self, link_token: str, trigger: Trigger, *, now: datetime, tx: Transaction) -> StoredPayment:
        """The payer approves or declines. This renews the window as `open` does; a used link changes nothing.

        Raises:
            LocalProtocolError: `payment.unknown`.
        """
        payment = self.open(link_token, now=now, tx=tx)
        before = payment.progress
        if (before.status, trigger) not in PAYMENT.moves:
            return payment
        approved_at = now if trigger is Trigger.APPROVED else None
        return self._store(
            payment,
            replace(before, status=PAYMENT.move(before.status, trigger), approved_at=approved_at),
            tx,
        )

    def _up_to_date(self, payment: StoredPayment, now: datetime, tx: Transaction) -> StoredPayment:
        trigger = due_trigger(
            payment.progress, now=now, inactivity=self.rules.inactivity, execution=self.rules.execution
        )
        if trigger is None:
            return payment
        return self._store(
            payment, replace(payment.progress, status=PAYMENT.move(payment.progress.status, trigger)), tx
        )

    def _store(self, payment: StoredPayment, progress: Progress, tx: Transaction) -> StoredPayment:
        tx.set_progress(payment.payment_id, progress)
        return replace(payment, progress=progress)


def parse_product(text: str) -> PaymentProduct:
    """The payment product of a path.

    Raises:
        LocalProtocolError: `product.unknown`.
    """
    try:
        return PaymentProduct(text)
    except ValueError as e:
        raise LocalProtocolError("product.unknown", f"{shown(text)} is not a payment product") from e
