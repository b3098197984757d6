"""One row of the table of rules, and what a check is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from tppkit.certificates.certificate import EidasCertificate, Subject
from tppkit.certificates.editions import Edition
from tppkit.errors import Severity

# What is wrong as one sentence, and the values that were compared by name.
Fault = tuple[str, dict[str, str]]
# Judges a certificate at a time (which only the rules of validity need); None when it keeps the rule.
Check = Callable[[EidasCertificate, datetime], Fault | None]
# Asks only for what a request has as well.
SubjectCheck = Callable[[Subject, datetime], Fault | None]


class Use(StrEnum):
    """What a certificate is used as."""

    QWAC = "qwac"
    QSEALC = "qseal"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules.

    Attributes:
        code: the finding's code.
        uses: the certificate uses it holds for.
        severity: the finding's severity: error for what the document says shall be, warning for what should be, notice for
            what is only worth knowing.
        clause: where the rule stands.
        check: gives (message, values) when the certificate breaks the rule, else None.
        since: the edition that brought it, None when it always held.
        until: the edition that ended it, None when it still holds.
        essential: a relying party refuses the certificate for it; else it concerns only who issues or audits.
    """

    code: str
    uses: frozenset[Use]
    severity: Severity
    clause: str
    check: Check
    since: Edition | None = None
    until: Edition | None = None
    essential: bool = False

    def holds_on(self, issued: date, *, judged_by: Edition | None = None) -> bool:
        """Whether the rule counts for a certificate issued on a day.

        Args:
            issued: the day of issue.
            judged_by: an edition whose day takes the place of the day of issue, for rules of the same document only.
        """

        def has_begun(edition: Edition) -> bool:
            if judged_by is not None and judged_by.document == edition.document:
                return edition.begins <= judged_by.begins
            return edition.begins <= issued

        return (self.since is None or has_begun(self.since)) and (self.until is None or not has_begun(self.until))
