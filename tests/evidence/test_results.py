"""What many records add up to: counts, causes, the first failures, the exit code."""

from __future__ import annotations

import json

import pytest

from tppkit.errors import Finding, Severity
from tppkit.evidence import AuditResult, RecordVerdict, Verdict
from tppkit.evidence.results import Totals

JUNE = 1_780_315_200_000_000  # 2026-06-01
ROW = RecordVerdict(
    1, Verdict.PASSED, None, (), 0, "5a" * 16, JUNE, x_request_id="id", claimed_by="PSDLT-BL-1", is_intact=True
)
FAILED = ROW._replace(
    verdict=Verdict.FAILED, code="signature.invalid", failures=(("signature.invalid", "it does not verify"),)
)
INDETERMINATE = ROW._replace(
    verdict=Verdict.INDETERMINATE, code="trust.no-path", failures=(("trust.no-path", "no chain"),)
)
UNREADABLE = RecordVerdict(1, Verdict.UNREADABLE, "json.malformed", (("json.malformed", "not JSON"),))
GAP = Finding("log.gap", Severity.ERROR, "record 1 is missing")
GAP_ROW = ROW._replace(place=GAP)
BACK_ROW = ROW._replace(findings=(Finding("log.time-back", Severity.NOTICE, "back by a second"),))


def totals(*rows: RecordVerdict, max_failures: int | None = 20) -> Totals:
    counted = Totals()
    for number, row in enumerate(rows, start=1):
        counted.add(row._replace(line=number), archive="archive", endpoint="POST /payments", max_failures=max_failures)
    return counted


def test_the_worst_record_gives_the_exit_code():
    for rows, exit_code in (
        ([], 3),
        ([ROW], 0),
        ([ROW, INDETERMINATE], 3),
        ([INDETERMINATE, FAILED, ROW], 1),
        ([GAP_ROW], 4),
        ([GAP_ROW, FAILED, INDETERMINATE], 4),
        ([GAP_ROW, FAILED, INDETERMINATE, UNREADABLE], 5),
        ([UNREADABLE], 5),
        ([BACK_ROW], 0),
    ):
        assert AuditResult(totals(*rows)).exit_code == exit_code, rows


def test_codes_of_records_and_of_the_log_are_both_counted():
    counted = totals(FAILED._replace(place=GAP), FAILED, BACK_ROW)
    assert counted.by_code == {"signature.invalid": 2, "log.gap": 1, "log.time-back": 1}
    assert (counted.inconsistent, counted.records) == (1, 3)


def test_every_code_of_a_record_is_counted_and_the_deciding_one_comes_first():
    both = FAILED._replace(failures=(("trust.no-path", "no chain"), *FAILED.failures))
    counted = totals(both, both, FAILED)
    assert counted.by_code == {"signature.invalid": 3, "trust.no-path": 2}
    causes = [
        (cause.codes, cause.records, cause.first["line"], cause.last["line"]) for cause in counted.causes.values()
    ]
    assert causes == [(("signature.invalid", "trust.no-path"), 2, 1, 2), (("signature.invalid",), 1, 3, 3)]


def test_the_first_failures_are_kept_and_the_others_counted():
    for maximum, listed in ((20, 20), (3, 3), (None, 25)):
        counted = totals(*[FAILED if line % 2 else ROW for line in range(1, 51)], max_failures=maximum)
        assert [row["line"] for row in counted.failures] == list(range(1, 2 * listed, 2))
        assert counted.to_list == 25


def test_records_with_findings_only_are_kept_apart_from_failures():
    counted = totals(BACK_ROW, ROW, BACK_ROW, FAILED, BACK_ROW, FAILED, max_failures=3)
    assert [row["line"] for row in counted.failures] == [4, 6]
    assert ([row["line"] for row in counted.noted], counted.to_list) == ([1, 3, 5], 5)


def test_totals_of_parts_join_to_those_of_the_whole():
    rows = [ROW, FAILED, GAP_ROW, UNREADABLE, INDETERMINATE, BACK_ROW, FAILED._replace(claimed_by="PSDLT-BL-2")]
    whole = totals(*rows)
    joined = Totals()
    for number, row in enumerate(rows, start=1):
        part = Totals()
        part.add(row._replace(line=number), archive="archive", endpoint="POST /payments", max_failures=20)
        joined.join(Totals.from_object(json.loads(json.dumps(part.to_object()))), max_failures=20)
    assert joined == whole


def test_records_are_counted_by_what_they_have_in_common():
    later = ROW._replace(received_at=JUNE + 31 * 86_400_000_000)
    counted = totals(ROW, FAILED, later)
    assert counted.by("month", "verdict") == {
        ("2026-06", "failed"): 1,
        ("2026-06", "passed"): 1,
        ("2026-07", "passed"): 1,
    }
    assert counted.by("endpoint") == {("POST /payments",): 3}
    assert (counted.received_from, counted.received_to) == (JUNE, later.received_at)


@pytest.mark.parametrize("kind", ["groups", "causes"])
def test_what_a_peer_chooses_does_not_make_the_counts_large(kind):
    rows = [FAILED._replace(claimed_by=f"PSDLT-BL-{number}") for number in range(11_000)]
    counted = totals(*rows, max_failures=0)
    assert len(getattr(counted, kind)) <= 10_001
    assert (counted.records, sum(cause.records for cause in counted.causes.values())) == (11_000, 11_000)
