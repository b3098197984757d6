"""Editions of the standards that certificates are checked against, and the day from which each applies.

A rule applies to certificates issued on or after the day its edition was published. ETSI documents state a month; its first
day is used, as in the public linters. The list has the editions that a rule or a caller can name.

Sources: the title pages of the ETSI documents as quoted by zlint, pkilint and the EU wallet's list of standards; zlint's
table of CA/Browser Forum ballots; for ballots 193 and SC81, publications of authorities and the Forum. TS 119 495 V1.7.1
is missing because its month is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from tppkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Edition:
    """One edition of a document.

    Attributes:
        document: for example `TS 119 495`.
        version: for example `V1.5.1`.
        begins: the first day of issue to which it applies.
    """

    document: str
    version: str
    begins: date

    def __str__(self) -> str:
        return f"{self.document} {self.version}"


TS_119_495_V1_1_2 = Edition("TS 119 495", "V1.1.2", date(2018, 7, 1))
TS_119_495_V1_2_1 = Edition("TS 119 495", "V1.2.1", date(2018, 11, 1))
TS_119_495_V1_4_1 = Edition("TS 119 495", "V1.4.1", date(2019, 11, 1))
TS_119_495_V1_5_1 = Edition("TS 119 495", "V1.5.1", date(2021, 4, 1))
TS_119_495_V1_6_1 = Edition("TS 119 495", "V1.6.1", date(2022, 11, 1))
TS_119_495_V1_8_1 = Edition("TS 119 495", "V1.8.1", date(2026, 4, 1))
EN_319_412_2_V2_2_1 = Edition("EN 319 412-2", "V2.2.1", date(2020, 7, 1))
EN_319_412_5_V2_4_1 = Edition("EN 319 412-5", "V2.4.1", date(2023, 9, 1))
BALLOT_193 = Edition("CA/Browser Forum ballot", "193", date(2018, 3, 2))  # "after 1 March", read as zlint does
BALLOT_SC31 = Edition("CA/Browser Forum ballot", "SC31", date(2020, 9, 1))
BALLOT_SC81_FIRST = Edition("CA/Browser Forum ballot", "SC81, first step", date(2026, 3, 15))
BALLOT_SC81_SECOND = Edition("CA/Browser Forum ballot", "SC81, second step", date(2027, 3, 15))
BALLOT_SC81_THIRD = Edition("CA/Browser Forum ballot", "SC81, third step", date(2029, 3, 15))
CHROME_SERVER_ONLY = Edition("Chrome Root Program Policy", "1.6", date(2026, 6, 15))

EDITIONS = (
    TS_119_495_V1_1_2,
    TS_119_495_V1_2_1,
    TS_119_495_V1_4_1,
    TS_119_495_V1_5_1,
    TS_119_495_V1_6_1,
    TS_119_495_V1_8_1,
)  # those a caller may judge by


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
