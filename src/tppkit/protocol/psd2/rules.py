"""Rules of the PSD2 interface that both sides use. Source: PSD2 document, part A."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.protocol.browser_addresses import browser_address_fault
from tppkit.protocol.psd2.accounts import parse_date
from tppkit.protocol.psd2.consent import CONSENT_DAYS
from tppkit.protocol.psd2.models import PaymentInitiation

PAGE_SIZE = 100  # booked entries of a page; assumption transactions-pages

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class BankRules:
    """The rules of a bank that the document leaves open; each is an assumption row.

    Attributes:
        inactivity: time without activity after which an undecided payment or consent expires.
        instant_execution: duration of an execution on the instant rail.
        normal_execution: duration of an execution as a normal transfer.
        instant_cap: highest instant amount in EUR.
        instant_unreachable: IBAN countries without instant payments; `POST /instant` overrides it.
        technical_validation: whether payments that the customer opens pass through ACTC.
        page_size: booked entries of a page.
        consent_days: the longest validity of a consent, in days.
        reads_per_day: the highest frequencyPerDay that the bank grants; None: what the consent asks for.

    Example:
        with Sandbox(rules=BankRules(instant_cap=Decimal("15000.00"), instant_unreachable=frozenset({"FR"}))) as bank:
            client = bank.client(roles=["PSP_PI"])
    """

    inactivity: timedelta = timedelta(seconds=300)
    instant_execution: timedelta = timedelta(seconds=10)
    normal_execution: timedelta = timedelta(hours=1)
    instant_cap: Decimal = Decimal("100000.00")
    instant_unreachable: frozenset[str] = frozenset()
    technical_validation: bool = False
    page_size: int = PAGE_SIZE
    consent_days: int = CONSENT_DAYS
    reads_per_day: int | None = None

    def granted_frequency(self, asked: int) -> int:
        """Return the frequencyPerDay of a consent that asks for a number of reads a day."""
        return asked if self.reads_per_day is None else min(asked, self.reads_per_day)


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
    why = None if text is None else browser_address_fault(text)
    if why is not None:
        raise FormatError("header.redirect-uri", f"the TPP-Redirect-URI is {why}")
    return text


def parse_psu_ip_address(text: str | None) -> str | None:
    """Return the PSU-IP-Address if it is an IPv4 or IPv6 address without zone (assumption psu-ip-address).

    Returns:
        The address; None if the header is absent.

    Raises:
        FormatError: `header.psu-ip-address`.
    """
    if text is None:
        return None
    try:
        ip_address("" if "%" in text else text)
    except ValueError:
        raise FormatError("header.psu-ip-address", f"the PSU-IP-Address {shown(text)} is not an IP address") from None
    return text


def is_attended(psu_ip_address: str | None) -> bool:
    """Whether a parsed PSU-IP-Address shows that the customer is present: it is neither unspecified nor loopback."""
    address = ip_address(psu_ip_address or "::")
    address = getattr(address, "ipv4_mapped", None) or address
    return not (address.is_unspecified or address.is_loopback)


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
    """Return why this payment cannot be instant, or None (assumption instant-cap). Ask at initiation, and again at execution.

    Args:
        payment: the payment.
        cap: highest instant amount in EUR.
        unreachable: two-letter IBAN countries without instant payments.

    Source: section 4, product rules.
    """
    if Decimal(payment.instructed_amount.amount) > cap:
        return f"the amount is above the instant cap of {cap} EUR"
    if payment.creditor_account.iban[:2] in unreachable:
        return "the beneficiary's bank cannot be reached for instant payments"
    return None
