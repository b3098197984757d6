"""What the audit of records adds up to: counts by verdict, code, month, provider and endpoint, and failures by cause.

Totals of segments are joined to those of archives, so each is found once, in any order, on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Self

from tppkit._clock import format_time, from_microseconds
from tppkit.certificates.algorithms import NEVER
from tppkit.errors import Finding, Severity
from tppkit.evidence.checks import RecordVerdict
from tppkit.evidence.heads import Head, head_object
from tppkit.evidence.verdicts import Verdict, sub_indication

MAX_FIRST_FAILURES = 20
_MAX_GROUPS = 10_000
_MAX_CAUSES = 1_000
_HOUR = 3_600_000_000
_OTHERS = "others"
_NUMBERS = ("inconsistent", "without_revocation", "unstamped", "to_list")
_COUNTERS = ("by_code", "keys", "clocks", "ends")
# Findings that leave something unproved, and say nothing about the log.
_UNPROVED = frozenset({"log.empty", "archive.damaged-file"})


@dataclass(slots=True)
class Cause:
    """Records that do not hold for the same reason.

    Attributes:
        codes: every code of these records, the deciding one first.
        claimed_by: the organisation that their seal certificate names, or None.
        records: how many.
        first: the first of them, as `row_object` shows it.
        last: the last of them.
    """

    codes: tuple[str, ...]
    claimed_by: str | None
    records: int
    first: dict[str, Any]
    last: dict[str, Any]


class Group(NamedTuple):
    """What records have in common that are counted together.

    Attributes:
        month: of receipt, as `2026-06`; empty for lines that are not records.
        claimed_by: the organisation that the seal certificate names; empty if it cannot be read.
        endpoint: method and path.
        verdict: the verdict.
    """

    month: str
    claimed_by: str
    endpoint: str
    verdict: str


class StampRow(NamedTuple):
    """What was found about one time stamp.

    Attributes:
        archive: the archive.
        file: the file in it.
        records: how many records, from the first on, the stamped head has.
        status: `holds`, `not-checked` or `fails`.
        at: the time that it states; None unless it could be read and its signature holds, as the next two.
        authority: who signed it.
        end: the day from which the algorithm of its signature is not accepted; None without a planned end.
        message: why it does not hold or was not checked, or None.
    """

    archive: str
    file: str
    records: int
    status: str
    at: str | None = None
    authority: str | None = None
    end: str | None = None
    message: str | None = None


@dataclass(slots=True)
class Totals:
    """Counts over any number of records.

    Attributes:
        groups: the number of records by month, organisation, endpoint and verdict; at most 10,000 groups.
        by_code: the number with each code: failures, places in the log, warnings and notices.
        inconsistent: the number with a wrong place in the log or a changed leaf.
        without_revocation: the number whose revocation was not checked, because no answer was kept with them or given.
        unstamped: the number that no time stamp proves.
        keys: the number of callbacks by name and SHA-256 of their key; at most 1,000.
        clocks: the number by the clock of the time of receipt; at most 1,000.
        ends: the number that passed, by the day on which their proof ends; an empty day without a planned end.
        causes: the records that do not hold, by codes and organisation; at most 1,000.
        failures: the first records that do not hold or are out of place.
        noted: the first records with warnings and notices only.
        to_list: the number of both, also beyond the maximum.
        received_from: the earliest time of receipt, in microseconds since 1970; None without records.
        received_to: the latest.
        redacted: the first and last place of records without their bodies; of one segment only.
    """

    groups: Counter[Group] = field(default_factory=Counter)
    by_code: Counter[str] = field(default_factory=Counter)
    inconsistent: int = 0
    without_revocation: int = 0
    unstamped: int = 0
    keys: Counter[str] = field(default_factory=Counter)
    clocks: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    causes: dict[str, Cause] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    noted: list[dict[str, Any]] = field(default_factory=list)
    to_list: int = 0
    received_from: int | None = None
    received_to: int | None = None
    redacted: list[list[int]] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The number of records."""
        return self.groups.total()

    def by(self, *names: str) -> dict[tuple[str, ...], int]:
        """Return the number of records by fields of `Group`, sorted."""
        counts: Counter[tuple[str, ...]] = Counter()
        for group, number in self.groups.items():
            counts[tuple(getattr(group, name) for name in names)] += number
        return dict(sorted(counts.items()))

    def add(self, row: RecordVerdict, *, archive: str, endpoint: str, max_failures: int | None) -> None:
        """Count one record.

        Args:
            row: the record.
            archive: the name of its archive.
            endpoint: its endpoint.
            max_failures: how many failures to list; None for all.
        """
        month = "" if row.received_at is None else _month(row.received_at // _HOUR)
        self._widen(row.received_at, row.received_at)
        self._count(Group(month, row.claimed_by or "", endpoint, row.verdict.value), 1)
        self.without_revocation += row.is_selected and row.seq is not None and not row.has_revocation
        if row.key is not None:
            _count_bounded(self.keys, row.key, 1)
        if row.clock_source is not None:
            _count_bounded(self.clocks, row.clock_source[:100], 1)
        if row.verdict is Verdict.PASSED and row.is_selected:
            self.ends["" if row.end == NEVER else _day(row.end)] += 1
        if row.code is None and row.place is None and not row.findings:
            return
        shown = row_object(archive, row)
        codes = tuple(
            dict.fromkeys(code for code in (row.code, *(code for code, _ in row.failures), shown["log_code"]) if code)
        )
        if row.seq is not None and "record.body-redacted" in codes:
            if self.redacted and self.redacted[-1][1] + 1 == row.seq:
                self.redacted[-1][1] = row.seq
            else:
                self.redacted.append([row.seq, row.seq])
        self.by_code.update({*codes, *(one["code"] for one in shown["findings"])})
        self.inconsistent += shown["log_code"] is not None or "record.leaf" in codes
        if codes:
            self._add_cause(Cause(codes, row.claimed_by, 1, {**shown, "signed": row.signed}, shown))
        self.to_list += 1
        _extend(self.failures if codes else self.noted, [shown], max_failures)

    def _count(self, group: Group, number: int) -> None:
        if group not in self.groups and len(self.groups) >= _MAX_GROUPS:
            group = Group(_OTHERS, _OTHERS, _OTHERS, group.verdict)
        self.groups[group] += number

    def join(self, other: Totals, *, max_failures: int | None) -> None:
        """Add the totals of records that follow."""
        for group, number in other.groups.items():
            self._count(group, number)
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            for key, number in getattr(other, name).items():
                _count_bounded(getattr(self, name), key, number)
        for cause in other.causes.values():
            self._add_cause(cause)
        _extend(self.failures, other.failures, max_failures)
        _extend(self.noted, other.noted, max_failures)
        self._widen(other.received_from, other.received_to)

    def _widen(self, first: int | None, last: int | None) -> None:
        if first is not None and (self.received_from is None or first < self.received_from):
            self.received_from = first
        if last is not None and (self.received_to is None or last > self.received_to):
            self.received_to = last

    def _add_cause(self, cause: Cause) -> None:
        key = " ".join((*cause.codes, cause.claimed_by or ""))
        known = self.causes.get(key)
        if known is None and len(self.causes) >= _MAX_CAUSES:
            known = self.causes.setdefault(_OTHERS, Cause((_OTHERS,), None, 0, cause.first, cause.last))
        if known is None:
            self.causes[key] = Cause(cause.codes, cause.claimed_by, cause.records, cause.first, cause.last)
        else:
            known.records += cause.records
            known.last = cause.last

    def to_object(self) -> dict[str, Any]:
        """Return the totals for JSON."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "groups": [[*group, number] for group, number in self.groups.items()],
            "causes": {key: asdict(cause) for key, cause in self.causes.items()},
        }

    @classmethod
    def from_object(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_object` returned."""
        groups = Counter({Group(*group): number for *group, number in value["groups"]})
        causes = {key: Cause(**{**cause, "codes": tuple(cause["codes"])}) for key, cause in value["causes"].items()}
        counters = {name: Counter(value[name]) for name in _COUNTERS}
        return cls(**{**value, **counters, "groups": groups, "causes": causes})


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit found.

        result = audit_archives(["evidence"], plan)
        result.exit_code, result.totals.by("claimed_by", "verdict")

    Attributes:
        totals: counts over all records.
        first_failures: the first records that do not hold or are out of place, followed by the first with findings only.
        heads: the end of each archive's stream.
        findings: what was found about logs and archives as a whole.
        unreadable: what could not be read, `archive.unreadable`.
        report_hash: a hash of every row, the findings and the plan: two audits of the same records by the same material have the
            same, whatever the machine, the number of workers and the time.
        stamps: what was found about each time stamp.
        operations: the receipts of redaction, pruning and holds, as `operations.read_operations` returns them, each with its `archive`.
    """

    totals: Totals
    first_failures: tuple[Mapping[str, Any], ...] = ()
    heads: tuple[Head, ...] = ()
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    report_hash: str = ""
    stamps: tuple[StampRow, ...] = ()
    operations: tuple[Mapping[str, Any], ...] = ()

    @property
    def records(self) -> int:
        """The number of records, and of lines that are not records."""
        return self.totals.records

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """The number of records with each verdict."""
        counts = self.totals.by("verdict")
        return {verdict: counts.get((verdict.value,), 0) for verdict in Verdict}

    @property
    def not_listed(self) -> int:
        """The number of records that do not hold, are out of place or have findings, and are not in `first_failures`."""
        return self.totals.to_list - len(self.first_failures)

    @property
    def inconsistent(self) -> int:
        """The number of records out of place or changed, and of findings about logs except those that leave something unproved."""
        return self.totals.inconsistent + sum(
            one.severity is Severity.ERROR and one.code not in _UNPROVED for one in self.findings
        )

    @property
    def by_code(self) -> Counter[str]:
        """The number of records and findings with each code, sorted by code."""
        counts = self.totals.by_code.copy()
        counts.update(finding.code for finding in (*self.findings, *self.unreadable))
        return Counter(dict(sorted(counts.items())))

    @property
    def exit_code(self) -> int:
        """0: all passed; 5: unreadable lines or files; 4: log inconsistent; 1: some failed; 3: some indeterminate, or no record."""
        verdicts = self.verdicts
        if self.unreadable or verdicts[Verdict.UNREADABLE]:
            return 5
        if self.inconsistent:
            return 4
        if verdicts[Verdict.FAILED]:
            return 1
        is_open = not self.records or any(finding.code in _UNPROVED for finding in self.findings)
        return 3 if is_open or verdicts[Verdict.INDETERMINATE] else 0

    def to_object(self) -> dict[str, Any]:
        """Return counts, heads and stamps for JSON."""
        return {
            "report_hash": self.report_hash,
            "records": self.records,
            **{verdict.value: number for verdict, number in self.verdicts.items()},
            "inconsistent": self.inconsistent,
            "without_revocation": self.totals.without_revocation,
            "keys": dict(self.totals.keys),
            "by_code": dict(self.by_code),
            "heads": [head_object(head) for head in self.heads],
            "stamps": [stamp._asdict() for stamp in self.stamps],
        }


def _count_bounded(counts: Counter[str], key: str, number: int) -> None:
    counts[key if key in counts or len(counts) < _MAX_CAUSES else _OTHERS] += number


def _extend(rows: list[dict[str, Any]], more: list[dict[str, Any]], maximum: int | None) -> None:
    rows += more if maximum is None else more[: max(maximum - len(rows), 0)]


@lru_cache(maxsize=64)
def _month(hour: int) -> str:
    return format_time(from_microseconds(hour * _HOUR))[:7]


@lru_cache(maxsize=64)
def _day(at: datetime) -> str:
    return format_time(at)[:10]


def row_object(archive: str, row: RecordVerdict) -> dict[str, Any]:
    """Return one record for JSON.

    Args:
        archive: the archive's name.
        row: the record.
    """
    return {
        "verdict": "holds" if row.verdict is Verdict.PASSED else "fails",
        "status": row.verdict.value,
        "sub_indication": None if row.code is None else sub_indication(row.code),
        "code": row.code,
        "message": row.message,
        "failures": [{"code": code, "message": message} for code, message in row.failures],
        "log_code": row.place and row.place.code,
        "log_message": row.place and row.place.message,
        "findings": [found.to_object() for found in row.findings],
        "archive": archive,
        "line": row.line,
        "seq": row.seq,
        "x_request_id": row.x_request_id,
        "organization_identifier": row.organization_identifier,
        "claimed_by": row.claimed_by,
        "at": row.at and format_time(row.at),
    }
