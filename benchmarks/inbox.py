"""The inbox over SQLite: a callback from its request to the committed effect, and what many callbacks leave in memory and in files."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Column, Connection, MetaData, String, Table, insert

from harness import Line, counted, judged, rated, rounds
from rates import ask, program
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    sign_callback,
    verify_callback,
)
from tppkit.inbox import Entry, Retention, Version
from tppkit.inbox.statements import Statements
from tppkit.inbox.store import InboxStore
from tppkit.message import Message

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
RECEIVER = CallbackReceiver(
    [CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT)],
    keys=[CallbackKey("live", SERVICE.public_key())],
)
BATCH, BATCHES = 100, 12
CONNECTIONS, HTTP_CALLBACKS, HTTP_ROUNDS, HTTP_S = 16, 300, 15, 12.0
FASTER = 10  # times as many go to the empty handler, so that its turn lasts as long
CALLBACKS = 1_000_000
PAYMENTS = Table("payments", MetaData(), Column("token", String), Column("request_id", String))
PAY = insert(PAYMENTS)


def receiving_once() -> Iterator[Line]:
    """`handle` against verifying and the same two statements with SQLAlchemy Core, each with the effect and its commit.

    No commit waits for the disk, which would hide the difference.
    """
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = prepared(Path(folder) / "ours.sqlite"), prepared(Path(folder) / "theirs.sqlite")
        inbox = Inbox(RECEIVER, ours)
        statements = Statements("tppkit_inbox_")
        once, advance = (one._of(theirs.engine.dialect) for one in (statements.once, statements.advance))

        def by_hand(received: Message) -> None:
            callback = verify_callback(received, at=AT, receiver=RECEIVER)
            event: Any = callback.event
            key, digest = sha256(callback.url.encode()).hexdigest(), sha256(callback.body).digest()
            values = {"of_source": "callback", "of_key": key, "of_digest": digest, "of_name": callback.request_id}
            version = {
                "of_source": "callback",
                "of_record": event.id,
                "of_version": event.ver,
                "of_version_digest": digest,
            }
            with theirs.engine.begin() as db:
                db.execute(once, {**values, "of_received_at": 1, "at": 1})
                db.execute(advance, {**version, "at": 1})
                apply(callback, db)

        for number in range(BATCHES + 1):
            batch = [delivery(number * BATCH + n) for n in range(BATCH)]
            gc.collect()
            begin = perf_counter()
            for one in batch:
                by_hand(one)
            middle = perf_counter()
            for one in batch:
                inbox.handle(one, apply, at=AT)
            if number:  # the first turn is for warming up
                ratios.append((perf_counter() - middle) / (middle - begin))
        ours.close()
        theirs.close()
    yield judged("inbox, handle, SQLite", ratios, what="of the same statements by hand", limit=1.5)


def receiving_over_http() -> Iterator[Line]:
    """Callbacks through uvicorn, FastAPI, the gate and the inbox, each with a row and its synced commit, against an empty handler."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from servers import postgresql

    with tempfile.TemporaryDirectory() as folder:
        yield over_http("SQLite", f"sqlite:///{folder}/callbacks.sqlite", at_least=0.063)
    with postgresql(fsync=True) as url:
        yield over_http("PostgreSQL", url.replace("postgresql:", "postgresql+psycopg:"), at_least=0.04)


def over_http(name: str, database: str, *, at_least: float) -> Line:
    """The line of a database."""
    ratios, best, number = list[float](), 0.0, 0
    with ExitStack() as running:
        theirs, ours = (running.enter_context(program("receiver.py", one)) for one in ("empty", database))
        gc.collect()
        gc.freeze()  # a collection here would count as a slow answer
        for _ in rounds(HTTP_ROUNDS + 1, within_s=HTTP_S):
            messages = [as_bytes(delivery(number := number + 1)) for _ in range(HTTP_CALLBACKS)]
            reference = asyncio.run(ask(theirs, None, CONNECTIONS, messages * FASTER, 200))
            rate = asyncio.run(ask(ours, None, CONNECTIONS, messages, 200))
            ratios.append(rate / reference)
            best = max(best, rate)
    name = f"callbacks by HTTP, {name}"
    return rated(name, ratios[1:], what="of an empty handler", at_least=at_least, a_second=round(best))


def as_bytes(received: Message) -> bytes:
    """A request as it is sent."""
    headers = ("Host", "tpp.example"), ("Content-Length", str(len(received.body))), *received.headers
    lines = [f"POST {received.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode() + received.body


def apply(callback: VerifiedCallback, db: Connection) -> object:
    """The least that an application does: one row."""
    return db.execute(PAY, {"token": callback.token, "request_id": callback.request_id})


def prepared(path: Path) -> InboxStore:
    """An inbox in a new file, beside the application's table."""
    store = InboxStore(f"sqlite:///{path}")
    store.create_tables()
    PAYMENTS.metadata.create_all(store.engine)
    with store.engine.connect() as db:
        db.exec_driver_sql("PRAGMA synchronous=OFF")  # of the one connection: the disk is not what is measured
    return store


def delivery(number: int) -> Message:
    """The outcome of a payment as it arrives."""
    token = f"{number:020d}"
    body = (
        f'{{"id":"tran-{number}","ver":1,"timeStamp":833630400,"tlc":"posted","acc":"LT121000011101001000",'
        '"name":"Bookshop","amount":["EUR-12.50"],"msg":"Order 4711"}'
    ).encode()
    headers = sign_callback(
        SERVICE, request_id=f"request-{number}", method="POST", url=f"https://tpp.example/cb/{token}", body=body
    )
    return Message("POST", f"/cb/{token}", headers, body)


def remembering() -> Iterator[Line]:
    """Memory over a million entries, with a purge every thousand: 10 seconds of them are kept, 20 of their versions."""
    retention, first = Retention(done=timedelta(seconds=10), versions=timedelta(seconds=20)), 0
    with tempfile.TemporaryDirectory() as folder:
        store = prepared(Path(folder) / "many.sqlite")
        for number in range(CALLBACKS):
            at = AT + number * timedelta(milliseconds=2)
            key = sha256(b"%d" % number).digest()
            one = Entry("many", key.hex(), key, f"request-{number}", b"x" * 400, at, Version(key.hex(), 1))
            store.handle(one, lambda *_: None, at=at)
            if number % 1000 == 999:
                store.purge("many", at=at, retention=retention)
            if number + 1 == CALLBACKS // 10:
                first = resident()
        growth = resident() - first
        store.close()
    yield counted(
        f"inbox, SQLite, {CALLBACKS:,} entries", growth // 2**20, what=f"MiB more than {CALLBACKS // 10:,}", at_most=8
    )


def resident() -> int:
    """The process's resident memory in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
