"""How the harness of the benchmarks judges a line, and that the long runs still run."""

from __future__ import annotations

import json
import math
import sys
from importlib import import_module
from pathlib import Path
from runpy import run_path

import pytest

# Behind the folders of the tests, which have modules with the same names.
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import counted, judged, one_round, rated

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RUN = BENCHMARKS / "run.py"  # by its path: `fuzz` has a module of this name too
RESULTS, MEASURED = (json.loads((BENCHMARKS / name).read_text("utf-8")) for name in ("results.json", "machine.json"))

# What makes the long runs short: by module, constants and their values.
SHORT = {
    "accounts": {"REQUESTS": 300, "SIZES": (200, 400), "TIMES": 1},
    "evidence": {"FEW": 1, "PART": 8, "PARTS": (1, 2), "RECORDS": 64, "SEGMENTS": 3},
    "gateway": {"MANY": 100, "PAGE": 20, "SIZES": (10, 100), "TIMES": 1},
    "harness": {"LEAST_ROUNDS": 3, "LINE_S": 0, "ROUND_S": 0},
    "inbox": {"CALLBACKS": 2_000},
    "rates": {"PAUSE_S": 0, "READS": 16, "REQUESTS": {1: 2}, "TURNS_S": 0},
    "sandbox": {"FEW": 10, "MANY": 100, "SIZES": (10, 100), "TIMES": 1},
    "trust": {"FEW": 10, "MANY": 100},
}
MACHINE = {
    "processor", "cores", "memory", "system", "Python", "OpenSSL of cryptography", "OpenSSL of Python, for TLS", "packages",
}  # fmt: skip
SPREAD = [1.0, 1.1, 1.2]  # its quartiles are 1.05 and 1.15


@pytest.mark.parametrize(("limit", "verdict"), [(1.18, "ok"), (1.17, "edge"), (1.03, "edge"), (1.02, "MISS")])
def test_a_goal_within_the_spread_is_neither_met_nor_missed(limit, verdict):
    line = judged("a line", SPREAD, what="of a reference", limit=limit)
    assert (line.verdict, line.as_object()["spread"]) == (verdict, [1.029, 1.173])


@pytest.mark.parametrize(("at_least", "verdict"), [(0.97, "ok"), (0.98, "edge"), (1.23, "edge"), (1.24, "MISS")])
def test_the_spread_of_a_rate_is_wider(at_least, verdict):
    line = rated("a line", SPREAD, what="of a reference", at_least=at_least)
    assert (line.verdict, line.figure) == (verdict, pytest.approx(1.05))


@pytest.mark.parametrize(("count", "verdict"), [(11, "ok"), (12, "ok"), (13, "MISS")])
def test_a_count_has_no_spread(count, verdict):
    line = counted("files", count, what="files", at_most=12)
    assert line.verdict == line.as_object()["ok/MISS"] == verdict


@pytest.mark.parametrize(
    ("line", "is_far"),
    [
        (judged("slow", [1.36, 1.36, 1.36], what="", limit=1.2), False),
        (judged("slow", [1.4, 1.4, 1.4], what="", limit=1.2), True),
        (rated("slow", [0.22, 0.22, 0.22], what="", at_least=0.25), False),
        (rated("slow", [0.2, 0.2, 0.2], what="", at_least=0.25), True),
    ],
)
def test_a_line_far_from_its_goal_fails_unless_a_reason_is_given(line, is_far):
    missed = run_path(str(RUN))["missed"]
    assert missed([line], reasons={}) == (["slow"] if is_far else [])
    assert missed([line], reasons={"slow": "held back by the disk"}) == []


def test_a_round_gives_the_time_of_a_call_by_that_of_the_reference():
    spent = [0]  # the clock

    def taking(ns):
        return lambda: spent.append(spent.pop() + ns)

    assert one_round([(taking(10), 5), (taking(20), 3)], lambda: spent[0]) == pytest.approx(2)


def test_the_committed_figures_name_their_machine_and_explain_what_they_miss():
    for measured in (MEASURED["lines"], MEASURED["sizes"]):
        assert measured["machine"].keys() == MACHINE
    reasons = run_path(str(RUN))["read_reasons"]()
    assert {line["ok/MISS"] for line in RESULTS} <= {"ok", "edge", "MISS"}
    names = [line["name"] for line in RESULTS]
    assert {*reasons} <= {*names}
    assert len({*names}) == len(names)
    missed = [line["name"] for line in RESULTS if line["ok/MISS"] == "MISS"]
    assert [name for name in missed if name not in reasons] == []


def test_the_committed_curves_have_the_sizes_that_are_measured():
    evidence, sandbox = import_module("evidence"), import_module("sandbox")
    *calls, audit = [[size for size, _ in curve["points"]] for curve in RESULTS if "points" in curve]
    assert calls == [[*sandbox.SIZES]] * 4
    assert audit == [parts * evidence.PART for parts in evidence.PARTS]


@pytest.mark.slow
def test_every_line_of_the_long_runs_gives_a_figure(monkeypatch):
    for name, constants in SHORT.items():
        module = import_module(name)
        for constant, value in constants.items():
            whole = getattr(module, constant)
            monkeypatch.setattr(module, constant, whole[value] if isinstance(value, slice) else value)
    run = run_path(str(RUN))
    lines = [line for lines in run["SOAK"] for line in lines()]
    assert len(lines) == 9
    assert all(math.isfinite(line.low) and math.isfinite(line.high) and line.text() for line in lines)
    curves = run["measure_sizes"]()
    assert [curve.name for curve in curves] == [row["name"] for row in RESULTS if "points" in row]
    assert all(len(curve.points) == 2 and curve.points[0][1] == 1 for curve in curves)
