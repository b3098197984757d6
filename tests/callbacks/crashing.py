"""Kill a receiver before and after every statement, start it again, and see what happened how often.

Arguments: store, location, prefix, way (`handle`, `work`) and how often it is killed before it may finish (1 or 2). Each life is a
process of its own, forked from this one, that ends by SIGKILL at its n-th step; a step is what comes before or after a statement,
a commit among them. The second kill comes at every step of the life after, for each state that a first one leaves in a database: what
was not committed makes no difference to it. The service repeats every callback until all are acknowledged. Prints how many ends there
were, after how many of them an effect happened again, and then a line for each after which one was lost, or happened too often.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import redis
from inboxes import AT, grant, open_case, outcome, receiver
from sqlalchemy import Engine, event

from tppkit.callbacks import Inbox, InboxSettings, VerifiedCallback
from tppkit.protocol.legacy import Transaction

DELIVERIES = (
    outcome("r1", ver=1), outcome("r2", ver=2), outcome("r3", ver=1), grant("r4"), grant("r5"), outcome("r1", ver=1),
)  # fmt: skip
EFFECTS = {"grant", "t1 1", "t1 2"}
# A worker that dies twice takes the same callback behind the others: then version 2 has taken the place of version 1.
LASTING = {"grant", "t1 2"}


class Steps:
    """Counts steps and ends the process at one of them."""

    def __init__(self, last: int | None) -> None:
        self.last = last
        self.count = 0
        self.counting = False

    def __call__(self, *_: object) -> None:
        self.count += self.counting
        if self.counting and self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(steps: Steps) -> None:
    """Let every statement of every driver in this process be a step before and after."""
    connect = sqlite3.connect

    def traced(*args: Any, **settings: Any) -> sqlite3.Connection:
        connection = connect(*args, **settings)
        connection.set_trace_callback(steps)  # before each statement; COMMIT is one, and after it there is the next
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]

    psycopg.Cursor.execute = stepping(steps, psycopg.Cursor.execute)  # type: ignore[method-assign]
    for name in ("before_cursor_execute", "after_cursor_execute", "begin", "commit"):
        event.listen(Engine, name, steps, named=False)
    redis.Redis.execute_command = stepping(steps, redis.Redis.execute_command)  # type: ignore[method-assign]


def stepping(steps: Steps, execute: Callable[..., Any]) -> Callable[..., Any]:
    def execute_in_steps(*args: Any, **settings: Any) -> Any:
        steps()
        result = execute(*args, **settings)
        steps()
        return result

    return execute_in_steps


def live(place: tuple[str, str, str], way: str, series: str, number: int, last: int | None) -> None:
    """One life: takes every callback, and works off what is stored."""
    steps = Steps(last)
    watch(steps)
    at = AT + number * timedelta(hours=1)  # the leases of an earlier life have ended
    with open_case(*place) as case:
        # Every series has an environment of its own in the same tables, so ids and versions are new to it.
        inbox = Inbox(receiver(), case.store, settings=InboxSettings(environment=series))

        def handler(callback: VerifiedCallback, connection: Any) -> None:
            case.write(connection, f"{series}: {told(callback)}")

        steps.counting = True
        for n, delivery in enumerate(DELIVERIES):
            steps()
            now = at + n * timedelta(seconds=1)
            inbox.accept(delivery, at=now) if way == "work" else inbox.handle(delivery, handler, at=now)
            steps()
        if way == "work":
            while inbox.work(handler, at=at + timedelta(minutes=1), limit=3):
                steps()
        steps.counting = False


def told(callback: VerifiedCallback) -> str:
    event = callback.event
    return f"{event.id} {event.ver}" if isinstance(event, Transaction) else "grant"


def killed(place: tuple[str, str, str], way: str, series: str, number: int, last: int | None) -> bool:
    """Whether that life, in a process of its own, came to its end before all was done."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(place, way, series, number, last)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL):
        raise SystemExit(f"life {number} of series {series} of {place[0]}: status {status}")
    return status != 0


def lives(place: tuple[str, str, str], way: str, kills: int) -> Iterator[str]:
    """Every series of ends; the last life of each finishes."""
    left: Counter[str] | None = None
    for first in count(1):
        before, left_before = kept(place), left
        for second in count(1):
            series = f"{first}.{second}"
            if not killed(place, way, series, 0, first):
                return
            if second == 1:
                left = kept(place)
                left.subtract(before)
            known = bool(left) and left == left_before  # the life after would be one that was killed at every step
            again = kills > 1 and not known and killed(place, way, series, 1, second)
            killed(place, way, series, 2, None)
            yield series
            if not again:
                break


def kept(place: tuple[str, str, str]) -> Counter[str]:
    """How much of each kind is committed; along one way to the end no two states are alike. Nothing for Redis."""
    name, location, prefix = place
    if name == "redis":
        return Counter()
    with closing(database(name, location)) as connection:
        own = "tppkit_inbox_" if name == "sqlite" else prefix
        sums: Counter[str] = Counter()
        for state, rows, attempts in connection.execute(
            f"SELECT state, count(*), sum(attempts) FROM {own}callbacks GROUP BY state"
        ):
            sums[state], sums[f"attempts, {state}"] = rows, attempts
        for table in (f"{own}versions", "effects" if name == "sqlite" else f"{prefix}effects"):
            sums[table] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        sums["versions"] = connection.execute(f"SELECT coalesce(sum(version), 0) FROM {own}versions").fetchone()[0]
        return sums


def database(name: str, location: str) -> Any:
    if name.endswith("postgresql"):
        return psycopg.connect(location.replace("postgresql+psycopg:", "postgresql:"))
    return sqlite3.connect(location.removeprefix("sqlite:///"))


def main() -> None:
    name, location, prefix, way, kills = sys.argv[1:]
    with open_case(name, location, prefix):
        pass  # so that the tables are there
    every = list(lives((name, location, prefix), way, int(kills)))
    found: dict[str, list[str]] = {series: [] for series in every}
    with open_case(name, location, prefix) as case:
        for line in case.effects():
            series, _, effect = line.partition(": ")
            if series in found:  # the life that was never killed is the reference, not a result
                found[series].append(effect)
    # Where claim, effect and mark are three steps, a life that ends between them has its effect again.
    most = int(kills) if name == "redis" else 0
    again = sum(repeated(effects) > 0 for effects in found.values())
    needed = EFFECTS if kills == "1" else LASTING
    wrong = {
        series for series, effects in found.items()
        if repeated(effects) > most or not needed <= set(effects) <= EFFECTS or versions(effects) != sorted(versions(effects))
    }  # fmt: skip
    print(len(every), again, *(f"{series}: {found[series]}" for series in sorted(wrong)), sep="\n")


def repeated(effects: list[str]) -> int:
    return len(effects) - len(set(effects))


def versions(effects: list[str]) -> list[str]:
    return [effect for effect in effects if effect.startswith("t1")]


if __name__ == "__main__":
    main()
