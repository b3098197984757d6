"""Verify retained signatures again with `seals.verify_request`, at the time each request was received.

The verdict on a record has three values (ETSI EN 319 102-1): PASSED, FAILED (disproved) and INDETERMINATE (cannot be proved with
the available material). The stream is checked too: no gaps, no repetitions, each record chained to the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from tppkit._clock import as_utc, format_time, shift, utc_now
from tppkit._files import FilePath, as_path
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import CertificateRejected, Finding, FormatError, Severity, SignatureRejected, TppkitError
from tppkit.evidence.archive import load_certificate, read_lines
from tppkit.evidence.integrity import AcceptedRequests, verify_agreement, verify_columns, verify_leaf
from tppkit.evidence.record import FIRST_PREVIOUS, EvidenceRecord
from tppkit.seals import SealPolicy, SealProfile, VerifiedRequest, verify_request
from tppkit.seals.policy import Paths

MAX_FIRST_FAILURES = 20
# Concurrent requests and clock corrections put times of receipt out of order by seconds. A larger step backwards can hide a seal
# that was made after the revocation of its certificate.
CLOCK_TOLERANCE = timedelta(minutes=5)


class Verdict(StrEnum):
    """The result for one record."""

    PASSED = "passed"
    FAILED = "failed"
    INDETERMINATE = "indeterminate"
    UNREADABLE = "unreadable"


# Codes that leave a record unproved (EN 319 102-1 table 6: no chain, a chain that breaks a constraint, validity out of bounds,
# revocation unknown, signed data or certificate missing), and a certificate that the trusted lists do not qualify. All other codes
# disprove it.
INDETERMINATE_CODES = frozenset({
    "trust.no-path", "certificate.expired", "certificate.not-yet-valid", "file.unreadable", "record.body-redacted",
    "record.unknown-profile", "record.unknown-kind", "record.no-qwac", "record.certificate", "file.too-large",
    "revocation.unknown", "revocation.stale", "trust.no-anchors",
})  # fmt: skip
_INDETERMINATE_PREFIXES = ("path.", "trusted-list.")
# Records with these codes are not part of the stream, which continues after the record before them.
_NOT_IN_STREAM = frozenset({"log.repeated", "log.other-stream"})
_ORGANIZATIONS = OrganizationPolicy()


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """The verdict on one line of an archive.

    Attributes:
        archive: the archive's folder.
        line: line number from 1.
        seq: the record's place in its stream, None if the line cannot be read.
        x_request_id: the request's id, None if the line cannot be read.
        verdict: the result.
        code: the code of the first failure, or None.
        message: the message of that failure, or None.
        stream_code: the fault in its place in the stream (`log.*`), or None.
        stream_message: the message of that fault, or None.
        findings: warnings and notices, which do not change the verdict and the exit code.
        organization_identifier: the organisation that made the seal, None unless passed.
        at: the time of verification, None if the line cannot be read.
        stream_id: the stream of the record, None if the line cannot be read.
        leaf: the record's leaf hash, None if the line cannot be read or the hash next to the record differs.
    """

    archive: Path
    line: int
    seq: int | None
    x_request_id: str | None
    verdict: Verdict
    code: str | None = None
    message: str | None = None
    stream_code: str | None = None
    stream_message: str | None = None
    findings: tuple[Finding, ...] = ()
    organization_identifier: str | None = None
    at: datetime | None = None
    stream_id: str | None = None
    leaf: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a stream. Store it elsewhere to detect that records were cut off, or all of them rewritten.

    Attributes:
        stream_id: the stream.
        records: the number of records up to the last intact one.
        leaf: leaf hash of that record.
    """

    stream_id: str
    records: int
    leaf: str


