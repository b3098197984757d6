"""Heads of logs: as text, as what an audit compares, and as what only they reveal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.evidence import AuditPlan, EvidenceArchive, EvidenceRecord, Head, audit_archives, parse_head
from tppkit.evidence.log import check_log
from tppkit.evidence.tree import Frontier

NOW = datetime(2026, 6, 2, tzinfo=UTC)
STREAM = "5a" * 16


def lines_of(folder) -> list[bytes]:
    return (folder / "records.jsonl").read_bytes().splitlines(keepends=True)


@given(st.integers(0, 10**18), st.binary(min_size=32, max_size=32))
def test_a_head_is_read_as_it_was_written(records, root):
    head = Head(STREAM, records, root.hex())
    assert parse_head(head.text) == parse_head(head.text + "\n\u2014 witness c2lnbmF0dXJl\n") == head


@given(st.text())
def test_only_format_error_escapes_from_a_head(text):
    with refused(FormatError, "head.malformed"):
        parse_head(text)


def test_other_texts_are_no_heads():
    good = Head(STREAM, 3, "ab" * 32).text
    for text in (
        good[:-1],
        good.replace("3\n", "03\n"),
        good.replace("evidence", "other"),
        good.replace("5a", "5A"),
        good + "x",
        good * 60,
    ):
        with refused(FormatError, "head.malformed"):
            parse_head(text)


def test_a_log_has_the_root_over_the_leaves_of_its_records(filled):
    report = check_log(filled, now=NOW)
    frontier = Frontier()
    for line in lines_of(filled):
        frontier.add(bytes.fromhex(EvidenceRecord.from_line(line).leaf))
    assert report.head == Head(STREAM, 3, frontier.root().hex(), EvidenceRecord.from_line(lines_of(filled)[-1]).leaf)
    assert (report.records, report.findings) == (3, ())


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda lines: [lines[0], lines[2]], ["log.gap"]),
        (lambda lines: [lines[0], lines[0], *lines[1:]], ["log.repeated"]),
        (
            lambda lines: [lines[0], lines[1].replace(b'"http_status":201', b'"http_status":202'), lines[2]],
            ["record.leaf"],
        ),
        (lambda lines: [b"{}\n", *lines], ["record.version"]),
    ],
    ids=["missing", "repeated", "changed", "inserted"],
)
def test_a_log_that_does_not_follow_on_says_where(change, codes, filled):
    whole = check_log(filled, now=NOW).head
    (filled / "records.jsonl").write_bytes(b"".join(change(lines_of(filled))))
    report = check_log(filled, now=NOW)
    assert [finding.code for finding in report.findings] == codes
    # A record that is only repeated or inserted leaves the tree as it was.
    assert (report.head == whole) is (codes[0] in ("log.repeated", "record.version"))


def test_a_head_holds_for_a_log_that_has_grown(filled, paths, append):
    head = check_log(filled, now=NOW).head
    with EvidenceArchive(filled, stream_id=STREAM) as archive:
        append(archive, 3, 4)
    for records in (1, 2, 3, 5):
        frontier = Frontier()
        for line in lines_of(filled)[:records]:
            frontier.add(bytes.fromhex(EvidenceRecord.from_line(line).leaf))
        known = Head(STREAM, records, frontier.root().hex())
        assert audit_archives([filled], AuditPlan(now=NOW), heads=[known], material=paths).exit_code == 0
    assert parse_head(head.text).root == head.root


def test_only_a_head_shows_that_the_end_was_cut_off_or_rewritten(filled, paths, append, tmp_path):
    head = parse_head(check_log(filled, now=NOW).head.text)
    lines = lines_of(filled)
    rewritten = replace(EvidenceRecord.from_line(lines[2]), http_status=400).to_line()
    for changed, message in (
        (lines[:2], "records were cut off the end"),
        ([*lines[:2], rewritten], "They were rewritten, or one of them is missing or damaged"),
    ):
        (filled / "records.jsonl").write_bytes(b"".join(changed))
        assert audit_archives([filled], AuditPlan(now=NOW), material=paths).exit_code == 0
        result = audit_archives([filled], AuditPlan(now=NOW), heads=[head], material=paths)
        assert (result.exit_code, [finding.code for finding in result.findings]) == (4, ["log.head"])
        assert message in result.findings[0].message
    other = replace(head, stream_id="c3" * 16)
    assert (
        "which no archive has"
        in audit_archives([filled], AuditPlan(now=NOW), heads=[other], material=paths).findings[0].message
    )
