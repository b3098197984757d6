"""How often a consent may still be read today without its customer, and how long it lasts.

A bank limits the reads without PSU-IP-Address to the consent's frequencyPerDay, on its own day. It counts successful calls; the pages of
one list count once (assumption unattended-reads). Other banks count for each account and endpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from tppkit._clock import utc_now
from tppkit.errors import LocalProtocolError, RequestRefused
from tppkit.protocol.psd2 import Consent
from tppkit.protocol.psd2.consent import ConsentStatus
from tppkit.protocol.psd2.rules import is_attended, parse_psu_ip_address

BANK_ZONE = ZoneInfo("Europe/Vilnius")  # assumption bank-zone
RENEWAL = timedelta(days=14)
_ENDED = (ConsentStatus.EXPIRED, ConsentStatus.REVOKED)

Count = Callable[[str, date, int], int]
"""Adds a number to the count of a name on a day, in one step, and returns the sum: 0 if nothing was counted yet."""


class CountedBy(StrEnum):
    """What a bank counts: all reads of a consent together, or those of each account and endpoint."""

    CONSENT = "consent"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class ConsentUse:
    """What can still be done with a consent.

    Attributes:
        reads_left: the reads without the customer that are left on the bank's day.
        days_left: the days that are left, today included; 0 if it has ended.
        renew_from: the day from which it should be renewed, because the customer must approve a new one.
        needs_customer: whether the next read must have PSU-IP-Address of the customer who is present.
        is_renewal_due: whether it should be renewed.
    """

    reads_left: int
    days_left: int
    renew_from: date
    needs_customer: bool
    is_renewal_due: bool


class ConsentKeeper:
    """Counts the reads of consents, and stops those that the bank would refuse. Can be used by several threads.

    Args:
        count: keeps the counts, for example in a database that several processes share; by default in memory. An old day is not
            asked for again.
        counted_by: what the bank counts.
        zone: the time zone of the bank's days.
        renewal: how long before its end a consent should be renewed.
        now: the present time, aware.

    Example:
        keeper.add(consent_id, client.consent(consent_id))
        with keeper.read(consent_id, account=account, endpoint="balances"):
            report = client.balances(consent_id, account)
    """

    def __init__(
        self, *, count: Count | None = None, counted_by: CountedBy = CountedBy.CONSENT, zone: ZoneInfo = BANK_ZONE,
        renewal: timedelta = RENEWAL, now: Callable[[], datetime] = utc_now,
    ) -> None:  # fmt: skip
        self._count = count or _Memory()
        self._counted_by, self._zone, self._renewal, self._now = counted_by, zone, renewal, now
        self._consents: dict[str, Consent] = {}

    def add(self, consent_id: str, consent: Consent) -> None:
        """Add a consent, or what the bank now says about it: it may have ended, or have another validUntil than the request."""
        self._consents[consent_id] = consent

    def remove(self, consent_id: str) -> None:
        """Forget a consent; one that is unknown is ignored."""
        self._consents.pop(consent_id, None)

    def use(self, consent_id: str, *, account: str = "", endpoint: str = "") -> ConsentUse:
        """Return what can still be done with a consent.

        Args:
            consent_id: the consent.
            account: the account's resourceId; counts with `CountedBy.ENDPOINT` only.
            endpoint: `accounts`, `balances` or `transactions`; counts with `CountedBy.ENDPOINT` only.

        Raises:
            LocalProtocolError: `consent.unknown`, it was not added.
        """
        consent, today = self._find(consent_id), self._today()
        renew_from = consent.valid_until - self._renewal
        if consent.status in _ENDED or today > consent.valid_until:
            return ConsentUse(0, 0, min(today, renew_from), needs_customer=True, is_renewal_due=True)
        done = self._count(self._name(consent_id, account, endpoint), today, 0)
        reads_left = max(0, consent.frequency_per_day - done)
        days_left = (consent.valid_until - today).days + 1
        return ConsentUse(reads_left, days_left, renew_from, reads_left == 0, today >= renew_from)

    @contextmanager
    def read(
        self, consent_id: str, *, account: str = "", endpoint: str = "", psu_ip_address: str | None = None
    ) -> Iterator[None]:
        """Count a read that is made inside the `with` statement; all pages of one list are one read.

        A read is not counted if the customer is present or the bank refuses it. After another error it stays counted, because the
        bank may have counted it. If the bank answers 429 ACCESS_EXCEEDED, no read is left on this day.

        Args:
            consent_id: the consent.
            account: as of `use`.
            endpoint: as of `use`.
            psu_ip_address: the customer's IP address, as given to the client; one that is no address of a customer, such as
                127.0.0.1, counts as absent.

        Raises:
            LocalProtocolError: `consent.unknown`, it was not added; `consent.expired`, its last day has passed or the bank said that
                it expired; `consent.invalid`, the bank said that it was revoked; `access.exceeded`, the customer must be present. The
                `with` statement's body is not run.
            FormatError: `header.psu-ip-address`.
        """
        consent, today, name = self._find(consent_id), self._today(), self._name(consent_id, account, endpoint)
        if consent.status == ConsentStatus.REVOKED:
            raise LocalProtocolError("consent.invalid", "the consent was revoked; the customer must approve a new one")
        if consent.status == ConsentStatus.EXPIRED or today > consent.valid_until:
            raise LocalProtocolError("consent.expired", "the consent has ended; the customer must approve a new one")
        counted = 0 if is_attended(parse_psu_ip_address(psu_ip_address)) else 1
        most = consent.frequency_per_day
        if counted and self._count(name, today, 1) > most:
            self._count(name, today, -1)
            raise LocalProtocolError(
                "access.exceeded", f"the consent was read {most} times on {today} without the customer; read it with PSU-IP-Address"
            )  # fmt: skip
        try:
            yield
        except RequestRefused as e:
            is_exceeded = e.status == 429 and e.peer_code == "ACCESS_EXCEEDED"
            self._count(name, today, most if is_exceeded else -counted)
            raise

    def _find(self, consent_id: str) -> Consent:
        consent = self._consents.get(consent_id)
        if consent is None:
            raise LocalProtocolError("consent.unknown", "the keeper has no such consent; add it first")
        return consent

    def _today(self) -> date:
        return self._now().astimezone(self._zone).date()

    def _name(self, consent_id: str, account: str, endpoint: str) -> str:
        return consent_id if self._counted_by is CountedBy.CONSENT else f"{consent_id} {account} {endpoint}"


class _Memory:
    """Counts of one day; those of the day before are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._day = date.min
        self._counts: dict[str, int] = {}

    def __call__(self, name: str, day: date, more: int) -> int:
        with self._lock:
            if day > self._day:
                self._day, self._counts = day, {}
            if day < self._day:  # a read that began before midnight
                return more
            self._counts[name] = self._counts.get(name, 0) + more
            return self._counts[name]
