"""The callback inbox over SQLite, from a received request to a committed effect."""

from __future__ import annotations

import gc
import os
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec

from harness import Line, counted, judged
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    ReceivedCallback,
    Retention,
    VerifiedCallback,
    sign_callback,
    verify_callback,
)
from tppkit.callbacks.stores import Entry, Order, Store
from tppkit.callbacks.stores.memory import MemoryStore
from tppkit.callbacks.stores.sqlite import SqliteStore, Synchronous

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
RECEIVER = CallbackReceiver(
    [CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT)],
    keys=[CallbackKey("live", SERVICE.public_key())],
)
BATCH, BATCHES = 500, 12
CONNECTIONS = 16  # requests that a receiver has at the same moment
CALLBACKS = 1_000_000
MARKS = (CALLBACKS // 10, CALLBACKS // 2, CALLBACKS)

WHOLE = "inbox, SQLite, 500 a commit"

Round = Callable[[Sequence[ReceivedCallback]], object]


def receiving_once() -> Iterator[Line]:
    """The whole inbox against verifying alone, in turns of 500 callbacks."""
    with one_core(), tempfile.TemporaryDirectory() as folder:
        grouped = prepared(Path(folder) / "grouped.sqlite", Synchronous.FULL)
        times = in_turns({
            "verify alone": lambda batch: [verify_callback(one, at=AT, receiver=RECEIVER) for one in batch],
            WHOLE: lambda batch: together(grouped, batch, size=500),
        })  # fmt: skip
    alone = times.pop("verify alone")
    ratios = [ours / theirs for ours, theirs in zip(times[WHOLE], alone, strict=True)]
    yield judged(WHOLE, ratios, what="of verify alone", limit=1.6)


def in_turns(rounds: dict[str, Round]) -> dict[str, list[float]]:
    """The seconds that each takes in each turn; every callback is new to each."""
    times: dict[str, list[float]] = {name: [] for name in rounds}
    for number in range(BATCHES + 1):
        batch = [delivery(number * BATCH + n) for n in range(BATCH)]
        for name, subject in rounds.items():
            gc.collect()
            begin = perf_counter()
            subject(batch)
            if number:  # the first turn is for warming up
                times[name].append(perf_counter() - begin)
    return times


def accepted(inbox: Inbox, batch: Sequence[ReceivedCallback], threads: ThreadPoolExecutor) -> None:
    """Stored by requests that come at the same time, and then worked off; every commit waits for the disk."""
    shares = [batch[n::CONNECTIONS] for n in range(CONNECTIONS)]
    list(threads.map(lambda share: [inbox.accept(one, at=AT) for one in share], shares))
    done = 0
    while worked := inbox.work(apply, at=AT + SECOND, limit=250):
        done += len(worked)
    if done != len(batch):
        raise SystemExit(f"{done} of {len(batch)} callbacks were worked off")


def together(inbox: Inbox, batch: Sequence[ReceivedCallback], *, size: int) -> None:
    """Handled in groups; every commit waits for the disk."""
    for begin in range(0, len(batch), size):
        inbox.handle_all(batch[begin : begin + size], apply, at=AT)


def in_threads(inbox: Inbox, batch: Sequence[ReceivedCallback], threads: ThreadPoolExecutor) -> None:
    """Handled by requests that have a thread each."""
    shares = [batch[n::CONNECTIONS] for n in range(CONNECTIONS)]
    list(threads.map(lambda share: handled(inbox, share), shares))


def handled(inbox: Inbox, batch: Sequence[ReceivedCallback]) -> None:
    """One after the other, each in a transaction of its own."""
    for one in batch:
        inbox.handle(one, apply, at=AT)


def apply(callback: VerifiedCallback, connection: sqlite3.Connection) -> None:
    """What an application does at least: one row."""
    connection.execute("INSERT INTO payments VALUES (?, ?)", (callback.token, callback.request_id))


def prepared(path: Path, synchronous: Synchronous) -> Inbox:
    """An inbox in a new file, beside the application's table."""
    store = SqliteStore(path, synchronous=synchronous)
    store.create_tables()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE payments (token TEXT, request_id TEXT)")
    connection.close()
    return Inbox(RECEIVER, store)


def delivery(number: int) -> ReceivedCallback:
    """A payment's outcome as it arrives."""
    token = f"{number:020d}"
    body = (
        f'{{"id":"tran-{number}","ver":1,"timeStamp":833630400,"tlc":"posted","acc":"LT121000011101001000",'
        '"name":"Bookshop","amount":["EUR-12.50"],"msg":"Order 4711"}'
    ).encode()
    headers = sign_callback(
        SERVICE, request_id=f"request-{number}", method="POST", url=f"https://tpp.example/cb/{token}", body=body
    )
    return ReceivedCallback("POST", f"/cb/{token}", headers, body)


def remembering() -> Iterator[Line]:
    """Memory over a million callbacks, with a purge every thousand; the store's part of the inbox."""
    for name in ("SQLite", "memory"):
        first, *_, last = footprints(name)
        growth = last.resident - first.resident
        yield counted(f"inbox, {name}, 1,000,000 callbacks", growth // 1024, what="MiB more than 100,000", at_most=8)


class Footprint(NamedTuple):
    """What a store takes after that many callbacks.

    Attributes:
        callbacks: how many were handled.
        remembered: how many rows of them were not yet purged.
        resident: the process's memory in KiB.
        files: the store's files in KiB.
    """

    callbacks: int
    remembered: int
    resident: int
    files: int


def footprints(name: str) -> Iterator[Footprint]:
    """What the store, `SQLite` or `memory`, takes after each of `MARKS`."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "memory":
            yield from growing(MemoryStore(), Path(folder))
            return
        store = SqliteStore(Path(folder) / "flat.sqlite", synchronous=Synchronous.NORMAL)
        store.create_tables()
        yield from growing(store, Path(folder))
        store.close()


def growing(store: Store, folder: Path) -> Iterator[Footprint]:
    """Handle callbacks and purge; 10 seconds of them are remembered, 20 of their versions."""
    retention = Retention(done=timedelta(seconds=10), versions=timedelta(seconds=20))
    forgotten = 0
    for number in range(CALLBACKS):
        at = AT + number * timedelta(milliseconds=2)
        store.run(entry(number, at), lambda _, connection: None, at=at, until=at + SECOND, retry=lambda _: None)
        if number % 1000 == 999:
            while purged := store.purge(retention.at(at), limit=1000):
                forgotten += purged
        if number + 1 in MARKS:
            gc.collect()
            files = sum(file.stat().st_size for file in folder.iterdir()) // 1024
            # Of each callback two rows are forgotten: its own, and its record's version.
            yield Footprint(number + 1, 2 * (number + 1) - forgotten, resident(), files)


def entry(number: int, at: datetime) -> Entry:
    """A callback that was verified."""
    key = sha256(b"%d" % number).digest()
    token = f"{number:020d}"
    return Entry(
        key, key, "live", "live", f"request-{number}", "POST", f"https://tpp.example/cb/{token}", b"x" * 200, "30" * 70, at,
        Order(key, 1),
    )  # fmt: skip


def resident() -> int:
    """The process's resident memory in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


class one_core:
    """Hold every thread of this process to one core."""

    def __enter__(self) -> None:
        self._all = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self._all)})

    def __exit__(self, *_: Any) -> None:
        os.sched_setaffinity(0, self._all)
