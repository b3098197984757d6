"""Entries, and stores of each kind with a table for effects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select

from tppkit.inbox import Entry, Outcome, Version, Worker
from tppkit.inbox.store import InboxStore, MemoryStore

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
SOURCE = "webhook:test"
EFFECTS = Table("store_effects", MetaData(), Column("id", Integer, primary_key=True), Column("line", String))
_WRITE, _READ = insert(EFFECTS), select(EFFECTS.c.line).order_by(EFFECTS.c.id)
_NUMBERS = count()


def entry(
    key: str, *, content: bytes = b"{}", number: int | None = None, record: str = "r", at: datetime = AT
) -> Entry:
    version = None if number is None else Version(record, number, sha256(content).digest())
    return Entry(SOURCE, key, sha256(content).digest(), key, content, at, version)


def apply(one: Entry, db: Any) -> None:
    """A handler that writes the key of its entry."""
    db.execute(_WRITE, {"line": one.key})


async def apply_in_task(one: Entry, db: Any) -> None:
    """As `apply`, for a connection whose statements may have to be awaited."""
    result = db.execute(_WRITE, {"line": one.key})
    if isawaitable(result):
        await result


def work(
    store: InboxStore, handler: Any = apply, *, at: datetime = AT, limit: int = 100, **settings: Any
) -> list[Outcome]:
    """The outcomes of a worker."""
    return [one.outcome for one in store.work(Worker(SOURCE, handler, **settings), at=at, limit=limit)]


def effects(store: InboxStore) -> list[str]:
    with store.engine.connect() as db:
        return list(db.execute(_READ).scalars())


def ready(store: InboxStore) -> InboxStore:
    store.create_tables()
    EFFECTS.metadata.create_all(store.engine)
    return store


def postgresql_address(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue("postgresql_url")
    return address.replace("postgresql:", "postgresql+psycopg:")


def open_store(kind: str, folder: Path, request: pytest.FixtureRequest, **settings: Any) -> InboxStore:
    """A new store of a kind, closed at the end of the test."""
    if kind == "memory":
        store: InboxStore = MemoryStore()
    elif kind == "sqlite":
        store = InboxStore(f"sqlite:///{folder}/inbox.sqlite", **settings)
    else:
        store = InboxStore(postgresql_address(request), prefix=f"store{next(_NUMBERS)}_", **settings)
        EFFECTS.metadata.drop_all(store.engine)
    request.addfinalizer(store.close)
    return ready(store)
