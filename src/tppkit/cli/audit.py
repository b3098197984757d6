"""`tppkit audit`: re-verify retained signatures.

Exit: 0 all passed and complete, 1 any failed, 2 wrong usage, 3 none failed but some indeterminate, 4 log inconsistent
(outranks 1 and 3), 5 unreadable input, 6 interrupted, 7 trust material missing.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time, parse_time
from tppkit.certificates import OrganizationPolicy
from tppkit.cli.output import (
    Raw,
    Result,
    colored,
    failure,
    finding_line,
    finding_object,
    json_option,
    parsed,
    say,
    say_error,
)
from tppkit.cli.trust_options import NOT_ASKED, TrustFiles, organization_options, trust_options
from tppkit.errors import ArchiveError, ConfigurationError, FormatError, VerificationError
from tppkit.evidence import AuditSummary, RecordVerdict, Verdict, audit_archive
from tppkit.evidence.audit import MAX_FIRST_FAILURES
from tppkit.protocol.psd2 import PSD2
from tppkit.trust import TrustMaterial

_UNREADABLE, _INTERRUPTED, _NO_TRUST = 5, 6, 7
_PROGRESS_S = 1.0


def _read_at(text: str) -> datetime | None:
    return None if text == "recorded" else parse_time(text)


def _read_head(text: str) -> str:
    if not re.fullmatch("[0-9A-Fa-f]{64}", text):
        raise click.BadParameter(f"{text!r} is not 64 hexadecimal digits")
    return text.lower()


def _read_count(text: str) -> int | None:
    if text != "all" and not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise click.BadParameter(f"{text!r} is neither a number nor 'all'")
    return None if text == "all" else int(text)


def _required_role(method: str, target: str) -> str | None:
    row = PSD2.row_of(method, target)
    return None if row is None else row.role


@click.group()
def audit() -> None:
    """Re-verify retained signatures."""


@audit.command()
@click.argument("archives", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="ARCHIVE...")
@trust_options
@click.option(
    "--at",
    default="recorded",
    show_default=True,
    metavar="recorded|TIME",
    callback=parsed(_read_at),
    help="Judge each record at its time of receipt, or all at TIME.",
)
@click.option(
    "--expect-head",
    "heads",
    multiple=True,
    metavar="LEAF",
    callback=parsed(_read_head),
    help="A head stored elsewhere; the archive is inconsistent unless it ends with this leaf.",
)
@click.option(
    "--failures",
    default=str(MAX_FIRST_FAILURES),
    show_default=True,
    metavar="all|N",
    callback=parsed(_read_count),
    help="How many failed, misplaced or warned records to list.",
)
@organization_options
@json_option
def verify(
    archives: tuple[Path, ...], trust: TrustFiles, at: datetime | None, heads: tuple[str, ...], failures: int | None,
    organizations: OrganizationPolicy,
) -> Result:  # fmt: skip
    """Verify every retained signature of each ARCHIVE again, and check that no record is missing or moved."""
    if len({os.path.realpath(archive) for archive in archives}) < len(archives):  # `resolve` fails for a loop of links
        raise click.UsageError("an archive is given twice")
    try:
        material = trust.load(at)
        if not material.has_anchors:
            raise ConfigurationError("trust.no-anchors", "no trust material: give --trust or --trusted-lists")
    except (ConfigurationError, FormatError, VerificationError) as e:
        return failure(e, _NO_TRUST)
    summary = AuditSummary(max_failures=failures, expected_heads=frozenset(heads))
    begin = time.perf_counter()
    unreadable = set()
    try:
        for archive in archives:
            try:
                rows = audit_archive(
                    archive, paths=material, at=at, organizations=organizations, required_role=_required_role
                )
                for row in _with_progress(rows, summary, begin):
                    summary.add(row)
            except ArchiveError as e:
                unreadable.add(archive)
                summary.by_code[e.code] += 1
                say_error(e)
    except KeyboardInterrupt:
        say(f"interrupted after {summary.records} records")
        raise click.exceptions.Exit(_INTERRUPTED) from None
    summary.expect(archive for archive in archives if archive not in unreadable)
    shown = _summary_object(summary, time.perf_counter() - begin, material)
    message = f"{shown['seconds']:.2f} s, {shown['records_per_second']:.0f} records/s"
    return Result(shown, _lines(shown, summary), _UNREADABLE if unreadable else summary.exit_code, message)


def _with_progress(rows: Iterator[RecordVerdict], summary: AuditSummary, begin: float) -> Iterator[RecordVerdict]:
    show = sys.stderr.isatty()
    due = begin + _PROGRESS_S
    for row in rows:
        yield row
        if show and summary.records % 256 == 0 and time.perf_counter() >= due:
            due += _PROGRESS_S
            click.echo(f"\r{summary.records} records", nl=False, err=True)
    if show and due > begin + _PROGRESS_S:
        click.echo("\r", nl=False, err=True)


def _summary_object(summary: AuditSummary, seconds: float, material: TrustMaterial) -> dict[str, Any]:
    checks = {"revocation": material.revocation, "trusted_lists": material.lists}
    return {
        "records": summary.records,
        "passed": summary.verdicts[Verdict.PASSED],
        "failed": summary.verdicts[Verdict.FAILED],
        "indeterminate": summary.verdicts[Verdict.INDETERMINATE],
        "unreadable": summary.verdicts[Verdict.UNREADABLE],
        "inconsistent": summary.inconsistent,
        "revocation_asked": material.revocation is not None,
        "not_checked": [name for name, given in checks.items() if given is None],
        "by_code": dict(sorted(summary.by_code.items())),
        "findings": [finding_object(finding) for finding in summary.findings],
        "first_failures": [_row_object(row) for row in summary.first_failures],
        "not_listed": summary.not_listed,
        "heads": [
            {"archive": str(archive), "stream_id": head.stream_id, "records": head.records, "leaf": head.leaf}
            for archive, head in summary.heads.items()
        ],
        "seconds": round(seconds, 6),
        "records_per_second": round(summary.records / seconds, 1) if seconds else 0.0,
        "engine": "local",
        "workers": 1,
    }


def _row_object(row: RecordVerdict) -> dict[str, Any]:
    return {
        "verdict": "holds" if row.verdict is Verdict.PASSED else "fails",
        "status": row.verdict.value,
        "code": row.code,
        "message": row.message,
        "log_code": row.stream_code,
        "log_message": row.stream_message,
        "findings": [finding_object(finding) for finding in row.findings],
        "archive": str(row.archive),
        "line": row.line,
        "seq": row.seq,
        "x_request_id": row.x_request_id,
        "organization_identifier": row.organization_identifier,
        "at": None if row.at is None else format_time(row.at),
    }


def _lines(shown: dict[str, Any], summary: AuditSummary) -> Iterator[str]:
    names = ("records", "passed", "failed", "indeterminate", "unreadable", "inconsistent")
    yield Raw(colored("  ".join(f"{name} {shown[name]}" for name in names), holds=summary.exit_code == 0))
    if not shown["revocation_asked"]:
        yield f"revocation: {NOT_ASKED}"
    for code, count in shown["by_code"].items():
        yield f"  {code}: {count}"
    for row in summary.first_failures:
        where = f"  {row.archive} line {row.line}"
        if row.code:
            yield f"{where}: {row.verdict}: {row.message} [{row.code}]"
        if row.stream_code:
            yield f"{where}: {row.stream_message} [{row.stream_code}]"
        yield from (f"{where}: {finding_line(finding)}" for finding in row.findings)
    if summary.not_listed:
        yield f"  {summary.not_listed} more are not listed; list them with --failures all"
    yield from (f"{finding.message} [{finding.code}]" for finding in summary.findings)
    for head in shown["heads"]:
        yield f"head of {head['archive']}: {head['records']} records, leaf {head['leaf']}"
