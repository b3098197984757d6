"""Dates of HTTP headers, in the preferred format only."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.errors import FormatError

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(
    rf"({'|'.join(_DAYS)}), ([0-9]{{2}}) ({'|'.join(_MONTHS)}) ([0-9]{{4}}) ([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}}) GMT"
)


def format_http_date(at: datetime) -> str:
    """Format `at` as an HTTP date, independent of the locale.

    Raises:
        ConfigurationError: `time.naive`.
    """
    at = as_utc(at)
    return f"{_DAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04} {at:%H:%M:%S} GMT"


def parse_http_date(value: str) -> datetime:
    """Parse an HTTP date such as `Tue, 15 Nov 1994 08:12:31 GMT`, with the correct day of the week.

    Raises:
        FormatError: `header.date`, also for the obsolete formats, which are ambiguous.

    Source: RFC 9110 section 5.6.7.
    """
    match = _DATE.fullmatch(value)
    try:
        if match is None:
            raise ValueError
        day, month, year, hour, minute, second = match.group(2, 3, 4, 5, 6, 7)
        at = datetime(int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        raise FormatError("header.date", f"{shown(value)} is not a date like Tue, 15 Nov 1994 08:12:31 GMT") from None
    if _DAYS[at.weekday()] != match.group(1):
        right = f"{day} {month} {year} is a {_DAYS[at.weekday()]}"
        raise FormatError("header.date", f"{shown(value)} has the wrong day of the week: {right}")
    return at
