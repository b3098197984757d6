"""Verify retained signatures again with `seals.verify_request`, at the time each request was received.

The verdict on a record has three values (ETSI EN 319 102-1): PASSED, FAILED (disproved) and INDETERMINATE (cannot be proved with
the available material). The stream is checked too: no gaps, no repetitions, each record chained to the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tppkit._clock import as_utc, utc_now
from tppkit._files import FilePath, as_path, make_folder
from tppkit.certificates import OrganizationPolicy
from tppkit.errors import ArchiveError, Finding, FormatError, Severity
from tppkit.evidence.checks import Checks, RecordVerdict
from tppkit.evidence.files import check_files
from tppkit.evidence.heads import Head
from tppkit.evidence.ledger import Ledger
from tppkit.evidence.merge import merge_results, shard_result, table_lines
from tppkit.evidence.operations import read_operations
from tppkit.evidence.report import write_report
from tppkit.evidence.results import AuditResult
from tppkit.evidence.retention import check_receipts
from tppkit.evidence.runner import AuditPlan, Shard, load_material, read_result, run_audit
from tppkit.evidence.segments import Progress, Segment, list_segments
from tppkit.evidence.stream import AcceptedRequests, Stream, in_stream
from tppkit.seals.policy import Paths
from tppkit.trust import PathVerifier, TrustMaterial

_ORGANIZATIONS = OrganizationPolicy()


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

    Time stamps are not read, so algorithms are judged at `at`, or now. `audit_archives` reads them.

    Args:
        folder: the archive.
        paths: verifies certificates: a `trust.TrustMaterial`, with which a record is also judged by the answers about revocation that it
            names and, with trusted lists, its certificates must be qualified; or a `trust.PathVerifier`.
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
    now = as_utc(now or utc_now())
    checks = Checks(
        paths, archive=folder, now=now, at=at,
        organizations=organizations, role_of=required_role,
    )  # fmt: skip
    stream, accepted = Stream(now=now), AcceptedRequests()
    for columns in chain.from_iterable(segment.read() for segment in list_segments(folder)):
        for row in checks.rows(columns):
            yield in_stream(row, stream, accepted)


def audit_archives(
    archives: Iterable[FilePath], plan: AuditPlan, *, work: FilePath | None = None, resume: bool = False, workers: int = 1,
    engine: str = "local", shard: Shard | None = None, heads: Sequence[str | Head] = (), ledger: FilePath | None = None,
    report: FilePath | None = None, material: Paths | None = None, progress: Progress | None = None,
) -> AuditResult:  # fmt: skip
    """Audit archives, and join what was found.

        result = audit_archives(["evidence"], AuditPlan(trust="pki", now=utc_now()))
        result.exit_code, result.totals.records, result.report_hash

    With several workers, call it below `if __name__ == "__main__":`, because they import the calling program.

    Args:
        archives: the archives. Those of one stream that follow on are one log.
        plan: what records are judged by.
        work: a folder outside of the archives, in which the results stay; None for a temporary one.
        resume: use the results in `work`.
        workers: the number of processes. A process that dies makes its segment unreadable, and the others are verified.
        engine: `local`; or `spark`, see `runner.run_audit`.
        shard: audit only this share of the segments. Heads, the ledger and the ends of segments are compared by a later audit with
            `resume`, which also writes the report.
        heads: what was stored elsewhere as the end of a stream: a leaf, hexadecimal, or a head.
        ledger: a CSV file with a column `payment_id`: the payments that accepted records must name, and no others.
        report: the HTML file of the report, with a JSON and a CSV file beside it; None for no report.
        material: verifies certificates in this process, such as what `plan.load` returned; None to load it.
        progress: is called with the number of records verified since the last call.

    Raises:
        ConfigurationError, FormatError, VerificationError: as `AuditPlan.load` and `Ledger`; `extra.missing`.
    """
    payments = None if ledger is None else Ledger(ledger)  # before hours of work
    segments: list[Segment] = []
    unreadable, whole = list[Finding](), list[Finding]()
    folders, readable = [as_path(archive) for archive in archives], list[Path]()
    for archive in folders:
        try:
            found = list_segments(archive)
            whole += check_files(archive)
        except ArchiveError as e:
            unreadable.append(Finding(e.code, Severity.ERROR, e.message))
        else:
            segments += found
            readable.append(archive)
    stamps, has_stamps = None, any(segment.stamp for segment in segments)
    if has_stamps:
        from tppkit.evidence.proofs import check_stamps  # an archive without stamps needs no extra

        stamps = check_stamps(segments, paths=stamp_paths(material or load_material(plan)), now=plan.now, at=plan.at)
        segments = [*stamps.segments]
        whole += stamps.findings
    with nullcontext(work) if work is not None else TemporaryDirectory(prefix="tppkit-audit-") as folder:
        results = as_path(folder)
        make_folder(results)
        keys = run_audit(
            segments, plan, work=results, resume=resume, workers=workers, engine=engine, shard=shard, material=material, progress=progress,
        )  # fmt: skip
        if shard is not None:
            return shard_result(segments, keys, work=results, max_failures=plan.max_failures, unreadable=unreadable)
        operations, unreceipted = _operations(segments, keys, results)
        result = merge_results(
            segments, keys, work=results, plan_digest=plan.digest(), heads=heads, max_failures=plan.max_failures,
            archives=readable, found=[*whole, *unreceipted], unreadable=unreadable, ledger=payments,
        )  # fmt: skip
        result = replace(result, stamps=() if stamps is None else stamps.stamps, operations=operations)
        if report is not None:
            write_report(
                result, report, plan=plan, made_at=plan.now, archives=folders, heads=heads, rows=table_lines(keys, results),
                material=material or load_material(plan),
            )  # fmt: skip
    return result


def stamp_paths(material: Paths) -> PathVerifier | None:
    """Return what time stamps are verified by: the given authorities. Trusted lists name those of certificates only."""
    if isinstance(material, TrustMaterial) and material.anchors is not None:
        return PathVerifier(material.anchors, revocation=material.revocation)
    return material if isinstance(material, PathVerifier) else None


def _operations(
    segments: Sequence[Segment], keys: Sequence[str | None], work: Path
) -> tuple[tuple[Mapping[str, Any], ...], list[Finding]]:
    """Return the receipts of all archives, and what was redacted or pruned without one."""
    receipts: dict[Path, tuple[Mapping[str, Any], ...]] = {}
    findings = list[Finding]()
    for archive in dict.fromkeys(segment.archive for segment in segments):
        try:
            receipts[archive] = read_operations(archive)
        except FormatError as e:
            findings.append(Finding("operations.malformed", Severity.ERROR, e.message))
    for segment, key in zip(segments, keys, strict=True):
        if segment.archive in receipts:
            redacted = [] if key is None else read_result(work, key)["totals"].get("redacted", [])
            findings += check_receipts(segment, redacted, receipts[segment.archive])
    return tuple({**one, "archive": str(archive)} for archive, some in receipts.items() for one in some), findings
