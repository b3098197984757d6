"""`tppkit audit`: re-verify retained signatures.

Exit: 0 all passed and complete, 1 any failed, 2 wrong usage, 3 none failed but some indeterminate, 4 log inconsistent
(outranks 1 and 3), 5 unreadable input, 6 interrupted, 7 trust material missing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import click

from tppkit._clock import parse_time
from tppkit._files import read_bounded
from tppkit.certificates import OrganizationPolicy
from tppkit.cli.audit_exhibit import ENDPOINTS, export, show
from tppkit.cli.audit_progress import shown_progress
from tppkit.cli.audit_retention import hold, prune, redact
from tppkit.cli.output import (
    Raw,
    Result,
    colored,
    counted,
    failure,
    json_option,
    parsed,
    present,
    read_time,
    say,
    say_error,
    text_of,
)
from tppkit.cli.trust_options import NO_TRUST, NOT_ASKED, TrustFiles, organization_options, trust_options
from tppkit.errors import ArchiveError, ConfigurationError, FormatError, Severity, TransportError, VerificationError
from tppkit.evidence import AuditPlan, AuditResult, Head, audit_archives, parse_head
from tppkit.evidence.archive import closed_parts
from tppkit.evidence.heads import MAX_HEAD_BYTES, head_object
from tppkit.evidence.log import check_log
from tppkit.evidence.report import not_checked
from tppkit.evidence.results import MAX_FIRST_FAILURES
from tppkit.evidence.runner import Shard

_NOT_STAMPED, _NO_RECORD, _INCONSISTENT, _UNREADABLE, _INTERRUPTED, _NO_TRUST = 1, 3, 4, 5, 6, 7
_NOT_GIVEN = (
    "revocation",
    "trusted_lists",
    "stamps",
)  # the options that are missing; the report names what else is not known


def _read_at(text: str) -> datetime | None:
    return None if text == "recorded" else parse_time(text)


def _read_head(text: str) -> str | Head:
    if re.fullmatch("[0-9A-Fa-f]{64}", text):
        return text.lower()
    if not Path(text).is_file():
        raise click.BadParameter(f"{text!r} is neither 64 hexadecimal digits nor a file")
    return parse_head(read_bounded(Path(text), max_bytes=MAX_HEAD_BYTES).decode("utf-8", "replace"))


def _read_shard(text: str) -> Shard:
    match = re.fullmatch("([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise click.BadParameter(f"{text!r} is not i/n, with i from 0 to n - 1")
    return Shard(int(match[1]), int(match[2]))


def _read_count(text: str) -> int | None:
    if text != "all" and not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise click.BadParameter(f"{text!r} is neither a number nor 'all'")
    return None if text == "all" else int(text)


@click.group()
def audit() -> None:
    """Re-verify retained signatures."""


for _command in (show, export, redact, prune, hold):
    audit.add_command(_command)


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
    metavar="LEAF_OR_FILE",
    callback=parsed(_read_head),
    help="A head stored elsewhere: the leaf with which the archive must end, or a file of `audit log head`.",
)
@click.option(
    "--failures",
    default=str(MAX_FIRST_FAILURES),
    show_default=True,
    metavar="all|N",
    callback=parsed(_read_count),
    help="How many failed, misplaced or warned records to list.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write the report for a person to file; FILE.json and FILE.csv are written beside it.",
)
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.csv",
    help="Payments, in a column payment_id: each must have an accepted record, and no record may name another payment.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Processes that verify. Default: one for each processor.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where to verify: on this machine, or on the Spark cluster that is configured.",
)
@click.option(
    "--shard",
    metavar="i/n",
    callback=parsed(_read_shard),
    help="Verify only share i of n, from 0, and keep the results in --work. Then --resume, without --shard, joins all shares.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the results in this folder, so that --resume can go on after an interruption.",
)
@click.option(
    "--from", "received_from", metavar="TIME", callback=read_time, help="Examine records received at TIME or later."
)
@click.option("--to", "received_to", metavar="TIME", callback=read_time, help="Examine records received before TIME.")
@click.option(
    "--organisation",
    "selected",
    multiple=True,
    metavar="ID",
    help="Examine records whose seal certificate names this organizationIdentifier.",
)
@click.option("--resume", is_flag=True, help="Use the results in the folder of --work.")
@organization_options
@json_option
def verify(
    archives: tuple[Path, ...], trust: TrustFiles, at: datetime | None, heads: tuple[str | Head, ...], failures: int | None,
    report: Path | None, work: Path | None, received_from: datetime | None, received_to: datetime | None, selected: tuple[str, ...],
    resume: bool, organizations: OrganizationPolicy, ledger: Path | None, workers: int | None, engine: str, shard: Shard | None,
) -> Result:  # fmt: skip
    """Verify every retained signature of each ARCHIVE again, and check that no record is missing or moved."""
    if len({os.path.realpath(archive) for archive in archives}) < len(archives):  # `resolve` fails for a loop of links
        raise click.UsageError("an archive is given twice")
    if resume and work is None:
        raise click.UsageError("--resume needs the folder of --work")
    if work is not None and any(Path(os.path.realpath(work)).is_relative_to(os.path.realpath(one)) for one in archives):
        raise click.UsageError(f"--work {work} is in an archive, which an audit does not change: give another folder")
    if shard is not None and work is None:
        raise click.UsageError("--shard needs the folder of --work")
    if shard is not None and (heads or ledger or report):
        raise click.UsageError("--expect-head, --ledger and --report belong to the audit that joins all shares")
    if received_from is not None and received_to is not None and received_from >= received_to:
        raise click.UsageError("--from must be earlier than --to")
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--report {report} does not end with .html")
    plan = AuditPlan(
        now=present(None), trust=_text(trust.anchors), trusted_lists=_text(trust.lists), answers=tuple(map(str, trust.answers)), at=at,
        organizations=organizations, endpoints=ENDPOINTS, max_failures=failures,
        received_from=received_from, received_to=received_to, selected=selected,
    )  # fmt: skip
    try:
        material = trust.load(at)
        if not material.has_anchors:
            raise ConfigurationError("trust.no-anchors", NO_TRUST)
    except (ConfigurationError, FormatError, VerificationError) as e:
        return failure(e, _NO_TRUST)
    processes = workers or len(os.sched_getaffinity(0))
    begin = time.perf_counter()
    folder = work or Path(mkdtemp(prefix="tppkit-audit-"))
    is_interrupted = False
    try:
        with shown_progress(archives) as progress:
            result = audit_archives(
                archives, plan, work=folder, resume=resume, workers=processes, engine=engine, shard=shard, heads=heads, ledger=ledger,
                report=report, material=material, progress=progress,
            )  # fmt: skip
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C and other signals
        is_interrupted = True
        say(f"interrupted; go on with --work {folder} --resume")
        raise click.exceptions.Exit(_INTERRUPTED) from None
    except FormatError as e:  # of the ledger; the trust material has been read
        return failure(e, _UNREADABLE)
    finally:
        if work is None and not is_interrupted:
            rmtree(folder, ignore_errors=True)
    for finding in result.unreadable:
        say_error(ArchiveError(finding.code, finding.message))
    shown = _result_object(result, plan, heads, time.perf_counter() - begin)
    shown |= {"engine": engine, "workers": processes}
    message = f"{shown['seconds']:.2f} s, {shown['records_per_second']:.0f} records/s"
    return Result(shown, _lines(shown, result, bool(heads)), result.exit_code, message)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _result_object(
    result: AuditResult, plan: AuditPlan, heads: tuple[str | Head, ...], seconds: float
) -> dict[str, Any]:
    return {
        **result.to_object(),
        "revocation_asked": bool(plan.answers),
        "not_checked": [name for name in not_checked(result, plan, heads) if name in _NOT_GIVEN],
        "findings": [finding.to_object() for finding in result.findings],
        "first_failures": list(result.first_failures),
        "not_listed": result.not_listed,
        "seconds": round(seconds, 6),
        "records_per_second": round(result.records / seconds, 1) if seconds else 0.0,
    }


def _lines(shown: dict[str, Any], result: AuditResult, has_heads: bool) -> Iterator[str]:
    names = ("records", "passed", "failed", "indeterminate", "unreadable", "inconsistent")
    yield Raw(colored("  ".join(f"{name} {shown[name]}" for name in names), holds=result.exit_code == 0))
    if "revocation" in shown["not_checked"] and result.records:
        without = shown["without_revocation"]
        of = "" if without == result.records else f" of {counted(without, 'record')}"
        yield f"revocation{of}: {NOT_ASKED}"
    if not has_heads:
        yield "end of the log: not known whether records were cut off; give --expect-head"
    open_stamps = [stamp for stamp in result.stamps if stamp.status == "not-checked"]
    if open_stamps:
        yield f"time stamps: {len(open_stamps)} of {len(result.stamps)} not checked: {open_stamps[0].message}"
    for code, count in shown["by_code"].items():
        yield f"  {code}: {count}"
    for row in result.first_failures:
        where = f"  {row['archive']} line {row['line']}"
        yield from (f"{where}: {row['status']}: {one['message']} [{one['code']}]" for one in row["failures"])
        if row["log_code"]:
            yield f"{where}: {row['log_message']} [{row['log_code']}]"
        yield from (f"{where}: {one['severity']}: {one['message']} [{one['code']}]" for one in row["findings"])
    if shown["not_listed"]:
        yield f"  {shown['not_listed']} more are not listed; list them with --failures all"
    yield from (f"{finding.message} [{finding.code}]" for finding in result.findings)
    for head in result.heads:
        yield f"head of {head.archive}: {counted(head.records, 'record')}, leaf {head.leaf}"


@audit.command()
@click.argument("archive", type=click.Path(path_type=Path), metavar="ARCHIVE")
@click.option(
    "--tsa", metavar="URL", help="Ask this time-stamping authority (RFC 3161) to stamp the head of each sealed part."
)
@json_option
def seal(archive: Path, tsa: str | None) -> Result:
    """Seal the closed parts of ARCHIVE into Parquet files with manifests, a quarter of their size; run it by cron.

    Exit 1: the authority gave no time stamp, but what could be sealed is; run it again later.
    """
    from tppkit.evidence.sealing import seal_archive

    try:
        sealed = list(seal_archive(archive))
    except ArchiveError as e:
        return failure(e, _UNREADABLE)
    stamped, is_stamped = ([], True) if tsa is None else _stamp(archive, tsa)
    shown = [
        {"file": one.file, "first_seq": one.first_seq, "records": one.records, "root": one.root, "sha256": one.sha256} for one in sealed
    ]  # fmt: skip
    left = [name for _, name in closed_parts(archive)]
    lines = [f"{one.file}: {counted(one.records, 'record')} from {one.first_seq}" for one in sealed]
    lines += [f"{name}: stamped by {tsa}" for name in stamped]
    lines += [f"{name} is not sealed: it does not check; run tppkit audit verify {archive}" for name in left]
    exit_code = _INCONSISTENT if left else 0 if is_stamped else _NOT_STAMPED
    return Result({"sealed": shown, "stamped": stamped, "not_sealed": left}, lines or ["nothing to seal"], exit_code)


def _stamp(archive: Path, url: str) -> tuple[list[str], bool]:
    """Stamp what has no time stamp; return the files, and whether all were stamped."""
    from tppkit.client import make_fetch
    from tppkit.evidence.proofs import stamp_archive

    stamped = []
    try:
        for name in stamp_archive(archive, url, fetch=make_fetch(allow_private=True)):
            stamped.append(name)  # noqa: PERF402  # those before a failure count
    except (TransportError, FormatError) as e:
        say_error(e)
        return stamped, False
    return stamped, True


@audit.group()
def log() -> None:
    """The log of an archive: whether its records follow on, without their signatures."""


_archive = click.argument("archive", type=click.Path(path_type=Path), metavar="ARCHIVE")


@log.command("head")
@_archive
@json_option
def log_head(archive: Path) -> Result:
    """Print the head of ARCHIVE: three lines to give to another party, for --expect-head."""
    try:
        report = check_log(archive, now=present(None))
    except ArchiveError as e:
        return failure(e, _UNREADABLE)
    if report.head is None:
        raise FormatError("head.unknown", f"the archive {archive} contains no record")
    return Result(head_object(report.head), [Raw(line) for line in report.head.text.splitlines()])


@log.command("verify")
@_archive
@json_option
def log_verify(archive: Path) -> Result:
    """Check that no record of ARCHIVE is missing, moved or changed."""
    try:
        report = check_log(archive, now=present(None))
    except ArchiveError as e:
        return failure(e, _UNREADABLE)
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    unreadable = [
        finding for finding in errors if not finding.code.startswith("log.") and finding.code != "record.leaf"
    ]
    exit_code = _UNREADABLE if unreadable else _INCONSISTENT if errors else 0 if report.records else _NO_RECORD
    shown = {
        "records": report.records,
        "findings": [finding.to_object() for finding in report.findings],
        "head": report.head and head_object(report.head),
    }
    lines = [Raw(colored(f"records {report.records}  findings {len(report.findings)}", holds=exit_code == 0))]
    lines += [Raw(f"  {finding.severity}: {text_of(finding.message)} [{finding.code}]") for finding in report.findings]
    if report.head is not None:
        lines.append(
            Raw(
                f"head: {counted(report.head.records, 'record')}, leaf {report.head.leaf}, root {report.head.root or 'unknown'}"
            )
        )
    return Result(shown, lines, exit_code)
