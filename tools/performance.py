"""The page about performance and its plot, from what `make bench` writes into benchmarks/, and benchmarks/missed.toml."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
VERDICTS = {"ok": "met", "edge": "undecided", "MISS": "missed"}


def results() -> tuple[list[Any], list[Any]]:
    """What `make bench` measured: the lines, and the curves of cost against size."""
    rows = json.loads((BENCHMARKS / "results.json").read_text("utf-8"))
    return [row for row in rows if "points" not in row], [row for row in rows if "points" in row]


INTRODUCTION = """# Performance

The figures that `make bench` measures, with their goals. Most are ratios: our time divided by the time of
something well known that does the same, or the least part of it, measured in turns in the same run. So they hold on other machines
better than seconds would.

## How to read a ratio

*{name}* is {ratio} of http-message-signatures: verifying a seal takes {ratio:.0%} of the time that this library needs for the same parts
of the same request. A ratio of 2 to a raw signature says that all else together, such as parsing, digest, certificate and organisation,
takes as long as the bare operation of OpenSSL.

- The **figure** is the lower quartile of 8 to 25 rounds. For times that is the better side, for rates the worse.
- The **spread** reaches to the upper quartile, and is wider on both sides by what two runs of one commit differ.
- A goal is **met** if the whole spread meets it, **missed** if none of it does, and otherwise **undecided**.

## Machine

Measured on {day}{note}.

| what | value |
|---|---|"""
MISSES = """
## What misses its goal

A goal that is missed stays, and has its reason.
"""
SIZES = """
## Cost against size

How much longer a call takes when there is more: the lower quartile of several calls at each size, in turns, divided by that at the
smallest size. Measured on {day}{machine}{note}.

![{alternative}](performance.svg)

A call at the sandbox finds its rows by an index, instead of reading the whole table. An audit reads every record, so its time grows with
their number. The memory that it needs does not grow with them.

| what | size | ratio |
|---|---|---|"""
RUN = """
## Run it yourself

