"""The page about performance and its plot show what was measured, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import performance

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

LINES, CURVES = performance.results()
PAGE = (FOLDER / "performance.md").read_text("utf-8")


def test_the_page_has_a_row_for_each_line_with_its_verdict():
    rows = [
        re.split(r" *\| *", line)[1:-1]
        for line in PAGE.splitlines()
        if re.search(r"\| (met|undecided|missed|–) \|$", line)
    ]
    shown = {row[0]: (float(row[1].replace(",", "")), row[-1]) for row in rows}
    assert shown == {
        line["name"]: (pytest.approx(line["figure"], rel=0.01), performance.row(line).split(" | ")[-1][:-2])
        for line in LINES
    }


def test_each_measured_point_is_in_the_plot_at_its_place():
    svg = ElementTree.parse(FOLDER / "performance.svg").getroot()
    drawn = [line.get("points") for line in svg.iter("{http://www.w3.org/2000/svg}polyline")]
    field = performance.LEFT, performance.RIGHT, performance.TOP, performance.BOTTOM
    left, right, top, bottom = field
    for curve, line in zip(CURVES, drawn, strict=True):
        places = [tuple(map(float, place.split(","))) for place in line.split()]
        assert all(left <= x <= right and top <= y <= bottom for x, y in places)
        first, last = performance.DECADES_X
        assert [10 ** (first + (x - left) / (right - left) * (last - first)) for x, _ in places] == pytest.approx(
            [size for size, _ in curve["points"]], rel=0.01
        )
        first, last = performance.DECADES_Y
        assert [10 ** (first + (bottom - y) / (bottom - top) * (last - first)) for _, y in places] == pytest.approx(
            [ratio for _, ratio in curve["points"]], rel=0.01
        )
