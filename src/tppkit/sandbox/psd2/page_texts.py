"""Texts of the approval pages: plain words for every state, error, product and permission."""

from __future__ import annotations

from collections.abc import Mapping

from tppkit.protocol.psd2 import PaymentProduct
from tppkit.protocol.psd2.accounts import Access
from tppkit.sandbox.psd2.approval import Outcome
from tppkit.sandbox.psd2.consent_tables import StoredConsent
from tppkit.sandbox.psd2.tables import StoredPayment

PRODUCTS: Mapping[PaymentProduct, str] = {
    PaymentProduct.SEPA: "Bank transfer",
    PaymentProduct.INSTANT: "Instant transfer",
}
QUESTIONS: Mapping[type, str] = {StoredPayment: "Approve this payment?", StoredConsent: "Share your account data?"}
# Heading and text.
OUTCOMES: Mapping[tuple[type, Outcome], tuple[str, str]] = {
    (StoredPayment, Outcome.APPROVED): ("Payment approved", "The bank is now making the payment."),
    (StoredPayment, Outcome.EXECUTED): ("Payment made", "The money has been sent."),
    (StoredPayment, Outcome.DECLINED): ("Payment declined", "You declined this payment. No money has been sent."),
    (StoredPayment, Outcome.CANCELLED): (
        "Payment cancelled", "The provider cancelled this payment before it was approved. No money has been sent.",
    ),
    (StoredPayment, Outcome.EXPIRED): (
        "The time to approve is over", "This payment was not approved in time. No money has been sent.",
    ),
    (StoredPayment, Outcome.FAILED): (
        "Payment failed",
        "You approved this payment, but there was not enough money, or the payee could not be reached. No money has been sent.",
    ),
    (StoredConsent, Outcome.APPROVED): ("Access approved", "The provider can now see the data of the account that you chose."),
    (StoredConsent, Outcome.DECLINED): ("Access declined", "You declined this request. No data has been shared."),
    (StoredConsent, Outcome.CANCELLED): (
        "Request cancelled", "The provider cancelled this request before it was approved. No data has been shared.",
    ),
    (StoredConsent, Outcome.EXPIRED): (
        "The time to approve is over", "This request was not approved in time. No data has been shared.",
    ),
    (StoredConsent, Outcome.ENDED): ("Access has ended", "Its last day has passed. The provider can no longer see your data."),
    (StoredConsent, Outcome.REVOKED): ("Access withdrawn", "The provider can no longer see your data."),
}  # fmt: skip
GOOD = frozenset({Outcome.APPROVED, Outcome.EXECUTED})
# Choices that the form can correct, by the code of the error.
CORRECTABLE: Mapping[str, str] = {
    "account.funds": "There is not enough money in this account.",
    "account.unfit": "This account cannot be used.",
    "form.incomplete": "Choose who you are, and an account.",
}
# By the code of the error: status, heading and text.
ERRORS: Mapping[str, tuple[int, str, str]] = {
    "consent.unknown": (404, "This link leads to no payment", "It leads to no request for account data either."),
    "model.invalid": (400, "Nothing has been approved", "The form is not as this page made it. Open your link again."),
    "form.elsewhere": (403, "Nothing has been approved", "The form was not sent by this page. Open your link again."),
    "message.too-large": (413, "Nothing has been approved", "The form is too large. Open your link again."),
    "database.unavailable": (503, "The bank cannot answer now", "Please try again in a moment."),
}
OTHER_ERROR = (400, "This request cannot be processed", "Open your link again to see whether it was decided.")


def permissions(access: Access) -> tuple[str, ...]:
    """Return the data that a consent lets the provider see, as texts."""
    rows = (
        (True, "The account’s number, name and owner"),
        (access.grants_balances, "Its balances"),
        (access.grants_transactions, "Its transactions"),
    )
    return tuple(text for granted, text in rows if granted)
