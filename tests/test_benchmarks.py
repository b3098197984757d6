"""How the harness of the benchmarks judges a line."""

from __future__ import annotations

import sys
from pathlib import Path
from time import thread_time_ns

import pytest

# Behind the folders of the tests, which have modules with the same names.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from accounts import staying
from harness import counted, judged, one_round

CASES = [
    ([1.0, 1.1, 1.2], 1.3, False, "ok"),
    ([1.0, 1.1, 1.2], 1.1, False, "edge"),
    ([1.0, 1.1, 1.2], 1.0, False, "MISS"),
    ([0.4, 0.5, 0.6], 0.3, True, "ok"),
    ([0.4, 0.5, 0.6], 0.5, True, "edge"),
    ([0.4, 0.5, 0.6], 0.7, True, "MISS"),
]


@pytest.mark.parametrize(("ratios", "limit", "at_least", "verdict"), CASES)
def test_a_goal_within_the_spread_is_neither_met_nor_missed(ratios, limit, at_least, verdict):
    assert judged("a line", ratios, what="of a reference", limit=limit, at_least=at_least).verdict == verdict


@pytest.mark.parametrize(("count", "verdict"), [(11, "ok"), (12, "ok"), (13, "MISS")])
def test_a_count_has_no_spread(count, verdict):
    line = counted("files", count, what="files", at_most=12)
    assert line.verdict == line.as_object()["ok/MISS"] == verdict


def test_a_round_gives_the_time_of_a_call_by_that_of_the_reference():
    sides = [(lambda: sum(range(10_000)), 5), (lambda: sum(range(20_000)), 3)]
    assert 1.3 < one_round(sides, thread_time_ns) < 3


def test_a_sandbox_holds_no_memory_of_the_requests_that_it_answered():
    (line,) = staying(requests=300)
    assert line.verdict == "ok"
