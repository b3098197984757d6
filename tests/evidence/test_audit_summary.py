"""The summary of many verdicts: counts, the first failures, the exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tppkit.errors import Finding, Severity
from tppkit.evidence import AuditSummary, RecordVerdict, Verdict
from tppkit.evidence.audit import Head

ROW = RecordVerdict(Path("archive"), 1, 0, "id", Verdict.PASSED)
FAILED = replace(ROW, verdict=Verdict.FAILED, code="signature.invalid")
INDETERMINATE = replace(ROW, verdict=Verdict.INDETERMINATE, code="trust.no-path")
UNREADABLE = replace(ROW, verdict=Verdict.UNREADABLE, code="json.malformed", seq=None, x_request_id=None)
GAP = replace(ROW, stream_code="log.gap")


@pytest.mark.parametrize(
    ("rows", "exit_code"),
    [
        ([], 3),
        ([ROW], 0),
        ([ROW, INDETERMINATE], 3),
        ([INDETERMINATE, FAILED, ROW], 1),
        ([GAP], 4),
        ([GAP, FAILED, INDETERMINATE], 4),
        ([GAP, FAILED, INDETERMINATE, UNREADABLE], 5),
        ([UNREADABLE], 5),
    ],
)
def test_the_worst_row_gives_the_exit_code(rows: list[RecordVerdict], exit_code: int) -> None:
    counted = AuditSummary()
    for row in rows:
        counted.add(row)
    assert counted.exit_code == exit_code


def test_codes_of_records_and_of_the_stream_are_both_counted() -> None:
    counted = AuditSummary()
    counted.add(replace(FAILED, stream_code="log.gap"))
    counted.add(FAILED)
    assert counted.by_code == {"signature.invalid": 2, "log.gap": 1}
    assert (counted.inconsistent, counted.records) == (1, 2)


@pytest.mark.parametrize(("limit", "listed"), [({}, 20), ({"max_failures": 3}, 3), ({"max_failures": None}, 25)])
def test_the_first_failures_are_kept_and_the_others_counted(limit: dict[str, int | None], listed: int) -> None:
    counted = AuditSummary(**limit)  # type: ignore[arg-type]
    for line in range(1, 51):
        counted.add(replace(FAILED if line % 2 else ROW, line=line))
    assert [row.line for row in counted.first_failures] == list(range(1, 2 * listed, 2))
    assert counted.not_listed == 25 - listed


def test_rows_with_findings_only_are_listed_behind_the_failures_under_the_same_limit() -> None:
    noted = replace(ROW, findings=(Finding("log.time-back", Severity.NOTICE, "back"),))
    counted = AuditSummary(max_failures=3)
    for line, row in enumerate([noted, ROW, noted, FAILED, noted, FAILED], start=1):
        counted.add(replace(row, line=line))
    assert ([row.line for row in counted.first_failures], counted.not_listed) == ([4, 6, 1], 2)


def test_the_head_of_every_stream_is_known_at_its_end() -> None:
    counted = AuditSummary()
    for seq in range(3):
        counted.add(replace(ROW, seq=seq, stream_id="5a" * 16, leaf=f"{seq:064x}"))
    counted.add(replace(ROW, archive=Path("other"), stream_id="c3" * 16, leaf="f" * 64))
    assert counted.heads == {
        Path("archive"): Head("5a" * 16, 3, f"{2:064x}"),
        Path("other"): Head("c3" * 16, 1, "f" * 64),
    }


@pytest.mark.parametrize(("heads", "exit_code"), [([], 0), (["f" * 64], 0), (["0" * 64], 4), (["f" * 64, "0" * 64], 4)])
def test_a_head_that_was_expected_and_is_not_there_is_an_inconsistency(heads: list[str], exit_code: int) -> None:
    counted = AuditSummary(expected_heads=frozenset(heads))
    counted.add(replace(ROW, stream_id="5a" * 16, leaf="f" * 64))
    counted.expect([ROW.archive])
    assert (counted.exit_code, counted.by_code["log.head"]) == (exit_code, int(exit_code > 0))


def test_one_archive_of_several_that_is_empty_is_reported() -> None:
    counted = AuditSummary()
    counted.add(replace(ROW, stream_id="5a" * 16, leaf="f" * 64))
    counted.expect([str(ROW.archive), Path("empty")])  # text names the same as its path
    assert (counted.exit_code, counted.by_code) == (3, {"log.empty": 1})
