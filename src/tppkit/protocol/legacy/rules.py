"""Rules of the legacy interface that both sides use. Source: PSD2 document, part B."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from types import MappingProxyType

from tppkit.errors import FormatError

ACCESS_LIFETIME = timedelta(days=90)  # assumption access-life
LIST_LENGTH = 1000  # records of a transaction list; assumption list-form
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # section 2, type [T]
GENERAL_TRANSFER = "general transfer"

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_TOKEN = re.compile("[0-9A-Za-z]{20,40}")
# For published schemas: of local times, and of access tokens and uuids.
TIME_PATTERN, TOKEN_PATTERN = f"^{_TIME.pattern}$", f"^{_TOKEN.pattern}$"

# Section 2, category codes; the document has no texts (assumption category-texts).
CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "GRCR": "groceries",
        "SHOP": "shopping",
        "REST": "restaurants",
        "TRAN": "transport",
        "TRAV": "travel",
        "ENTT": "entertainment",
        "HLTH": "health",
        "SRVC": "services",
        "OTHR": "other",
        "UTIL": "utilities",
        "TRSF": GENERAL_TRANSFER,
        "CASH": "cash",
        "INSR": "insurance",
        "TXFN": "taxes and fines",
        "FEES": "fees",
        "TOPA": "top-up",
        "GMBL": "gambling",
    }
)


class LifeCycle(StrEnum):
    """The values of `tlc` that the sandbox writes (assumption tlc-values); a receiver must accept any."""

    POSTED = "posted"
    EXECUTED = "executed"
    DECLINED = "declined"
    FAILED = "failed"


def is_token(text: str) -> bool:
    """Whether a text has the form of access tokens and uuids: 20 to 40 characters 0-9, A-Z, a-z.

    Source: PSD2 document, part B sections 4 and 8.
    """
    return _TOKEN.fullmatch(text) is not None


def require_token(text: str, what: str) -> str:
    """Return a text if it has the form of access tokens and uuids.

    Args:
        text: the token or uuid.
        what: its name in the error, such as `access token`; the text itself is not shown.

    Raises:
        FormatError: `token.malformed`.
    """
    if not is_token(text):
        raise FormatError("token.malformed", f"the {what} is not 20 to 40 letters and digits")
    return text


def category(code: str | None) -> str:
    """Return the meaning of a category code; a general transfer for an unknown or absent one."""
    return CATEGORIES.get(code or "", GENERAL_TRANSFER)


def read_local_time(text: str, zone: tzinfo = UTC) -> datetime:
    """Read `yyyy-MM-dd HH:mm:ss` in a time zone as a time, aware UTC.

    An ambiguous time, when clocks are set back, is the first of the two.

    Raises:
        ValueError: the text is not such a time, or out of the range of datetime.
    """
    if not _TIME.fullmatch(text):
        raise ValueError("not a time as yyyy-MM-dd HH:mm:ss")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):  # their messages repeat the value
        raise ValueError("not a time as yyyy-MM-dd HH:mm:ss") from None


def write_local_time(at: datetime) -> str:
    """Write an aware time as `yyyy-MM-dd HH:mm:ss` in UTC."""
    return at.astimezone(UTC).isoformat(" ", "seconds")[:19]


def read_time_stamp(seconds: int) -> datetime:
    """Convert a `timeStamp` to a time, aware UTC; the maximum of datetime if it is later."""
    try:
        return EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def write_time_stamp(at: datetime) -> int:
    """An aware time as whole seconds since 2000-01-01 00:00:00 UTC."""
    return (at - EPOCH) // timedelta(seconds=1)
