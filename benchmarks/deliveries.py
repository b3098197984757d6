"""The sandbox's outbox without network: how fast it drains, and what many deliveries leave in memory."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from sqlalchemy import Connection, event

from harness import Line, counted, rated, rounds
from inbox import resident
from tppkit.sandbox.database import Database
from tppkit.sandbox.deliveries import Deliveries, Schedule
from tppkit.sandbox.delivery_tables import (
    ACKNOWLEDGED,
    TABLES,
    Attempt,
    Delivery,
    Result,
    add_delivery,
    due_deliveries,
    settle_delivery,
)
from tppkit.sandbox.faults import Faults

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
BODY = (
    b'{"id":"tran-1","ver":1,"timeStamp":833630400,"tlc":"posted","acc":"LT121000011101001000","amount":["EUR-12.50"]}'
)
BATCH, BATCHES, BATCHES_S = 320, 25, 9.0
PAGE = 64  # due deliveries that are read at a time
CALLBACKS = 100_000


class Silence:
    """Acknowledges everything at once."""

    schedule = Schedule((10,), timeout_s=4)

    async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
        return Attempt(True, "status 200")


def draining() -> Iterator[Line]:
    """Deliveries that are due, with their streams, against the same statements by hand, one transaction for each result.

    No commit waits for the disk, which would hide the difference: by hand each result has its own, here they share them.
    """
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (opened(Path(folder) / name) for name in ("ours.sqlite", "theirs.sqlite"))
        deliveries = Deliveries(ours, lambda: AT, {"silence": Silence()}, Faults())

        async def main() -> None:
            for number in rounds(BATCHES + 1, within_s=BATCHES_S):
                for database in (theirs, ours):
                    await database.write(lambda db, first=number * BATCH: fill(db, first))
                gc.collect()
                begin = perf_counter()
                by_hand(theirs)
                middle = perf_counter()
                await deliveries.run_due()
                if number:  # the first turn is for warming up
                    ratios.append((middle - begin) / (perf_counter() - middle))
            for database in (theirs, ours):
                await database.close()

        asyncio.run(main())
    yield rated("deliveries without network", ratios, what="of the same SQL by hand", at_least=0.5)


def remembering_deliveries() -> Iterator[Line]:
    """Memory over 100,000 deliveries, 10,000 of which are due at a time."""
    first = 0

    async def main(database: Database) -> int:
        nonlocal first
        deliveries = Deliveries(database, lambda: AT, {"silence": Silence()}, Faults())
        for number in range(10):
            for start in range(0, CALLBACKS // 10, 1000):
                at = number * CALLBACKS // 10 + start
                count = min(1000, CALLBACKS // 10 - start)
                await database.write(lambda db, at=at, count=count: fill(db, at, count))
            await deliveries.run_due()
            first = first or resident()
        growth = resident() - first
        await database.close()
        return growth

    with tempfile.TemporaryDirectory() as folder:
        growth = asyncio.run(main(opened(Path(folder) / "many.sqlite")))
    yield counted(
        f"{CALLBACKS:,} deliveries", max(growth, 0) // 2**20, what=f"MiB more than {CALLBACKS // 10:,}", at_most=8
    )


def fill(db: Connection, first: int, count: int = BATCH) -> None:
    """Add deliveries to one receiver, two of each stream."""
    for number in range(first, first + count):
        address = f"https://tpp.example/cb/{number // 2:020d}"
        stream = f"payment-{number // 2}"
        add_delivery(db, sender="silence", address=address, body=BODY, at=AT, stream=stream, ver=number % 2)


def by_hand(database: Database) -> None:
    """Read what is due, and settle each in a transaction of its own."""
    done = Result((Attempt(True, "status 200"),), ACKNOWLEDGED, None, 1)
    engine: Any = database._engine
    while due := database.run_at_start(lambda db: due_deliveries(db, until=AT, busy=(), limit=PAGE)):
        for one in due:
            with engine.begin() as db:
                settle_delivery(db, delivery=one, result=done, at=AT)


def opened(path: Path) -> Database:
    """A database whose commits do not wait for the disk."""
    database = Database(f"sqlite:///{path}", TABLES)

    @event.listens_for(database._engine, "checkout")
    def checkout(connection: Any, *_: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    return database
