"""What many verdicts come to: counts, the first failures, the exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tppkit.evidence import AuditSummary, RecordVerdict, Verdict

ROW = RecordVerdict(Path("archive"), 1, 0, "id", Verdict.PASSED)
FAILED = replace(ROW, verdict=Verdict.FAILED, code="signature.invalid")
INDETERMINATE = replace(ROW, verdict=Verdict.INDETERMINATE, code="trust.no-path")
UNREADABLE = replace(ROW, verdict=Verdict.UNREADABLE, code="json.malformed", seq=None, x_request_id=None)
GAP = replace(ROW, stream_code="log.gap")


@pytest.mark.parametrize(
    ("rows", "exit_code"),
    [
        ([], 0),
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


def test_the_first_twenty_failures_are_kept() -> None:
    counted = AuditSummary()
    for line in range(1, 41):
        counted.add(replace(FAILED if line % 2 else ROW, line=line))
    assert [row.line for row in counted.first_failures] == list(range(1, 40, 2))
