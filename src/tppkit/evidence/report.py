"""The report of an audit as one HTML file without scripts or links to other servers, for a person to read and file.

    write_report(result, "report.html", plan=plan, made_at=utc_now())

Beside it are `report.json`, the same for programs, and `report.csv`, a row for each record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tppkit import __version__
from tppkit._clock import format_time, optional_time
from tppkit._files import FilePath, as_path, replace_file, replacing
from tppkit.codes import CODES
from tppkit.evidence.heads import Head
from tppkit.evidence.page import STYLE, chart, count, lines_of, listed, table, text
from tppkit.evidence.report_proof import command_of, proof_sections
from tppkit.evidence.results import AuditResult, Cause
from tppkit.evidence.runner import AuditPlan
from tppkit.evidence.verdicts import Verdict, sub_indication
from tppkit.seals.policy import Paths
from tppkit.trust import PathVerifier, TrustMaterial

_NAMES = {
    "revocation": "Revocation of {without_revocation:,} of {records:,} records: no CRL or OCSP response was kept or given, so a revoked "
    "certificate is not recognised.",
    "trusted_lists": "Qualified status: no trusted lists were given, so certificates are trusted by the given authorities only.",
    "heads": "Completeness of the end: no head that another party keeps was given, so records cut off the end are not recognised.",
    "time": "Time of receipt of {unstamped:,} of {records:,} records: it is a statement of the archive's owner, and no time "
    "stamp of another party proves when they existed.",
    "stamps": "Time stamps: some cannot be checked with the given material; section 7 says why.",
}


def write_report(
    result: AuditResult,
    file: FilePath,
    *,
    plan: AuditPlan,
    made_at: datetime,
    archives: Sequence[FilePath] = (),
    heads: Sequence[str | Head] = (),
    rows: Iterable[bytes] = (),
    material: Paths | None = None,
) -> None:
    """Write the report and what belongs to it; existing files are replaced.

    Args:
        result: what the audit found.
        file: the HTML file; the others get its name with another ending.
        plan: what records were judged by.
        made_at: the present, aware UTC.
        archives: the archives that were audited.
        heads: the heads that were expected.
        rows: the lines of the table of all records.
        material: what the plan trusts; None if it is not known.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    path = as_path(file)
    value = report_object(result, plan=plan, made_at=made_at, archives=archives, heads=heads, material=material)
    replace_file(path, "\n".join(_page(result, value)).encode())
    replace_file(path.with_suffix(".json"), (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
    with replacing(path.with_suffix(".csv")) as table:
        table.writelines(rows)


def not_checked(result: AuditResult, plan: AuditPlan, heads: Sequence[str | Head]) -> tuple[str, ...]:
    """Return the names of what an audit by a plan could not check, at least for some records."""
    has_revocation = plan.answers or (result.records and not result.totals.without_revocation)
    statuses = {stamp.status for stamp in result.stamps}
    asked = {
        "revocation": has_revocation,
        "trusted_lists": plan.trusted_lists,
        "heads": heads,
        "time": result.records and not result.totals.unstamped,
        "stamps": "not-checked" not in statuses,
    }
    return tuple(name for name, given in asked.items() if not given)


def report_object(
    result: AuditResult,
    *,
    plan: AuditPlan,
    made_at: datetime,
    archives: Sequence[FilePath],
    heads: Sequence[str | Head],
    material: Paths | None,
) -> dict[str, Any]:
    """Return the content of the report for JSON."""
    totals = result.totals
    times = (optional_time(totals.received_from), optional_time(totals.received_to))
    return {
        "made_at": format_time(made_at),
        "software": f"tppkit/{__version__}",
        **result.to_object(),
        "exit_code": result.exit_code,
        "received_from": times[0] and format_time(times[0]),
        "received_to": times[1] and format_time(times[1]),
        "judged_at": "recorded" if plan.at is None else format_time(plan.at),
        "chosen": {
            "from": plan.received_from and format_time(plan.received_from),
            "to": plan.received_to and format_time(plan.received_to),
            "organisations": list(plan.selected),
        },
        "trusted": [{"name": name, "kind": kind, "sha256": sha256} for name, kind, sha256 in _trusted(material)],
        "not_checked": list(not_checked(result, plan, heads)),
        "expected_heads": [head if isinstance(head, str) else head.records for head in heads],
        "unstamped": totals.unstamped,
        "findings": [one.to_object() for one in (*result.findings, *result.unreadable)],
        "clocks": dict(totals.clocks),
        "ends": [{"day": day or None, "records": number} for day, number in sorted(totals.ends.items())],
        "operations": [dict(one) for one in result.operations],
        "plan_digest": plan.digest(),
        "command": command_of(archives, plan, heads),
        "groups": [{**group._asdict(), "records": number} for group, number in sorted(totals.groups.items())],
        "causes": [asdict(cause) for cause in totals.causes.values()],
    }


def _trusted(material: Paths | None) -> Iterator[tuple[str, str, str]]:
    anchors = material.anchors if isinstance(material, PathVerifier | TrustMaterial) else None
    if anchors is not None:
        yield from ((str(one.subject), "root", one.sha256) for one in anchors.roots)
        yield from ((str(one.subject), "intermediate", one.sha256) for one in anchors.intermediates)
    if isinstance(material, TrustMaterial):
        lists = material.lists
        for one in () if lists is None else filter(None, (lists.list_of_lists, *lists.lists)):
            yield f"{one.territory}, number {one.sequence_number}", "trusted list", one.sha256
        yield from (("of callbacks", "public key", sha256) for sha256 in sorted(material.keys))


def _page(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    kind, sentence = _sentence(result)
    if kind == "holds":
        sentence += (
            " What came behind it is not known." if "heads" in value["not_checked"] else " The expected heads match."
        )
    yield "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    yield f"<title>Audit of retained signatures</title><style>{STYLE}</style>"
    yield "<h1>Audit of retained signatures</h1>"
    made = f"Made {text(value['made_at'])} with {text(value['software'])}"
    yield f"<p class=small>{made}. Report hash <code>{text(value['report_hash'])}</code></p>"
    yield f"<p class='verdict {kind}'>{text(sentence)}</p><div class=numbers>"
    for name in ("records", "passed", "failed", "indeterminate", "inconsistent"):
        yield f"<div><b>{value[name]:,}</b>{name}</div>"
    yield "</div><p><b>Not checked:</b></p>"
    yield from listed(_NAMES[name].format_map(value) for name in value["not_checked"])
    yield from _codes(result, value)
    yield from _scope(value)
    yield from _completeness(result, value)
    yield from _providers(result)
    yield from _causes(result)
    yield from proof_sections(result, value)
    yield "</html>"


def _sentence(result: AuditResult) -> tuple[str, str]:
    verdicts, records, codes = result.verdicts, result.records, result.by_code
    parts = []
    if number := len(result.unreadable) + verdicts[Verdict.UNREADABLE]:
        parts.append(f"{count(number, 'line or file', 'lines or files')} cannot be read")
    if number := result.inconsistent:
        gaps = f" (records are missing in {codes['log.gap']:,})" if codes["log.gap"] else ""
        parts.append(f"the log is inconsistent in {count(number, 'place', 'places')}{gaps}")
    if number := verdicts[Verdict.FAILED]:
        parts.append(f"{count(number, 'record is', 'records are')} disproved")
    if number := verdicts[Verdict.INDETERMINATE]:
        parts.append(
            f"{count(number, 'record', 'records')} can be neither proven nor disproved with the material at hand"
        )
    if number := codes["archive.damaged-file"]:
        parts.append(f"{count(number, 'stored file is', 'stored files are')} damaged")
    if number := codes["log.empty"] if records else 0:
        parts.append(f"{count(number, 'archive has', 'archives have')} no record")
    if records and not parts:
        return (
            "holds",
            f"Every signature holds: {records:,} of {count(records, 'record is', 'records are')} proven,"
            " and none is missing before the last.",
        )
    sentence = "There is no record, so nothing is proven"
    if records:
        sentence = f"{verdicts[Verdict.PASSED]:,} of {count(records, 'record is', 'records are')} proven"
    if parts:
        sentence += f"; {', '.join(parts)}"
    return "open" if result.exit_code == 3 else "fails", f"{sentence}."


def _codes(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>1. Results</h2>"
    if result.by_code:
        rows = []
        for code, number in result.by_code.items():
            known = CODES.get(code)
            rows.append((code, _sub_indication(code), known.meaning if known else "", number))
        yield table(("Code", "EN 319 102-1", "Meaning", "Number"), rows)
    else:
        yield "<p>No failure, warning or notice.</p>"
    months = result.totals.by("month", "verdict")
    names = sorted({month for month, _ in months if month})
    if names:
        everything = [sum(number for (one, _), number in months.items() if one == month) for month in names]
        failed = [
            sum(number for (one, verdict), number in months.items() if one == month and verdict != "passed")
            for month in names
        ]
        yield "<p class=small>Records by month of receipt</p>" + chart(names, everything, "#3b6ea5")
        if any(failed):
            yield "<p class=small>Records that do not hold, by month</p>" + chart(names, failed, "#b42318")


def _sub_indication(code: str) -> str:
    return "" if code.startswith(("log.", "archive.")) else sub_indication(code) or ""


def _scope(value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>2. What was examined</h2>"
    judged = "its time of receipt" if value["judged_at"] == "recorded" else value["judged_at"]
    period = (
        f"received {value['received_from']} to {value['received_to']}"
        if value["received_from"]
        else "without a time of receipt"
    )
    yield f"<p>{count(value['records'], 'record', 'records')}, {text(period)}. Each was judged at {text(judged)}.</p>"
    if any(value["chosen"].values()):
        chosen = {name: one for name, one in value["chosen"].items() if one}
        words = "; ".join(f"{name} {', '.join(one) if isinstance(one, list) else one}" for name, one in chosen.items())
        yield f"<p>Only these were examined: {text(words)}. All others have only their places in the log.</p>"
    if trusted := value["trusted"]:
        yield "<p>What was trusted; an intermediate authority counts only with a chain to a trusted root:</p>"
        yield table(("Name", "Kind", "SHA-256"), [tuple(one.values()) for one in trusted])
    if value["not_checked"]:
        yield "<p>What was not checked is on the first page.</p>"


def _completeness(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>3. Completeness</h2>"
    if value["findings"]:
        yield from listed(f"{one['message']} [{one['code']}]" for one in value["findings"])
    elif result.inconsistent:
        yield "<p>Records are missing, repeated, moved or changed; section 5 lists them.</p>"
    else:
        yield "<p>The records of each log follow on from the first to the last.</p>"
    if heads := value["expected_heads"]:
        what = ", ".join(count(one, "record", "records") if isinstance(one, int) else f"leaf {one}" for one in heads)
        differs = any(one["code"] == "log.head" for one in value["findings"])
        outcome = "do not all match, see above." if differs else "match."
        yield f"<p>The heads that another party keeps ({text(what)}) {outcome}</p>"
    else:
        yield "<p>Without a head that another party keeps, an audit cannot know whether records were cut off the end, or all rewritten.</p>"
    rows = [(head.archive, head.stream_id, head.records, head.leaf, head.root or "unknown") for head in result.heads]
    yield table(("Archive", "Stream", "Records", "Last leaf", "Root"), rows)


def _providers(result: AuditResult) -> Iterator[str]:
    yield "<h2>4. Providers and endpoints</h2>"
    for name, title in (("claimed_by", "Organisation of the seal certificate"), ("endpoint", "Endpoint")):
        counts = result.totals.by(name, "verdict")
        rows = []
        for one in sorted({key for key, _ in counts}):
            numbers = {verdict: number for (key, verdict), number in counts.items() if key == one}
            rows.append(
                (one or "unknown", sum(numbers.values()), *(numbers.get(verdict.value, 0) for verdict in Verdict))
            )
        yield table((title, "Records", *(verdict.value.capitalize() for verdict in Verdict)), rows)


def _causes(result: AuditResult) -> Iterator[str]:
    yield "<h2>5. Records that do not hold, by cause</h2>"
    causes = sorted(result.totals.causes.values(), key=lambda cause: -cause.records)
    if not causes:
        yield "<p>None.</p>"
    for cause in causes:
        yield from _cause(cause)


def _cause(cause: Cause) -> Iterator[str]:
    first, last = cause.first, cause.last
    title = ", ".join(cause.codes)
    yield f"<details open><summary><b>{text(title)}</b>: {cause.records:,} of {text(cause.claimed_by or 'unknown')}</summary>"
    where = [
        f"{one['archive']} line {one['line']}" + (f", record {one['seq']}" if one["seq"] is not None else "")
        for one in (first, last)
    ]
    yield f"<p class=small>First: {text(where[0])}. Last: {text(where[1])}.</p>"
    failures = [
        *first["failures"],
        *([{"code": first["log_code"], "message": first["log_message"]}] if first["log_code"] else []),
    ]
    rows = [(one["code"], one["message"], CODES[one["code"]].hint if one["code"] in CODES else "") for one in failures]
    yield table(("Code", "The first record in full", "What to do"), rows)
    if first.get("signed"):
        yield "<p class=small>What was signed:</p>" + lines_of(first["signed"])
    judged = "" if first["at"] is None else f", judged at {text(first['at'])}"
    yield f"<p class=small>X-Request-ID <code>{text(first['x_request_id'] or 'unknown')}</code>{judged}</p></details>"
