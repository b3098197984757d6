"""Kill a process that receives entries in many threads, repeatedly, and count the effects.

Arguments: address of the database, kills, seed, and `threads` or `tasks`, whose handlers run on an event loop. Each run is a process of its
own that handles entries, or accepts and works them, and writes the number of each that it acknowledges to a pipe. The last run is
not killed. Prints as JSON the acknowledged numbers and the effects in their order.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select as polling
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from inspect import isawaitable
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, insert, select

from tppkit._clock import utc_now
from tppkit.inbox import Entry, InboxError, Retries, Version, Worker
from tppkit.inbox.store import InboxStore
from tppkit.inbox.tasks import Tasks

EFFECTS = Table("killed_effects", MetaData(), Column("id", Integer, primary_key=True), Column("number", BigInteger))
WRITE = insert(EFFECTS)
RECORDS, NEW, THREADS = 5, 40, 6
LEASE, RETRIES = timedelta(milliseconds=300), Retries(first=timedelta(milliseconds=20), attempts=10**6)


def entry(number: int) -> Entry:
    """Every other entry is a version of a record."""
    content = str(number).encode()
    version = Version(f"r{number // 2 % RECORDS}", number) if number % 2 else None
    return Entry("kills", f"k{number}", sha256(content).digest(), f"n{number}", content, utc_now(), version)


def apply(one: Entry, db: Any) -> None:
    db.execute(WRITE, {"number": int(one.content)})


async def apply_in_task(one: Entry, db: Any) -> None:
    result = db.execute(WRITE, {"number": int(one.content)})
    if isawaitable(result):
        await result


def opened(url: str) -> InboxStore:
    store = InboxStore(url, prefix="killed_", wait_s=20)
    store.create_tables()
    EFFECTS.metadata.create_all(store.engine)
    return store


def receive_entries(url: str, first: int, seed: int, pipe: int, *, tasks: bool, finish: bool) -> None:
    """Deliver all entries up to a number in a random order, including those that the last kill may have lost, and work."""
    store, chance = opened(url), random.Random(seed)
    numbers = list(range(first + NEW)) if finish else list(range(max(0, first - NEW), first + NEW))
    chance.shuffle(numbers)

    bridge = Tasks(store)
    handler: Any = bridge.effect(apply_in_task) if tasks else apply

    def deliver(number: int) -> None:
        with suppress(InboxError):  # the sender repeats it
            if number % 3:
                store.handle(entry(number), handler, at=utc_now())
            else:
                store.accept(entry(number))
            os.write(pipe, b"%d\n" % number)

    def work(_: int) -> None:
        for _ in range(10):
            with suppress(InboxError):
                store.work(Worker("kills", handler, lease=LEASE, retries=RETRIES), at=utc_now(), limit=5)

    async def run_tasks() -> None:
        with suppress(InboxError):
            await asyncio.gather(*(bridge.run(call, number) for call, number in calls))

    calls = [(work if n % 8 == 7 else deliver, number) for n, number in enumerate(numbers * 2)]
    if tasks:
        asyncio.run(run_tasks())
    with ThreadPoolExecutor(THREADS) as threads:
        for job in [] if tasks else [threads.submit(call, number) for call, number in calls]:
            job.result()
    handler = apply
    if finish:
        time.sleep(2 * LEASE.total_seconds())
        for number in numbers:
            deliver(number)
        while store.work(Worker("kills", apply, lease=LEASE, retries=RETRIES), at=utc_now() + timedelta(hours=1)):
            pass
        if store.failed("kills"):
            raise SystemExit(f"failed: {store.failed('kills')}")
    store.close()


def main() -> None:
    url, kills, seed, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "tasks"
    opened(url).close()
    chance, acknowledged = random.Random(seed), list[int]()
    for number in range(kills + 1):
        finish, (read, write) = number == kills, os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                receive_entries(url, number * NEW, seed + number, write, tasks=tasks, finish=finish)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(write)
        begun, deadline, received = False, time.monotonic() + 120, b""
        while polling.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(read, 65536)
            if not piece:
                break
            received += piece
            if not begun and not finish:
                begun, deadline = True, time.monotonic() + chance.uniform(0.005, 0.15)
        os.kill(child, signal.SIGKILL) if not finish else None
        while piece := os.read(read, 65536):
            received += piece
        os.close(read)
        status = os.waitpid(child, 0)[1]
        if status not in ((0,) if finish else (0, signal.SIGKILL)):
            raise SystemExit(f"run {number}: status {status}")
        acknowledged += map(int, received.split())
    store = opened(url)
    with store.engine.connect() as db:
        effects = list(db.execute(select(EFFECTS.c.number).order_by(EFFECTS.c.id)).scalars())
    store.close()
    print(json.dumps({"acknowledged": sorted(set(acknowledged)), "effects": effects, "last": (kills + 1) * NEW}))


if __name__ == "__main__":
    main()
