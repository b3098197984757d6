"""The life of a consent. Source: PSD2 document, part A sections 2, 3 and 8."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.machine import Machine

CONSENT_DAYS = 180


class ConsentStatus(StrEnum):
    """The status of a consent, as in section 3."""

    RECEIVED = "received"
    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class ConsentTrigger(StrEnum):
    """The triggers of a consent's moves."""

    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    REVOKED = "revoked"  # by the customer at the bank
    TERMINATED = "terminated"  # by DELETE


# Section 3 shows the first move only; the others are assumptions consent-declined, consent-link, consent-end, consent-revoked.
CONSENT: Machine[ConsentStatus, ConsentTrigger] = Machine(
    initial=ConsentStatus.RECEIVED,
    moves={
        (ConsentStatus.RECEIVED, ConsentTrigger.APPROVED): ConsentStatus.VALID,
        (ConsentStatus.RECEIVED, ConsentTrigger.DECLINED): ConsentStatus.REVOKED,
        (ConsentStatus.RECEIVED, ConsentTrigger.EXPIRED): ConsentStatus.EXPIRED,
        (ConsentStatus.RECEIVED, ConsentTrigger.REVOKED): ConsentStatus.REVOKED,
        (ConsentStatus.RECEIVED, ConsentTrigger.TERMINATED): ConsentStatus.REVOKED,
        (ConsentStatus.VALID, ConsentTrigger.EXPIRED): ConsentStatus.EXPIRED,
        (ConsentStatus.VALID, ConsentTrigger.REVOKED): ConsentStatus.REVOKED,
        (ConsentStatus.VALID, ConsentTrigger.TERMINATED): ConsentStatus.REVOKED,
    },
)


@dataclass(frozen=True, slots=True)
class ConsentProgress:
    """The progress of a consent.

    Attributes:
        status: its state.
        active_at: its creation, its revocation, or the customer's last use of the approval page; aware UTC.
        valid_until: its last day, in the bank's zone.
        moved_by: the latest move, or None.
    """

    status: ConsentStatus
    active_at: datetime
    valid_until: date
    moved_by: ConsentTrigger | None = None


def due_consent_trigger(
    progress: ConsentProgress, *, now: datetime, today: date, inactivity: timedelta
) -> ConsentTrigger | None:
    """Return the trigger that is due by time alone at `now`, or None.

    Args:
        progress: the progress of the consent.
        now: the present, aware UTC.
        today: the day of `now` in the bank's zone.
        inactivity: how long an unapproved consent waits (assumption consent-link).
    """
    if progress.status in CONSENT.final:
        return None
    unused = progress.status is ConsentStatus.RECEIVED and now >= progress.active_at + inactivity
    return ConsentTrigger.EXPIRED if unused or today > progress.valid_until else None


def cap_valid_until(day: date, today: date, *, most_days: int = CONSENT_DAYS) -> date:
    """Return the last day of a new consent: the requested day, limited to a number of days from today.

    Args:
        day: `validUntil` of the request.
        today: the present day in the bank's zone.
        most_days: the longest validity, in days; the document has 180.

    Raises:
        FormatError: `model.valid-until`, the day has passed.
    """
    if day < today:
        raise FormatError("model.valid-until", f"validUntil is {day}, which is before today, {today}")
    return min(day, today + timedelta(days=most_days))


def require_valid(status: ConsentStatus) -> None:
    """Check that account data may be read with a consent in this state (assumption consent-codes).

    Raises:
        LocalProtocolError: `consent.expired`, `consent.invalid`.

    Source: section 5 rule 6.
    """
    if status is ConsentStatus.EXPIRED:
        raise LocalProtocolError("consent.expired", "the consent has expired")
    if status is not ConsentStatus.VALID:
        raise LocalProtocolError("consent.invalid", f"the consent is {status}, not valid")
