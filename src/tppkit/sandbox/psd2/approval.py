"""The payment or consent of an approval link: the customer's actions, and the outcome."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from sqlalchemy import Connection

from tppkit.errors import LocalProtocolError
from tppkit.protocol.psd2 import BankRules
from tppkit.protocol.psd2.consent import ConsentTrigger
from tppkit.protocol.psd2.payment import Trigger, reported_status
from tppkit.sandbox.bank.customers import Account, Customer
from tppkit.sandbox.cell import Section
from tppkit.sandbox.html import grouped, shown_time
from tppkit.sandbox.psd2.consent_tables import StoredConsent, newest_consents
from tppkit.sandbox.psd2.consents import (
    approve_consent,
    consent_choices,
    decline_consent,
    is_undecided,
    lock_linked_consent,
    open_consent,
)
from tppkit.sandbox.psd2.consents import up_to_date as consent_up_to_date
from tppkit.sandbox.psd2.payments import (
    approve_payment,
    choices,
    decline_payment,
    is_open,
    lock_linked_payment,
    open_payment,
    up_to_date,
)
from tppkit.sandbox.psd2.tables import StoredPayment, newest_payments

_SHOWN = 50
Order: TypeAlias = StoredPayment | StoredConsent


class Outcome(StrEnum):
    """The outcome of a payment or a consent."""

    APPROVED = "approved"
    EXECUTED = "executed"
    DECLINED = "declined"
    CANCELLED = "cancelled"  # by the provider, before the customer decided
    EXPIRED = "expired"  # before the customer decided
    FAILED = "failed"
    ENDED = "ended"  # a consent whose last day has passed
    REVOKED = "revoked"  # a consent that was valid


DECISIONS = frozenset({Outcome.APPROVED, Outcome.EXECUTED, Outcome.FAILED, Outcome.DECLINED})
_OF_PAYMENT = {
    Trigger.APPROVED: Outcome.APPROVED,
    Trigger.EXECUTED: Outcome.EXECUTED,
    Trigger.DECLINED: Outcome.DECLINED,
    Trigger.CANCELLED: Outcome.CANCELLED,
    Trigger.EXPIRED: Outcome.EXPIRED,
    Trigger.FAILED: Outcome.FAILED,
}
_OF_CONSENT = {  # by the latest move, and whether the customer has chosen an account before it
    (ConsentTrigger.APPROVED, True): Outcome.APPROVED,
    (ConsentTrigger.DECLINED, False): Outcome.DECLINED,
    (ConsentTrigger.REVOKED, False): Outcome.CANCELLED,
    (ConsentTrigger.EXPIRED, False): Outcome.EXPIRED,
    (ConsentTrigger.EXPIRED, True): Outcome.ENDED,
    (ConsentTrigger.REVOKED, True): Outcome.REVOKED,
    (ConsentTrigger.TERMINATED, False): Outcome.CANCELLED,
    (ConsentTrigger.TERMINATED, True): Outcome.REVOKED,
}


def order_sections(db: Connection, at: datetime, *, rules: BankRules) -> tuple[Section, ...]:
    """Return the latest payments and consents for the index page, without approval links, because a link's holder can decide."""
    payments = [up_to_date(one, at, rules) for one in newest_payments(db, _SHOWN)]
    consents = [consent_up_to_date(one, at, rules) for one in newest_consents(db, _SHOWN)]
    return (
        Section(
            "Payments", ("Payment", "State", "Amount", "To", "Requested by", "Last active"),
            [(one.payment_id, _state(one), *_paid(one), _provider(one), shown_time(one.progress.active_at)) for one in payments],
        ),
        Section(
            "Consents", ("Consent", "State", "Account", "Until", "Requested by", "Last active"),
            [
                (one.consent_id, _state(one), grouped(one.iban or ""), one.progress.valid_until.isoformat(), _provider(one),
                 shown_time(one.progress.active_at))
                for one in consents
            ],
        ),
    )  # fmt: skip


def lock_order(db: Connection, link_token: str, *, at: datetime, rules: BankRules) -> Order:
    """Return the payment or consent of an approval link in its state at a time, locked for a change.

    Raises:
        LocalProtocolError: `consent.unknown`, the link is unknown.
    """
    try:
        return lock_linked_payment(db, link_token, at=at, rules=rules)
    except LocalProtocolError as e:
        if e.code != "payment.unknown":
            raise
    return lock_linked_consent(db, link_token, at=at, rules=rules)


def outcome_of(order: Order) -> Outcome | None:
    """Return the outcome; None while the customer can decide."""
    if isinstance(order, StoredConsent):
        last = order.progress.moved_by
        return None if is_undecided(order) or last is None else _OF_CONSENT[last, order.iban is not None]
    latest = order.progress.moved_by
    return None if is_open(order) or latest is None else _OF_PAYMENT[latest]


def open_order(db: Connection, order: Order, *, at: datetime, rules: BankRules) -> Order:
    """Record that the customer opens or uses the page; a decided order does not change."""
    if isinstance(order, StoredConsent):
        return open_consent(db, order, at=at)
    return open_payment(db, order, at=at, rules=rules)


def choices_of(db: Connection, order: Order) -> tuple[tuple[Customer, Account], ...]:
    """Return each customer with each account that the customer may approve with."""
    return consent_choices(db, order) if isinstance(order, StoredConsent) else choices(db, order)


def approve_order(
    db: Connection, order: Order, customer: str | None, iban: str | None, *, at: datetime, rules: BankRules
) -> Order:
    """Approve as a customer with an account; None: the first possible one.

    Raises:
        LocalProtocolError: `payment.decided`, `consent.decided`, `account.unfit`.
    """
    if isinstance(order, StoredConsent):
        return approve_consent(db, order, customer, iban, at=at)
    return approve_payment(db, order, customer, iban, at=at, rules=rules)


def decline_order(db: Connection, order: Order, *, at: datetime) -> Order:
    """Decline as the customer.

    Raises:
        LocalProtocolError: `payment.decided`, `consent.decided`.
    """
    return decline_consent(db, order, at=at) if isinstance(order, StoredConsent) else decline_payment(db, order, at=at)


def _state(order: Order) -> str:
    status = reported_status(order.progress.status) if isinstance(order, StoredPayment) else order.progress.status
    return f"{status}, {outcome_of(order) or 'waits'}"


def _paid(payment: StoredPayment) -> tuple[str, str]:
    submitted = payment.initiation
    amount = submitted.instructed_amount
    return (
        f"{amount.amount} {amount.currency}",
        f"{submitted.creditor_name}, {grouped(submitted.creditor_account.iban)}",
    )


def _provider(order: Order) -> str:
    return f"{order.provider_name or ''} {order.organization}".strip()
