"""Rules of the PSD2 interface that both sides use. Source: PSD2 document, part A."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from tppkit._encoding import shown
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2.accounts import parse_date
from tppkit.protocol.psd2.models import PaymentInitiation, PaymentProduct

MAX_REDIRECT_URI = 2048
PAGE_SIZE = 100  # booked entries of a page; assumption transactions-pages

# The authority must end after host and port: a user name before "@" could look like a host.
_HTTP = re.compile(r"http://(?:\[([0-9a-f:]+)\]|([0-9a-z.]+))(?::[0-9]{1,5})?(?:[/?#]|$)", re.IGNORECASE)
_HTTPS = re.compile(r"https://[^/?#@\\]+(?:[/?#]|$)", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):[^:]", re.IGNORECASE)
# Assumption redirect-uri. Browsers handle these schemes themselves, or they do not open an application of the provider.
_NO_APPLICATION = frozenset(
    {
        "about", "android-app", "blob", "chrome", "chrome-untrusted", "data", "feed", "file", "filesystem", "ftp", "hcp", "http", "https",
        "intent", "jar", "javascript", "ldap", "livescript", "mailto", "mhtml", "res", "resource", "search", "shell", "smb", "sms", "ssh",
        "tel", "telnet", "vbscript", "view-source", "ws", "wss",
    }
)  # fmt: skip
# Windows and its search; extensions of browsers; drive letters.
_SYSTEM = re.compile(r"(?:ms|search)-.*|.*-extension|[a-z]")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def parse_request_id(text: str | None) -> str:
    """Return the X-Request-ID if it is a UUID (assumption request-id-form).

    Raises:
        FormatError: `request-id.missing`, `request-id.malformed`.

    Source: section 2, X-Request-ID is required on every request.
    """
    if text is None:
        raise FormatError("request-id.missing", "the X-Request-ID header is absent")
    if not _UUID.fullmatch(text):
        raise FormatError("request-id.malformed", f"the X-Request-ID {shown(text)} is not a UUID")
    return text


def parse_redirect_uri(text: str | None) -> str | None:
    """Return the TPP-Redirect-URI if a browser can be sent to it: at most 2048 characters of printable ASCII without a space.

    Accepts https, http on loopback, and schemes of applications such as `com.example.app:/done` (assumption redirect-uri). A seal need
    not cover it (assumption uncovered-headers).

    Returns:
        The address; None if the header is absent.

    Raises:
        FormatError: `header.redirect-uri`.
    """
    if text is None:
        return None
    usable = _HTTPS.match(text) or _is_loopback_http(text) or _is_of_application(text)
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if len(text) > MAX_REDIRECT_URI or not usable or not is_plain or not _has_authority_form(text):
        raise FormatError(
            "header.redirect-uri",
            "the TPP-Redirect-URI is not an https address, an application's own scheme or http on loopback, "
            "of at most 2048 characters",
        )
    return text


def _is_of_application(text: str) -> bool:
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    return bool(scheme) and scheme not in _NO_APPLICATION and not _SYSTEM.fullmatch(scheme)


def _has_authority_form(text: str) -> bool:
    """Whether the address has no invalid brackets and no invalid port, so that URL parsers can read it."""
    try:
        return urlsplit(text).port != 0  # reading it also checks it
    except ValueError:
        return False


def _is_loopback_http(text: str) -> bool:
    """Whether the address is on the payer's own machine, where a development server has no certificate."""
    match = _HTTP.match(text)
    host = (match[1] or match[2]).lower() if match else ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_psu_ip_address(text: str | None) -> str | None:
    """Return the PSU-IP-Address if it is an IPv4 or IPv6 address without zone (assumption psu-ip-address).

    Returns:
        The address; None if the header is absent, which means that the customer is absent.

    Raises:
        FormatError: `header.psu-ip-address`.
    """
    if text is None:
        return None
    try:
        usable = "%" not in text and bool(ip_address(text))
    except ValueError:
        usable = False
    if not usable:
        raise FormatError("header.psu-ip-address", f"the PSU-IP-Address {shown(text)} is not an IP address")
    return text


