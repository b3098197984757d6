"""Texts of the app's pages: plain words for permissions, outcomes and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tppkit.errors import TppkitError
from tppkit.protocol.legacy import LoginPermission
from tppkit.sandbox.bank.customers import Customer
from tppkit.sandbox.legacy.tables import AIS, PIS

ACCESS: Mapping[str, str] = {
    AIS: "A provider asks to see the balance and the transactions of your account",
    PIS: "A provider asks to prepare payments from your account",
}
# The name of each permission, and the data that it sends.
PERMISSIONS: Mapping[LoginPermission, tuple[str, Callable[[Customer], str]]] = {
    LoginPermission.NAME: ("Name", lambda customer: customer.name),
    LoginPermission.PHONE: ("Phone number", lambda customer: customer.phone),
    LoginPermission.EMAIL: ("E-mail address", lambda customer: customer.email),
    LoginPermission.ADDRESS: ("Address", lambda customer: f"{customer.address}, {customer.city}, {customer.country}"),
    LoginPermission.ID: ("Person code", lambda customer: customer.person_code),
}
# Heading and text.
DONE: Mapping[str, tuple[str, str]] = {
    "access-granted": ("Access approved", "The provider can now use the account that you chose, for 90 days."),
    "access-declined": ("Access declined", "The provider gets nothing."),
    "payment-posted": ("Payment approved", "The bank is now making the payment."),
    "payment-executed": ("Payment made", "The money has been sent."),
    "payment-failed": ("Payment failed", "The bank could not make it. No money has been sent."),
    "payment-declined": ("Payment declined", "No money has been sent."),
    "login-confirmed": ("You are logged in", "Return to the page that showed you the code."),
    "login-declined": ("Login declined", "Nothing about you has been sent."),
    "login-dead": ("You cannot log in with this code", "Ask for a new one."),
}
# By the code of the error: status, heading and text.
_ERRORS: Mapping[str, tuple[int, str, str]] = {
    "account.funds": (409, "There is not enough money", "The account that pays cannot spend as much. Nothing has been approved."),
    "account.unfit": (409, "This account cannot be used", "Go back and choose another account. Nothing has been approved."),
    "account.unknown": (409, "The receiver is unknown", "The bank has no customer with this phone number. No money has been sent."),
    "order.currency": (409, "This currency cannot be paid", "An account of the payment does not hold it. No money has been sent."),
    "order.self": (409, "This account cannot pay itself", "Go back and choose another account. No money has been sent."),
    "form.elsewhere": (403, "Nothing has been approved", "The form was not sent by this page. Open the bank’s app again."),
    "message.too-large": (413, "Nothing has been approved", "The form is too large."),
    "database.unavailable": (503, "The bank cannot answer now", "Please try again in a moment."),
    "token.unknown": (404, "This request is not known", "Open the bank’s app again. Nothing has changed."),
    "login.expired": (409, "This login is over", "Five minutes have passed, and nothing about you has been sent. Scan a new code."),
    "login.unknown": (404, "This login is not known", "Scan the code again."),
}  # fmt: skip
_DECIDED = (409, "This has been decided before", "Nothing has changed.")
_UNREADABLE = (
    400,
    "This code cannot be read",
    "It is neither a right login code nor a right payment code. Nothing has been approved.",
)
OTHER_ERROR = (400, "This request cannot be processed", "Open the bank’s app again.")


def error_text(error: TppkitError) -> tuple[int, str, str]:
    """Return status, heading and text for an error."""
    if error.code.endswith(".decided"):
        return _DECIDED
    return _ERRORS.get(error.code) or (_UNREADABLE if error.code.startswith("qr.") else OTHER_ERROR)
