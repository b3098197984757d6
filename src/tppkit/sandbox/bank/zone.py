"""Days in the bank's time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

BANK_ZONE = ZoneInfo("Europe/Vilnius")  # assumption bank-zone


def bank_day(at: datetime) -> date:
    """Return the bank's day at a time (aware)."""
    return at.astimezone(BANK_ZONE).date()


def day_start(day: date) -> datetime:
    """Return when a day begins at the bank, aware UTC, limited to the range of datetime."""
    try:
        return datetime.combine(day, time.min, BANK_ZONE).astimezone(UTC)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def day_end(day: date) -> datetime:
    """Return when the next day begins at the bank, aware UTC; a day has 23 to 25 hours."""
    return datetime.max.replace(tzinfo=UTC) if day == date.max else day_start(day + timedelta(days=1))
