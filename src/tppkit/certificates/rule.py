"""A row of the table of rules, and the types of its check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum, StrEnum

from tppkit.certificates.certificate import EidasCertificate, Subject
from tppkit.certificates.editions import Edition
from tppkit.errors import Severity

# The fault in one sentence, and the compared values by name.
Fault = tuple[str, dict[str, str]]
# Checks a certificate at a time, which only the rules of validity use; None if it keeps the rule.
Check = Callable[[EidasCertificate, datetime], Fault | None]
# Reads only what a certificate request has as well.
SubjectCheck = Callable[[Subject, datetime], Fault | None]


class Use(StrEnum):
    """What a certificate is used as."""

    QWAC = "qwac"
    QSEALC = "qseal"


class Part(Enum):
    """What a rule reads, where a certificate request has it as well."""

    STATEMENT = "PSD2 statement"
    KEY = "public key"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules.

    Attributes:
        code: the finding's code.
        uses: the certificate uses that it applies to.
        severity: the finding's severity: error for "shall" in the document, warning for "should", notice for information.
        clause: the source of the rule.
        check: returns (message, values) if the certificate breaks the rule, else None.
        since: the edition that introduced it; None if it always applied.
        until: the edition that ended it; None if it still applies.
        essential: a relying party rejects the certificate for it; other rules concern issuers and auditors.
        part: for rules whose check is a `SubjectCheck`, the part that they read; None for all others.
    """

    code: str
    uses: frozenset[Use]
    severity: Severity
    clause: str
    check: Check
    since: Edition | None = None
    until: Edition | None = None
    essential: bool = False
    part: Part | None = None

    def holds_on(self, issued: date, *, judged_by: Edition | None = None) -> bool:
        """Whether the rule applies to a certificate issued on a day.

        Args:
            issued: the day of issue.
            judged_by: an edition whose day takes the place of the day of issue, for rules of the same document only.
        """

        def has_begun(edition: Edition) -> bool:
            if judged_by is not None and judged_by.document == edition.document:
                return edition.begins <= judged_by.begins
            return edition.begins <= issued

        return (self.since is None or has_begun(self.since)) and (self.until is None or not has_begun(self.until))
