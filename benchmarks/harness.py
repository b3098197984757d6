"""Measure a subject against a reference: interleaved call by call in one process, medians of each.

Calls alternate, so both sides see the same machine, the same caches and the same neighbours.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

Subject = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure.

    Attributes:
        name: what was measured.
        value: the median, with its unit.
        ratio: median of the subject by median of the reference, None when there is no reference.
        goal: the bound, as text.
        ok: the bound holds.
    """

    name: str
    value: str
    ratio: float | None
    goal: str
    ok: bool

    def text(self) -> str:
        """`name | value | ratio to reference | goal | ok/MISS`."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}x"
        return f"{self.name:<34} | {self.value:>11} | {ratio:>7} | {self.goal:<26} | {self.verdict}"

    @property
    def verdict(self) -> str:
        """`ok` or `MISS`."""
        return "ok" if self.ok else "MISS"

    def as_object(self) -> dict[str, Any]:
        """The same as JSON."""
        ratio = None if self.ratio is None else round(self.ratio, 3)
        return {
            "name": self.name,
            "value": self.value,
            "ratio to reference": ratio,
            "goal": self.goal,
            "ok/MISS": self.verdict,
        }


def interleave(subject: Subject, reference: Subject, *, rounds: int, block: int = 1) -> tuple[float, float]:
    """Medians of subject and reference in microseconds, called in turns after a warm-up of a tenth of the rounds.

    Args:
        subject: what is measured.
        reference: what it is compared with.
        rounds: turns.
        block: calls in a row of each; more than one where a call of the reference leaves nothing of the subject in the caches.
    """
    ours, theirs = [], []
    for _ in range(max(rounds // 10, 1)):
        reference(), subject()
    gc.collect()
    for _ in range(rounds):
        begin = perf_counter_ns()
        for _ in range(block):
            reference()
        middle = perf_counter_ns()
        for _ in range(block):
            subject()
        end = perf_counter_ns()
        theirs.append((middle - begin) / block)
        ours.append((end - middle) / block)
    return statistics.median(ours) / 1000, statistics.median(theirs) / 1000


def against(
    name: str, subject: Subject, reference: Subject, *, what: str, limit: float, rounds: int, block: int = 1
) -> Line:
    """A line whose goal is a ratio to a reference."""
    ours, theirs = interleave(subject, reference, rounds=rounds, block=block)
    ratio = ours / theirs
    return Line(name, _time(ours), ratio, f"<= {limit}x {what}", ratio <= limit)


def within(name: str, subject: Subject, *, limit_us: float, rounds: int) -> Line:
    """A line whose goal is a time."""
    ours, _ = interleave(subject, lambda: None, rounds=rounds)
    return Line(name, _time(ours), None, f"<= {_time(limit_us)}", ours <= limit_us)


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f} us" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