@dataclass(slots=True)
class AuditSummary:
    """Counts over any number of records.

    Attributes:
        max_failures: maximum number of rows in `first_failures`; None for all.
        expected_heads: leaf hashes that were stored elsewhere as the last of a stream.
        records: number of lines.
        verdicts: the number of rows with each verdict.
        by_code: the number of rows with each code: failures, places in the stream, notices.
        inconsistent: the number of rows with a stream code or `record.leaf`, plus the findings of `expect` except empty archives.
        heads: the end of each archive's stream.
        findings: what `expect` found about archives as a whole.
    """

    max_failures: int | None = MAX_FIRST_FAILURES
    expected_heads: frozenset[str] = frozenset()
    records: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    by_code: Counter[str] = field(default_factory=Counter)
    inconsistent: int = 0
    heads: dict[Path, Head] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _failed: list[RecordVerdict] = field(default_factory=list)
    _with_findings: list[RecordVerdict] = field(default_factory=list)
    _to_list: int = 0
    _seen: set[Path] = field(default_factory=set)
    _former_heads: dict[str, RecordVerdict] = field(default_factory=dict)

    def add(self, row: RecordVerdict) -> None:
        """Count one row."""
        self.records += 1
        self.verdicts[row.verdict] += 1
        self.by_code.update(code for code in (row.code, row.stream_code) if code)
        self.by_code.update(finding.code for finding in row.findings)
        self.inconsistent += row.stream_code is not None or row.code == "record.leaf"
        if row.code or row.stream_code:
            self._list(row, self._failed)
        elif row.findings:
            self._list(row, self._with_findings)
        self._seen.add(row.archive)
        if row.stream_id is None or row.seq is None or row.leaf is None or row.stream_code in _NOT_IN_STREAM:
            return
        self.heads[row.archive] = Head(row.stream_id, row.seq + 1, row.leaf)
        if row.leaf in self.expected_heads:
            self._former_heads[row.leaf] = row

    def _list(self, row: RecordVerdict, rows: list[RecordVerdict]) -> None:
        self._to_list += 1
        if self.max_failures is None or len(rows) < self.max_failures:
            rows.append(row)

    @property
    def first_failures(self) -> list[RecordVerdict]:
        """The first rows that failed or are out of place, followed by the first rows with findings only, up to the maximum."""
        return [*self._failed, *self._with_findings][: self.max_failures]

    @property
    def not_listed(self) -> int:
        """The number of such rows beyond the maximum."""
        return self._to_list - len(self.first_failures)

    def expect(self, archives: Iterable[FilePath]) -> None:
        """Report archives without a record (`log.empty`), archives of one stream (`log.same-stream`) and lost heads (`log.head`).

        Call it after the last row.

        Args:
            archives: the audited archives.
        """
        for archive in map(as_path, archives):
            if archive not in self._seen:
                self._report("log.empty", f"the archive {archive} contains no record")
        streams: dict[str, Path] = {}
        for archive, head in self.heads.items():
            first = streams.setdefault(head.stream_id, archive)
            if first != archive:
                message = (
                    f"{first} and {archive} both have the stream {head.stream_id}: one is a copy or a fork of the other"
                )
                self._report("log.same-stream", message)
                self.inconsistent += 1
        for leaf in sorted(self.expected_heads.difference(head.leaf for head in self.heads.values())):
            self._report("log.head", self._lost_head(leaf))
            self.inconsistent += 1

    def _report(self, code: str, message: str) -> None:
        self.by_code[code] += 1
        self.findings.append(Finding(code, Severity.ERROR, message))

    def _lost_head(self, leaf: str) -> str:
        former = self._former_heads.get(leaf)
        if former is not None:
            head = self.heads[former.archive]
            return (
                f"the expected head {leaf} is record {former.seq} of {former.archive}, which now ends with record"
                f" {head.records - 1}, leaf {head.leaf}: records were added after the head was kept"
            )
        found = "; ".join(
            f"{archive} ends with record {head.records - 1}, leaf {head.leaf}" for archive, head in self.heads.items()
        )
        return (
            f"the expected head {leaf} is not in any archive (found: {found or 'none'}): records were cut off the end,"
            " the archive was rewritten, or it is another archive"
        )

    @property
    def exit_code(self) -> int:
        """0: all passed; 5: unreadable lines; 4: stream inconsistent; 1: some failed; 3: some indeterminate, or no record."""
        if self.verdicts[Verdict.UNREADABLE]:
            return 5
        if self.inconsistent:
            return 4
        if self.verdicts[Verdict.FAILED]:
            return 1
        return 3 if self.verdicts[Verdict.INDETERMINATE] or not self.records or self.by_code["log.empty"] else 0