def parse_consent_id(text: str | None) -> str:
    """Return the Consent-ID of an account-data call.

    Raises:
        FormatError: `header.consent-id`, it is absent or empty (assumption consent-codes).
    """
    if not text:
        raise FormatError("header.consent-id", "the Consent-ID header is absent")
    return text


class BookingStatus(StrEnum):
    """`bookingStatus` of the transactions query."""

    BOOKED = "booked"
    PENDING = "pending"
    BOTH = "both"


class TransactionQuery(NamedTuple):
    """A query for transactions.

    Attributes:
        first_day: first booking date of the window.
        last_day: last booking date of the window, at most today; before the first day for an empty window.
        booking_status: whether booked or pending entries, or both.
        after: the transactionId that the page follows, or None for the first page.
    """

    first_day: date
    last_day: date
    booking_status: BookingStatus
    after: str | None


def parse_transaction_query(query: Mapping[str, str], *, today: date) -> TransactionQuery:
    """Read `dateFrom`, `dateTo`, `bookingStatus` and `after` (assumption transactions-window).

    Args:
        query: the parameters, decoded.
        today: the present day in the bank's zone.

    Raises:
        FormatError: `query.missing`, `query.value`.

    Source: section 4, transactions query.
    """
    if "dateFrom" not in query:
        raise FormatError("query.missing", "the transactions query needs dateFrom")
    first_day = _parse_day(query, "dateFrom")
    last_day = _parse_day(query, "dateTo") if "dateTo" in query else None
    if last_day is not None and last_day < first_day:
        raise FormatError("query.value", f"dateTo {last_day} is before dateFrom {first_day}")
    status = query.get("bookingStatus", BookingStatus.BOOKED)
    if status not in tuple(BookingStatus):
        raise FormatError("query.value", f"bookingStatus {shown(status)} is not {', '.join(BookingStatus)}")
    return TransactionQuery(first_day, min(last_day or today, today), BookingStatus(status), query.get("after"))


def parse_with_balance(query: Mapping[str, str]) -> bool:
    """Read `withBalance`: `true` or `false`; absent is false.

    Raises:
        FormatError: `query.value`.
    """
    text = query.get("withBalance", "false")
    if text not in ("true", "false"):
        raise FormatError("query.value", f"withBalance {shown(text)} is not true or false")
    return text == "true"


def _parse_day(query: Mapping[str, str], name: str) -> date:
    try:
        return parse_date(query[name])
    except ValueError:
        raise FormatError("query.value", f"{name} {shown(query[name])} is not a date as yyyy-mm-dd") from None


def instant_obstacle(payment: PaymentInitiation, *, cap: Decimal, unreachable: Collection[str]) -> str | None:
    """Return why this payment cannot be instant, or None (assumption instant-cap).

    Args:
        payment: the payment.
        cap: highest instant amount in EUR.
        unreachable: two-letter IBAN countries without instant payments.
    """
    if Decimal(payment.instructed_amount.amount) > cap:
        return f"the amount is above the instant cap of {cap} EUR"
    if payment.creditor_account.iban[:2] in unreachable:
        return "the beneficiary's bank cannot be reached for instant payments"
    return None


def require_product(
    payment: PaymentInitiation, product: PaymentProduct, *, cap: Decimal, unreachable: Collection[str]
) -> None:
    """Check at initiation that the product allows this payment. At execution, call `instant_obstacle` again.

    Args:
        payment: the payment.
        product: the requested product.
        cap: highest instant amount in EUR.
        unreachable: two-letter IBAN countries without instant payments.

    Raises:
        LocalProtocolError: `product.invalid`.

    Source: section 4, product rules.
    """
    obstacle = instant_obstacle(payment, cap=cap, unreachable=unreachable)
    if product is PaymentProduct.INSTANT and obstacle is not None:
        raise LocalProtocolError("product.invalid", obstacle)
