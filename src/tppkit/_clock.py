"""The machine's clock, which only this module reads, and the form of every time: aware UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tppkit.errors import ConfigurationError, FormatError

Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """Return the current time, aware UTC."""
    return datetime.now(UTC)


def as_utc(at: datetime) -> datetime:
    """Convert `at` to UTC.

    Raises:
        ConfigurationError: `time.naive`, `at` has no time zone; `time.out-of-range`.
    """
    if at.tzinfo is UTC:
        return at
    if at.tzinfo is None:
        raise ConfigurationError("time.naive", f"the time {at.isoformat()} has no time zone")
    try:
        return at.astimezone(UTC)
    except OverflowError as e:
        raise ConfigurationError(
            "time.out-of-range", f"the time {at.isoformat()} is outside the calendar in UTC"
        ) from e


def shift(at: datetime, by: timedelta) -> datetime:
    """Move `at` (aware UTC) by a span, up to the ends of the calendar: untrusted input contains times near them."""
    try:
        return at + by
    except OverflowError:
        return (datetime.max if by > timedelta(0) else datetime.min).replace(tzinfo=UTC)


def to_microseconds(at: datetime) -> int:
    """Return a time as microseconds since 1970, the form in tables."""
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Return the time of a number of microseconds since 1970, aware UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def optional_microseconds(at: datetime | None) -> int | None:
    """Convert a time to the value of a column."""
    return None if at is None else to_microseconds(at)


def optional_time(microseconds: int | None) -> datetime | None:
    """Convert the value of a column to a time."""
    return None if microseconds is None else from_microseconds(microseconds)


def format_time(at: datetime) -> str:
    """Format `at` as ISO 8601 in UTC with a `Z`, with microseconds only if they are not zero."""
    return as_utc(at).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time or date; without a zone it is UTC.

    Raises:
        FormatError: `time.malformed`.
    """
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as e:
        raise FormatError("time.malformed", f"{text[:40]!r} is not an ISO 8601 time") from e
