"""Texts of the hosted pages: plain words for methods, results, declined attempts and errors."""

from __future__ import annotations

from collections.abc import Mapping

from tppkit.protocol.gateway.orders import CREDIT_CARD
from tppkit.sandbox.gateway.page_state import Result
from tppkit.sandbox.gateway.tables import StoredTransaction

# Heading and text.
RESULTS: Mapping[Result, tuple[str, str]] = {
    Result.PAID: ("Payment successful", "Thank you. The payment was accepted."),
    Result.FAILED: ("Payment failed", "No money has been taken."),
    Result.CANCELLED: ("Payment cancelled", "You cancelled this payment. No money has been taken."),
    Result.EXPIRED: ("The time to pay is over", "This payment was not made in time. No money has been taken."),
    Result.UNCLEAR: (
        "Payment received, another is open", "One payment was accepted while another was not finished. The shop looks at both.",
    ),
}  # fmt: skip
# The same for an order without an amount, which only checks a card.
CHECK_RESULTS: Mapping[Result, tuple[str, str]] = {
    **RESULTS,
    Result.PAID: ("Card checked", "Thank you. The card was accepted, and no money has been taken."),
    Result.FAILED: ("Card not accepted", "The card could not be checked. No money has been taken."),
}
_METHODS = {CREDIT_CARD: "Card", "bank-transfer": "Bank transfer"}
# By the response code of a declined attempt.
_REASONS: Mapping[str, str] = {
    "1A": "You did not confirm it with your bank.",
    "51": "There is not enough money on the card.",
    "54": "The card has expired.",
    "61": "The amount is above the limit of the card.",
    "68": "The time to pay was over.",
    "96": "The bank could not answer.",
    "N7": "The security code is wrong.",
}
# By the code of the error: status, heading and text.
ERRORS: Mapping[str, tuple[int, str, str]] = {
    "order.unknown": (404, "This link leads to no payment", "Check that the address is complete."),
    "order.too-many": (409, "There were too many attempts", "No further attempt is possible. Ask the shop for another link."),
    "machine.no-such-move": (409, "This payment has changed", "Open your link again to see its result."),
    "form.elsewhere": (403, "Nothing has been paid", "The form was not sent by this page. Open your link again."),
    "message.too-large": (413, "Nothing has been paid", "The form is too large. Open your link again."),
    "database.unavailable": (503, "The payment cannot be made now", "Please try again in a moment."),
}  # fmt: skip
OTHER_ERROR = (400, "This request cannot be processed", "Open your link again.")


def method_name(method: str) -> str:
    """Return the name of a payment method for customers."""
    return _METHODS.get(method) or method.replace("-", " ").capitalize()


def declined_reason(transaction: StoredTransaction) -> str:
    """Return why an attempt was declined."""
    outcomes = transaction.shown.outcomes
    code = outcomes.processing.response_code if outcomes and outcomes.processing else None
    return _REASONS.get(code or "", "The bank did not accept it.")
