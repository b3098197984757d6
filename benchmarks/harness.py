"""Measure a subject against a reference in the same run: ratios only, because no machine is stable.

A line has several rounds, in which both sides take turns, so that both see the same machine. `against` times short blocks of calls, and
the ratio of a round is that of their lower quartiles, which an interruption does not move; rates count the requests of longer turns.
The figure of a line is the lower quartile of its ratios: for times the better side, for rates the worse. Its spread reaches from there
to the upper quartile, and is wider on both sides by what two runs of one commit differed on quiet machines with two cores: 2 % for
times, 7 % for rates, which depend on sockets and the disk. The goal is met if the whole spread meets it, and missed if none of it does;
otherwise the verdict is `edge`. So a line that is closer to its goal than that is not decided.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns, thread_time_ns
from typing import Any

Subject = Callable[[], object]
Clock = Callable[[], int]
ROUNDS, LEAST_ROUNDS, LINE_S = 25, 8, 4.0
ROUND_S, BLOCK_S = 0.16, 0.001
LEAST_BLOCKS = 3  # of each side in a round
DRIFT, RATE_DRIFT = 0.02, 0.07  # between two runs
FAR = 0.15  # of a goal

HEADER = f"{'line':<38} | {'figure':>7} | {'spread':>15} | {'goal':<38} | verdict (edge: the goal is within the spread)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure.

    Attributes:
        name: what was measured.
        figure: the lower quartile of its ratios, or a count.
        low: the lower end of its spread, or the same count.
        high: the upper end, or the same count.
        limit: the bound.
        at_least: whether the bound is the least, not the most.
        what: what it is a ratio to (`of ...`), or what is counted.
        a_second: for a rate, our own best one.
    """

    name: str
    figure: float
    low: float
    high: float
    limit: float
    at_least: bool = False
    what: str
    a_second: int | None = None

    @property
    def verdict(self) -> str:
        """`ok`, `edge` or `MISS`."""
        above, below = self.low > self.limit, self.high < self.limit
        is_met, is_missed = (self.low >= self.limit, below) if self.at_least else (self.high <= self.limit, above)
        return "ok" if is_met else "MISS" if is_missed else "edge"

    @property
    def is_far_off(self) -> bool:
        """Whether the line is `MISS`, and its figure beyond the goal by more than a part of `FAR`."""
        if self.verdict != "MISS":
            return False
        return self.figure < self.limit * (1 - FAR) if self.at_least else self.figure > self.limit * (1 + FAR)

    @property
    def goal(self) -> str:
        bound, rate = ">=" if self.at_least else "<=", "" if self.a_second is None else f" ({self.a_second} a second)"
        return f"{bound} {number(self.limit)} {self.what}{rate}"

    def text(self) -> str:
        """The line below `HEADER`."""
        spread = "" if self.low == self.high else f"{number(self.low)} - {number(self.high)}"
        return f"{self.name:<38} | {number(self.figure):>7} | {spread:>15} | {self.goal:<38} | {self.verdict}"

    def as_object(self) -> dict[str, Any]:
        """The same as JSON."""
        figure, spread = round(self.figure, 4), [round(self.low, 4), round(self.high, 4)]
        return {
            "name": self.name,
            "figure": figure,
            "spread": spread,
            "limit": self.limit,
            "at_least": self.at_least,
            "what": self.what,
            "ok/MISS": self.verdict,  # also `edge`
            **({} if self.a_second is None else {"a_second": self.a_second}),
        }


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.4g}"


def against(
    name: str, subject: Subject, reference: Subject, *, what: str, at_most: float, clock: Clock = thread_time_ns
) -> Line:
    """A line for the time of a call, as a ratio to that of the reference.

    Args:
        name: what is measured.
        subject: is called without arguments.
        reference: is called in turns with it.
        what: the reference, behind the bound in the goal.
        at_most: the bound.
        clock: in nanoseconds. That of the thread does not run while neighbours do; work of the disk and of other processes needs
            `perf_counter_ns`.
    """
    sides = [(side, calls_in_block(side, clock)) for side in (reference, subject)]
    gc.collect()
    gc.freeze()  # the collector passes over what earlier lines left
    return judged(name, [one_round(sides, clock) for _ in rounds(ROUNDS, within_s=LINE_S)], what=what, limit=at_most)


