"""Sections 6 to 10 of the report: what is proven in law, by whose clock, for how long, and how to repeat the audit."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tppkit._clock import format_time
from tppkit._files import FilePath
from tppkit.certificates import OrganizationPolicy
from tppkit.certificates.algorithms import NEVER, policy
from tppkit.evidence.heads import Head
from tppkit.evidence.page import count, listed, table, text
from tppkit.evidence.results import AuditResult
from tppkit.evidence.runner import AuditPlan
from tppkit.evidence.verdicts import step_of

_SANDBOX = "sandbox"
_UNREAD = ("file.", "der.", "record.certificate", "certificate.malformed")


def proof_sections(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sections as HTML.

    Args:
        result: what the audit found.
        value: the content of the report, as `report.report_object` returns it.
    """
    yield from _law(result, value)
    yield from _clocks(result, value)
    yield from _horizon(result)
    yield from _operations(result)
    yield from _repeat(value)


def _law(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>6. eIDAS Article 32a</h2>"
    callbacks = result.totals.keys.total()
    records = result.records - callbacks
    yield (
        f"<p>Regulation (EU) No 910/2014, Article 32a with Article 40a: advanced seals with a qualified certificate. Of"
        f" {count(records, 'record', 'records')} with certificates, as far as this audit checked:</p>"
    )
    trusted = _holding(result, records, 3)
    when = "the time of receipt" if value["judged_at"] == "recorded" else str(value["judged_at"])
    revoked = value["without_revocation"]
    unasked = f" Revocation of {count(revoked, 'record', 'records')} was not checked." if revoked else ""
    qualified = (
        f"No trusted lists were given, so it is not shown. {trusted} have certificates with the form of a qualified one."
        if "trusted_lists" in value["not_checked"]
        else f"{trusted} have certificates that the trusted lists show as qualified at {when}."
    )
    issued = "" if "trusted_lists" not in value["not_checked"] else " That the issuer is a qualified one is not shown."
    rows = (
        ("(a) The certificate was qualified", qualified),
        ("(b) A qualified provider issued it, and it was valid", f"{trusted} have a valid chain at {when}.{unasked}{issued}"),
        ("(c) The validation data fits", f"{_holding(result, records, 4)} have a signature that the certificate's key verifies."),
        ("(d) The creator of the seal is named", "The organisation in each certificate is in section 4 and in the table."),
        ("(e) A pseudonym is indicated", "A seal names a legal person. The audit does not look for pseudonyms."),
        ("(f) The signed data is intact", f"{_holding(result, records, 1, 2, 4, 5)} are as they were signed and stored."),
        (
            "(g) The seal is an advanced one (Article 36)",
            "That the seal identifies its creator and detects changes follows from (c), (d) and (f). Who controlled the key, and whether a"
            " qualified device kept it, a record cannot show.",
        ),
    )  # fmt: skip
    yield table(("Condition", "What was found"), rows)
    if callbacks:
        yield f"<p>{count(callbacks, 'callback has', 'callbacks have')} no certificate, so the article does not apply to them.</p>"


def _holding(result: AuditResult, records: int, *steps: int) -> str:
    """Return how many records have no failure in these steps.

    Lines that are no record, and records whose seal was not verified because a certificate cannot be read, do not count.
    """
    failed = sum(
        cause.records
        for cause in result.totals.causes.values()
        if cause.codes == ("others",)
        or cause.first["seq"] is None
        or any(step_of(code) in steps or code.startswith(_UNREAD) for code in cause.codes)
    )
    return f"{records - failed:,}"


def _clocks(result: AuditResult, value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>7. Time and clocks</h2>"
    yield "<p>The time of receipt of a record is a statement of the archive's owner, made by the clock that the record names.</p>"
    rows = [
        (name, number, "It can be set, so its times prove nothing." if name == _SANDBOX else "Stated, not proven.")
        for name, number in sorted(result.totals.clocks.items())
    ]
    yield table(("Clock", "Records", "What it proves"), rows)
    if not result.stamps:
        yield "<p>There is no time stamp: no other party states when the records existed.</p>"
        return
    yield "<p>A time stamp proves that all records up to its head existed at its time:</p>"
    yield table(
        ("Stamp", "Records", "Status", "Time", "Authority", "Why not"),
        [
            (f"{one.archive}/{one.file}", one.records, one.status, one.at or "", one.authority or "", one.message or "")
            for one in result.stamps
        ],
    )


def _horizon(result: AuditResult) -> Iterator[str]:
    yield "<h2>8. How long the proof lasts</h2>"
    rows = [(day or "no end is planned", number) for day, number in sorted(result.totals.ends.items(), key=_by_day)]
    if not rows:
        yield "<p>No record is proven.</p>"
    else:
        yield "<p>Signatures prove nothing any more once their algorithm has ended, unless a time stamp is older than the end:</p>"
        yield table(("Proven until", "Records"), rows)
        if any(result.totals.ends):
            yield (
                "<p>Stamp the archive before that day, at an authority whose own algorithm lasts longer: <code>tppkit audit seal --tsa"
                "</code>.</p>"
            )
    yield "<p class=small>Ends of algorithms:</p>"
    yield table(
        ("Algorithm", "From bits", "End", "Source"),
        [
            (row.scheme, row.min_bits, "none planned" if row.end == NEVER else format_time(row.end)[:10], row.source)
            for row in policy()
        ],
    )


def _by_day(row: tuple[str, int]) -> tuple[bool, str]:
    return not row[0], row[0]


def _operations(result: AuditResult) -> Iterator[str]:
    yield "<h2>9. Redactions, pruning and holds</h2>"
    redacted = result.by_code["record.body-redacted"]
    if redacted:
        yield f"<p>The bodies of {count(redacted, 'record', 'records')} were redacted: their digests stay, and they were not checked.</p>"
    if not result.operations:
        yield "<p>The archives have no receipt of any.</p>"
        return
    names = ("archive", "time", "operation", "by", "ground")
    rows = [[*(one.get(name, "") for name in names), _ranges(one.get("records", ()))] for one in result.operations]
    yield table([*(name.capitalize() for name in names), "Records"], rows)


def _ranges(records: Iterable[Sequence[int]]) -> str:
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in records)


def _repeat(value: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>10. How to repeat this audit</h2>"
    yield f"<pre>{text(value['command'])}</pre>"
    yield from listed(
        (
            "The report hash is the same for the same records, material and version, on any machine and day, until an algorithm ends.",
            f"Report hash: {value['report_hash']}",
            f"Plan digest: {value['plan_digest']} (trust material, choice of records, endpoints, algorithms, version)",
            f"Version: {value['software']}",
        )
    )
    yield "<table class=sign>"
    for name in ("Auditor", "Place and date", "Signature"):
        yield f"<tr><th>{name}</th><td></td></tr>"
    yield "</table>"


def _file_of(head: Head) -> str:
    return f"FILE WITH THE HEAD OF {count(head.records, 'RECORD', 'RECORDS')}"  # whose name the plan does not know


def command_of(archives: Sequence[FilePath], plan: AuditPlan, heads: Sequence[str | Head]) -> str:
    """Return the command that repeats an audit."""
    words = ["tppkit", "audit", "verify", *map(str, archives)]
    given: list[tuple[str, Sequence[object]]] = [
        ("--trust", [plan.trust] if plan.trust else []),
        ("--trusted-lists", [plan.trusted_lists] if plan.trusted_lists else []),
        ("--crl", plan.answers),  # an option reads answers of both kinds
        ("--at", [format_time(plan.at)] if plan.at else []),
        ("--from", [format_time(plan.received_from)] if plan.received_from else []),
        ("--to", [format_time(plan.received_to)] if plan.received_to else []),
        ("--organisation", plan.selected),
        ("--org-scheme", plan.organizations.schemes if plan.organizations.schemes != OrganizationPolicy().schemes else ()),
        ("--expect-head", [head if isinstance(head, str) else _file_of(head) for head in heads]),
    ]  # fmt: skip
    for option, values in given:
        for one in values:
            words += [option, str(one)]
    if not plan.organizations.match_authority:
        words.append("--any-authority")
    return shlex.join(words)
