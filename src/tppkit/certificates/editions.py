"""The calendar of change: editions of the standards, and the day from which each applies (`calendar.toml`).

A rule applies to certificates issued on or after the day of its edition. TS 119 495 V1.7.1 is missing, because its month is unknown.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from importlib.resources import files

from tppkit.errors import ConfigurationError

NOT_FIXED = date.max
"""The day of a change for which no day is fixed yet."""


@dataclass(frozen=True, slots=True)
class Edition:
    """One row of the calendar.

    Attributes:
        document: for example `TS 119 495`.
        version: for example `V1.5.1`.
        begins: the first day of issue to which it applies; `NOT_FIXED` if there is none yet.
        what: what changes, in one sentence.
        source: what was read.
        read: when it was read.
        roles: PSD2 roles that it introduces.
        max_days: maximum validity of a publicly trusted website certificate, in days of 86,400 seconds, or None.
        last_second_free: with `max_days`, the certificate's last second does not count.
    """

    document: str
    version: str
    what: str
    source: str
    read: date
    begins: date = NOT_FIXED
    roles: tuple[str, ...] = ()
    max_days: int | None = None
    last_second_free: bool = False

    def __str__(self) -> str:
        return f"{self.document} {self.version}"


def _read_calendar() -> tuple[Edition, ...]:
    text = files("tppkit.certificates").joinpath("calendar.toml").read_text("utf-8")
    return tuple([Edition(**{**row, "roles": tuple(row.get("roles", ()))}) for row in tomllib.loads(text)["change"]])


CALENDAR = _read_calendar()
"""All rows, in the order of their days."""
_BY_NAME = {str(row): row for row in CALENDAR}

TS_119_495_V1_5_1 = _BY_NAME["TS 119 495 V1.5.1"]
EN_319_412_2_V2_2_1 = _BY_NAME["EN 319 412-2 V2.2.1"]
EN_319_412_5_V2_4_1 = _BY_NAME["EN 319 412-5 V2.4.1"]
CHROME_NEW_AUTHORITIES = _BY_NAME["Chrome Root Program Policy 1.8, new authorities"]
CHROME_SERVER_ONLY = _BY_NAME["Chrome Root Program Policy 1.8"]
PUBLIC_LIMITS = tuple(row for row in CALENDAR if row.max_days is not None)
EDITIONS = tuple(row for row in CALENDAR if row.document == "TS 119 495")  # those a caller may judge by


def find_edition(version: str) -> Edition:
    """Return the edition of TS 119 495 with this version, for example `V1.4.1`.

    Raises:
        ConfigurationError: `rules.edition`.
    """
    found = next((edition for edition in EDITIONS if edition.version == version), None)
    if found is None:
        known = ", ".join(edition.version for edition in EDITIONS)
        raise ConfigurationError("rules.edition", f"{version[:40]!r} is not a known edition of TS 119 495: {known}")
    return found