def rounds(most: int, *, within_s: float) -> Iterator[int]:
    """Count so many rounds, or those that begin within the time, but never fewer than quartiles need."""
    end = perf_counter() + within_s
    for number in range(most):
        if number >= LEAST_ROUNDS and perf_counter() > end:
            return
        yield number


def judged(name: str, ratios: Sequence[float], *, what: str, limit: float) -> Line:
    """A line of ratios of times, of which the least is best."""
    return Line(name=name, limit=limit, what=what, **_spread(ratios, DRIFT))


def rated(name: str, ratios: Sequence[float], *, what: str, at_least: float, a_second: int | None = None) -> Line:
    """A line of ratios of rates, of which the greatest is best."""
    return Line(name=name, limit=at_least, at_least=True, what=what, a_second=a_second, **_spread(ratios, RATE_DRIFT))


def _spread(ratios: Sequence[float], drift: float) -> dict[str, float]:
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"figure": low, "low": low * (1 - drift), "high": high * (1 + drift)}


def counted(name: str, count: int, *, what: str, at_most: int) -> Line:
    """A line of a count, which has no spread."""
    return Line(name=name, figure=count, low=count, high=count, limit=at_most, what=what)


@dataclass(frozen=True, slots=True)
class Curve:
    """The cost of a call at several sizes, as ratios to that at the smallest.

    Attributes:
        name: what was measured.
        unit: what is counted, in the plural.
        points: size and ratio, the smallest size first.
    """

    name: str
    unit: str
    points: tuple[tuple[int, float], ...]

    def text(self) -> str:
        return (
            f"{self.name}: "
            + ", ".join(f"{number(ratio)} at {size:,}" for size, ratio in self.points)
            + f" {self.unit}"
        )

    def as_object(self) -> dict[str, Any]:
        """The same as JSON; a curve has no goal."""
        return {"name": self.name, "unit": self.unit, "points": self.points, "ok/MISS": "ok"}


def by_size(
    name: str, sides: Mapping[int, tuple[Subject, int]], *, unit: str, turns: int, clock: Clock = perf_counter_ns
) -> Curve:
    """Take the lower quartile of the calls at each size; the sizes take turns of so many, so that all of them see the same machine."""
    taken: dict[int, list[float]] = {size: [] for size in sorted(sides)}
    for _ in range(turns):
        for size, (side, calls) in sides.items():
            taken[size] += [seconds(side, 1, clock) for _ in range(calls)]
    least, *_ = costs = [sorted(each)[len(each) // 4] for each in taken.values()]
    return Curve(name, unit, tuple((size, round(cost / least, 3)) for size, cost in zip(taken, costs, strict=True)))


def calls_in_block(subject: Subject, clock: Clock) -> int:
    """How many calls last as long as a block should, by the fastest of the first ones."""
    return max(int(BLOCK_S / min(seconds(subject, 1, clock) for _ in range(LEAST_BLOCKS))), 1)


def one_round(sides: Sequence[tuple[Subject, int]], clock: Clock) -> float:
    """The subject's time for a call by the reference's."""
    times: list[list[float]] = [[] for _ in sides]
    end = perf_counter() + ROUND_S
    while perf_counter() < end or len(times[0]) < LEAST_BLOCKS:
        for (side, calls), taken in zip(sides, times, strict=True):
            taken.append(seconds(side, calls, clock) / calls)
    reference, subject = (statistics.quantiles(taken, n=4, method="inclusive")[0] for taken in times)
    return subject / reference


def seconds(subject: Subject, calls: int, clock: Clock = perf_counter_ns) -> float:
    """The time of so many calls."""
    begin = clock()
    for _ in range(calls):
        subject()
    return (clock() - begin) / 1e9