def audit_archive(
    folder: FilePath,
    *,
    paths: Paths,
    at: datetime | None = None,
    organizations: OrganizationPolicy = _ORGANIZATIONS,
    now: datetime | None = None,
    required_role: Callable[[str, str], str | None] = lambda method, target: None,
) -> Iterator[RecordVerdict]:
    """Verify every record of an archive, in order and in bounded memory.

        for row in audit_archive("evidence", paths=PathVerifier(anchors)):
            print(row.seq, row.verdict, row.code)

    Args:
        folder: the archive.
        paths: verifies certificates: a `trust.PathVerifier`, or `trust.TrustMaterial` to require qualified ones.
        at: the time to verify at, aware; None: each record's own time of receipt.
        organizations: the accepted organizationIdentifiers; use those of the middleware that stored the records.
        now: the present, aware, after which no record can have been received; None: the machine's clock.
        required_role: returns the PSD2 role that a QWAC needs for a method and target, or None. Records answered with 4xx are exempt.

    Raises:
        ArchiveError: `archive.unreadable`; other faults of the archive become rows.
        ConfigurationError: `time.naive`.
    """
    folder = as_path(folder)
    at = None if at is None else as_utc(at)
    auditor = _Auditor(folder, paths, at, organizations, as_utc(now or utc_now()), required_role)
    for number, line in read_lines(folder):
        yield auditor.check_line(number, line)


