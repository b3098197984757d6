"""Every figure that the project promises, a line each.

`make bench` writes them to results.json, and when and where to machine.json; `make soak` (with the argument `soak`) has the large and long
runs, and writes cost against size.
The argument `sizes` measures that alone. A variable NOTE is kept with the figures: `make bench NOTE="while nothing else ran"`.
Exits 1 if a line misses its goal by far, unless missed.toml names it with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from accounts import paging, paging_by_entries, staying
from callbacks import receiving
from certificates import judging, reading
from deliveries import draining, remembering_deliveries
from diagnose import diagnosing
from evidence import auditing, auditing_by_records, auditing_long
from gateway import ordering, searching, searching_by_orders, searching_through
from harness import FAR, HEADER, Curve, Line, against
from inbox import receiving_once, receiving_over_http, remembering
from machine import describe_machine
from packages import importing, installing
from rates import serving
from reload import reloading
from sandbox import opening, paying, paying_by_rows
from seals import sealing
from tppkit._clock import utc_now
from trust import asking, trusting
from web import admitting

RESULTS, MACHINE, MISSED = (Path(__file__).with_name(name) for name in ("results.json", "machine.json", "missed.toml"))


def starting() -> Iterator[Line]:
    """The command line's help against importing the library it is made with."""
    command = [str(Path(sys.executable).with_name("tppkit")), "--help"]
    reference = [sys.executable, "-c", "import click"]
    what = "of python -c 'import click'"
    help_, imported = (partial(run, one) for one in (command, reference))
    yield against("tppkit --help", help_, imported, what=what, at_most=2, clock=perf_counter_ns)


def run(command: list[str]) -> None:
    """Run a process to its end."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own command


BENCH = (
    sealing, receiving, reading, judging, trusting, admitting, diagnosing, receiving_once, receiving_over_http, serving, ordering,
    searching, paging, opening, draining, auditing, reloading, starting, importing, installing,
)  # fmt: skip
COUNTING = (searching_through, remembering_deliveries)  # memory of long runs
SOAK = (
    paying,
    staying,
    asking,
    auditing_long,
    partial(serving, turns=25, longer=10),
    remembering,
)


def concurrently(counting: tuple[Callable[[], Iterator[Line]], ...]) -> Iterator[Line]:
    """Lines that time nothing, each in a process of its own."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        yield from chain.from_iterable(processes.map(measure, counting))


def measure(lines: Callable[[], Iterator[Line]]) -> list[Line]:
    return list(lines())


def main() -> None:
    """Measure, print and write."""
    runs = {(): (*BENCH, partial(concurrently, COUNTING)), ("soak",): SOAK, ("sizes",): ()}
    if (chosen := tuple(sys.argv[1:])) not in runs:
        sys.exit("usage: python run.py [soak|sizes]")
    measured: list[Line] = []
    print(HEADER)
    for line in chain.from_iterable(lines() for lines in runs[chosen]):
        print(line.text(), flush=True)  # this is what it is for
        measured.append(line)
    if chosen:
        write("sizes", [curve.as_object() for curve in measure_sizes()])
    else:
        write("lines", [line.as_object() for line in measured])
    if unexplained := missed(measured, reasons=read_reasons()):
        sys.exit(f"missed by more than {FAR:.0%} of the goal, and not in {MISSED.name}: {', '.join(unexplained)}")


def measure_sizes() -> list[Curve]:
    """Cost against size."""
    curves = [paying_by_rows(), paging_by_entries(), *searching_by_orders(), auditing_by_records()]
    for curve in curves:
        print(curve.text(), flush=True)
    return curves


def circumstances() -> dict[str, Any]:
    """When and where figures are measured, and what whoever measures says about it."""
    return {
        "date": utc_now().isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "note": os.environ.get("NOTE", ""),
    }


def write(kind: str, rows: list[dict[str, Any]]) -> None:
    """Replace the rows of one kind, `lines` or `sizes`, and say when and where they were measured."""
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []
    measured = json.loads(MACHINE.read_text("utf-8")) if MACHINE.exists() else {}
    others = [row for row in results if ("points" in row) != (kind == "sizes")]
    both = [*rows, *others] if kind == "lines" else [*others, *rows]
    for path, content in ((RESULTS, both), (MACHINE, {**measured, kind: circumstances()})):
        path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def read_reasons() -> dict[str, str]:
    """Why a line misses its goal, by its name."""
    reasons = tomllib.loads(MISSED.read_text("utf-8"))["reason"]
    return {name: reason["why"] for reason in reasons for name in reason["lines"]}


def missed(lines: Iterable[Line], *, reasons: Mapping[str, str]) -> list[str]:
    """The names of lines that are far from their goals without a reason."""
    return [line.name for line in lines if line.is_far_off and not reasons.get(line.name)]


if __name__ == "__main__":
    main()
