"""The one place that reads the machine's clock, and the form of every time: aware UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tppkit.errors import ConfigurationError, FormatError

Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def utc_now() -> datetime:
    """The present, aware UTC."""
    return datetime.now(UTC)


def as_utc(at: datetime) -> datetime:
    """`at` in UTC.

    Raises:
        ConfigurationError: `time.naive`, `at` has no time zone, so it names no moment; `time.out-of-range`.
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
    """`at` (aware UTC) moved by a span, no further than the calendar goes: strangers write times near its ends."""
    try:
        return at + by
    except OverflowError:
        return (datetime.max if by > timedelta(0) else datetime.min).replace(tzinfo=UTC)


def to_microseconds(at: datetime) -> int:
    """Microseconds since 1970, as tables store a time."""
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """The time of a number of microseconds since 1970, in UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def format_time(at: datetime) -> str:
    """`at` as ISO 8601 in UTC with a `Z`, with microseconds only where there are any."""
    return as_utc(at).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time or date; what has no zone is taken as UTC.

    Raises:
        FormatError: `time.malformed`.
    """
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as e:
        raise FormatError("time.malformed", f"{text[:40]!r} is not an ISO 8601 time") from e