class _Auditor:
    def __init__(
        self, folder: Path, paths: Paths, at: datetime | None, organizations: OrganizationPolicy, now: datetime,
        required_role: Callable[[str, str], str | None],
    ) -> None:  # fmt: skip
        self._folder = folder
        self._required_role = required_role
        self._accepted = AcceptedRequests()
        self._latest_possible = shift(now, CLOCK_TOLERANCE)
        self._at = at
        self._paths = paths
        self._organizations = organizations
        self._policies: dict[str, SealPolicy] = {}  # by the names of profiles
        self._certificate: Callable[[str], EidasCertificate] = lru_cache(maxsize=1024)(
            lambda name: load_certificate(folder, name)
        )
        self._stream_id: str | None = None
        self._next_seq = 0
        self._unusable = 0  # lines since the stream's last record; each may have been one of its records
        self._previous = FIRST_PREVIOUS
        self._latest: datetime | None = None

    def check_line(self, number: int, line: bytes) -> RecordVerdict:
        try:
            record = EvidenceRecord.from_line(line)
        except FormatError as e:
            self._unusable += 1
            return RecordVerdict(self._folder, number, None, None, Verdict.UNREADABLE, e.code, e.message)
        at = self._at or record.received_at
        row = RecordVerdict(
            self._folder, number, record.seq, record.x_request_id, Verdict.PASSED, at=at, stream_id=record.stream_id
        )
        try:
            leaf = verify_leaf(record)
        except SignatureRejected as e:  # any column may be wrong, its place and time included
            self._unusable += 1
            return replace(row, verdict=Verdict.FAILED, code=e.code, message=e.message)
        row = replace(row, leaf=leaf)
        found = self._check_place(record, leaf)
        if found and found.severity is Severity.NOTICE:
            row = replace(row, findings=(found,))
        elif found:
            row = replace(row, stream_code=found.code, stream_message=found.message)
        try:
            verified, warnings = self._verify(record, at)
            reused = self._accepted.add(record, verified.organization_identifier)
            findings = tuple(dict.fromkeys((*row.findings, *warnings, *([reused] if reused else []))))
            return replace(row, organization_identifier=verified.organization_identifier, findings=findings)
        except TppkitError as e:
            is_unproved = e.code in INDETERMINATE_CODES or e.code.startswith(_INDETERMINATE_PREFIXES)
            verdict = Verdict.INDETERMINATE if is_unproved else Verdict.FAILED
            return replace(row, verdict=verdict, code=e.code, message=e.message)

    def _check_place(self, record: EvidenceRecord, leaf: str) -> Finding | None:
        found = self._misplaced(record)
        if found is None or found.code not in _NOT_IN_STREAM:
            self._stream_id, self._next_seq, self._previous = record.stream_id, record.seq + 1, leaf
            self._unusable = 0
            if found is not None and found.code == "log.time-back" and found.severity is Severity.ERROR:
                self._latest = record.received_at  # report a step of the clock once, not for each later record
            else:
                self._latest = max(record.received_at, self._latest or record.received_at)
        return found

    def _misplaced(self, record: EvidenceRecord) -> Finding | None:
        last = self._next_seq - 1
        if self._stream_id is not None and record.stream_id != self._stream_id:
            message = f"the record belongs to the stream {record.stream_id}, not to {self._stream_id}"
            return Finding("log.other-stream", Severity.ERROR, message)
        if record.seq < self._next_seq:
            message = f"record {record.seq} comes after record {last}: it is repeated or moved"
            return Finding("log.repeated", Severity.ERROR, message)
        if record.seq > self._next_seq + self._unusable:
            return Finding("log.gap", Severity.ERROR, _missing(self._next_seq, record.seq - 1, self._unusable))
        if record.seq == self._next_seq and record.previous != self._previous:
            before = f"the leaf of record {last}" if last >= 0 else "zeros, as the first record has"
            message = f"record {record.seq} names {record.previous} as the leaf before it, not {before}"
            return Finding("log.chain-broken", Severity.ERROR, message)
        if record.received_at > self._latest_possible:
            message = f"received at {format_time(record.received_at)}, which is after the audit"
            return Finding("log.time-future", Severity.ERROR, message)
        if self._latest is not None and record.received_at < self._latest:
            back = self._latest - record.received_at
            severity = Severity.ERROR if back > CLOCK_TOLERANCE else Severity.NOTICE
            message = f"received at {format_time(record.received_at)}, {back} before an earlier record ({format_time(self._latest)})"
            return Finding("log.time-back", severity, message)
        return None

    def _verify(self, record: EvidenceRecord, at: datetime) -> tuple[VerifiedRequest, tuple[Finding, ...]]:
        """Return the verified request, and findings about the revocation material of its certificates."""
        # 1. Its columns agree with one another, and this version knows its kind and profile.
        # 2. The certificates are available.
        # 3. The QWAC is trusted, and the seal is valid, at the time.
        # 4. The columns agree with the seal.
        # 5. The QWAC has the role of the endpoint, unless the request was rejected.
        policy = self._policy(verify_columns(record))  # 1
        seal, qwac = self._certificate(record.seal_cert), self._certificate(record.qwac_cert or "")  # 2
        above = self._authorities(record)
        path = self._paths.verify_use(qwac, as_=Use.QWAC, at=at, intermediates=above)  # 3
        message = record.to_message(seal, profile=policy.profile)
        verified = verify_request(message, qwac=qwac, at=at, policy=policy, intermediates=above)
        verify_agreement(record, verified)  # 4
        role = self._required_role(record.method, record.target)  # 5
        if role is not None and role not in qwac.roles and not 400 <= (record.http_status or 0) < 500:
            reason = f"the request needs the role {role}, but the QWAC has {', '.join(qwac.roles)[:200] or 'none'}"
            raise CertificateRejected("role.missing", reason, clause="PSD2 document A.5 rule 2")
        return verified, (*path.findings, *verified.path.findings)

    def _policy(self, profile: SealProfile) -> SealPolicy:
        if profile.name not in self._policies:
            row = _with_certificate(profile)
            self._policies[profile.name] = SealPolicy(self._paths, profile=row, organizations=self._organizations)
        return self._policies[profile.name]

    def _authorities(self, record: EvidenceRecord) -> list[EidasCertificate]:
        """Return the readable authorities that are stored with a record; the trust material may have others."""
        authorities = []
        for name in record.chain:
            with suppress(FormatError):
                authorities.append(self._certificate(name))
        return authorities


def _with_certificate(profile: SealProfile) -> SealProfile:
    """Return the dialect with a header for the stored certificate, also if the dialect sends none."""
    if profile.certificate_header is not None or profile.sends_x5c:
        return profile
    return replace(profile, certificate_header="TPP-Signature-Certificate")


def _missing(first: int, last: int, unusable: int) -> str:
    if unusable:
        lines = "1 line" if unusable == 1 else f"{unusable} lines"
        missing = f"at least {last - first + 1 - unusable} of records {first} to {last} are missing"
        return f"{missing}; {lines} before this one may contain the others"
    if first == last:
        return f"record {first} is missing (1 record)"
    return f"records {first} to {last} are missing ({last - first + 1} records)"