In a clone of the project, `make bench` prints each line as it is measured, and writes `results.json` and `machine.json` in
`benchmarks/`. `make docs` then writes this page with your figures, and with what you say about them:
`make bench NOTE="while nothing else ran"`. It ends with exit code 1 if a line misses its goal by more than 15 % without a reason in
`benchmarks/missed.toml`. `make soak` has the long runs: memory over a million callbacks, a million audited records and 30,000 requests,
and cost against size; `python benchmarks/run.py sizes` measures that alone. Close what else runs: another busy program moves rates most."""


def page() -> Iterator[str]:
    """Every figure with its goal, and why some goals are missed."""
    lines, curves = results()
    where = json.loads((BENCHMARKS / "machine.json").read_text("utf-8"))
    measured, sizes = where["lines"], where["sizes"]
    (example,) = (line for line in lines if line["name"] == "seal verify RSA-2048 as others do")
    ratio = round(example["figure"], 2)
    yield INTRODUCTION.format(name=example["name"], ratio=ratio, day=_day(measured), note=_note(measured))
    for name, value in measured["machine"].items():
        yield f"| {name} | {value} |"
    ratios = [one for one in lines if one["what"].startswith("of ")]
    parts = {
        "Times": (
            "Less is better.",
            "compared with",
            [one for one in ratios if not one["at_least"]],
        ),
        "Rates": (
            "More is better.",
            "compared with",
            [one for one in ratios if one["at_least"]],
        ),
        "Sizes and delays": (
            "These are not ratios. Less is better.",
            "unit",
            [one for one in lines if one not in ratios],
        ),
    }
    for title, (note, heading, rows) in parts.items():
        yield f"\n## {title}\n\n{note}\n\n| what | figure | spread | {heading} | goal | verdict |\n|---|---|---|---|---|---|"
        yield from map(row, rows)
    yield MISSES
    missed = {line["name"] for line in lines if line["ok/MISS"] == "MISS"}
    for reason in tomllib.loads((BENCHMARKS / "missed.toml").read_text("utf-8"))["reason"]:
        if names := [name for name in reason["lines"] if name in missed]:
            yield f"- {'; '.join(f'*{name}*' for name in names)}: {reason['why']}"
    machine = " on the same machine" if sizes["machine"] == measured["machine"] else " on another machine"
    words = alternative(curves)
    yield SIZES.format(day=_day(sizes), machine=machine, note=_note(sizes), alternative=words)
    for curve in curves:
        for size, ratio in curve["points"]:
            yield f"| {curve['name']} | {size:,} {curve['unit']} | {_number(ratio)} |"
    yield RUN


def row(line: Mapping[str, Any]) -> str:
    """The row of a line."""
    goal = f"{'at least' if line['at_least'] else 'at most'} {line['limit']:,}"
    low, high = line["spread"]
    spread = "" if low == high else f"{_number(low)} - {_number(high)}"
    beside = line["what"].removeprefix("of ")
    if "a_second" in line:
        beside += f"; ours at most {line['a_second']} a second"
    return (
        f"| {line['name']} | {_number(line['figure'])} | {spread} | {beside} | {goal} | {VERDICTS[line['ok/MISS']]} |"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _day(measured: Mapping[str, Any]) -> str:
    day: str = measured["date"].partition("T")[0]
    return day


def _note(measured: Mapping[str, Any]) -> str:
    return f", {measured['note']}" if measured["note"] else ""


def alternative(curves: Sequence[Mapping[str, Any]]) -> str:
    """The plot in words."""
    ends = [
        f"{curve['name']} {_number(curve['points'][-1][1])} times at {curve['points'][-1][0]:,} {curve['unit']}"
        for curve in curves
    ]
    return f"Cost against size, as a ratio to the smallest size: {'; '.join(ends)}"


# The plot

WIDTH, HEIGHT = 480, 448
LEFT, RIGHT, TOP, BOTTOM = 44, 440, 32, 260  # of the field
DECADES_X, DECADES_Y = (3, 5), (-0.3, 2.3)  # powers of ten at the edges of the field
SHAPES = ("circle", "square", "diamond", "triangle", "cross")  # so that nothing depends on colours
STYLE = """
text { font: 14px sans-serif; fill: #333 } .b { fill: #fff } .g { stroke: #ddd } .s { fill: #666 }
.c0 { color: #b4480a } .c1 { color: #2268a8 } .c2 { color: #1b7a50 } .c3 { color: #8a4ba8 } .c4 { color: #555 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .b { fill: #1a1c1e } .g { stroke: #3a3d40 } .s { fill: #aaa }
.c0 { color: #f0914f } .c1 { color: #6fb1ea } .c2 { color: #5fc495 } .c3 { color: #cf9be6 } .c4 { color: #bbb }
}"""


def plot() -> Iterator[str]:
    """Cost against size, both on logarithmic scales; a legend below says what each line ends at."""
    _, curves = results()
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
    yield f"<title>{escape(alternative(curves))}</title>\n<style>{STYLE}\n</style>"
    yield f'<rect class="b" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    for decade in range(DECADES_X[0], DECADES_X[1] + 1):
        x = across(10**decade)
        yield f'<path class="g" d="M{x} {TOP}V{BOTTOM}"/><text x="{x}" y="{BOTTOM + 20}" text-anchor="middle">{10**decade:,}</text>'
    for ratio in (1, 10, 100):
        y = down(ratio)
        yield f'<path class="g" d="M{LEFT} {y}H{RIGHT}"/><text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{ratio}</text>'
    yield f'<text class="s" x="{(LEFT + RIGHT) / 2:g}" y="{BOTTOM + 44}" text-anchor="middle">records, payments, entries or orders</text>'
    yield f'<text class="s" x="{LEFT}" y="{TOP - 12}">time of a call, relative to the smallest size</text>'
    for number, curve in enumerate(curves):
        points = [(across(size), down(ratio)) for size, ratio in curve["points"]]
        line, shape = " ".join(f"{x},{y}" for x, y in points), SHAPES[number]
        yield f'<g class="c{number}" fill="none" stroke="currentColor" stroke-width="1.5"><polyline points="{line}"/>'
        yield from (_mark(shape, x, y) for x, y in points)
        size, ratio = curve["points"][-1]
        top = BOTTOM + 76 + number * 24
        yield f'{_mark(shape, LEFT, top - 5)}</g><text x="{LEFT + 16}" y="{top}">{escape(curve["name"])}:'
        yield f'<tspan class="s">{_number(ratio)} at {size:,} {escape(curve["unit"])}</tspan></text>'
    yield "</svg>"


def across(size: int) -> float:
    first, last = DECADES_X
    return round(LEFT + (RIGHT - LEFT) * (log10(size) - first) / (last - first), 1)


def down(ratio: float) -> float:
    first, last = DECADES_Y
    return round(BOTTOM - (BOTTOM - TOP) * (log10(ratio) - first) / (last - first), 1)


def _mark(shape: str, x: float, y: float) -> str:
    paths = {
        "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        "square": "m-4-4h8v8h-8z",
        "diamond": "m0-5l5 5l-5 5l-5-5z",
        "triangle": "m0-5l5 9h-10z",
        "cross": "m-4-4l8 8m0-8l-8 8",
    }
    return f'<path d="M{x} {y}{paths[shape]}"/>'
