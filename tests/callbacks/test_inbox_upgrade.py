"""Tables that the former version made, with what it left in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from inboxes import AT, located, new_prefix, open_case, outcome, receiver

from tppkit.callbacks import Inbox, Outcome
from tppkit.callbacks.stores.entry import microseconds
from tppkit.callbacks.stores.sqlite import SqliteStore
from tppkit.errors import InboxError

# As version 1 made them, without indexes.
TABLES = (
    "CREATE TABLE {p}schema (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
    "INSERT INTO {p}schema (id, version) VALUES (1, 1)",
    "CREATE TABLE {p}callbacks (key {octets} PRIMARY KEY, digest {octets} NOT NULL, request_id TEXT NOT NULL,"
    " received_at BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due_at BIGINT, done_at BIGINT, reason TEXT,"
    " environment TEXT, key_name TEXT, method TEXT, url TEXT, body {octets}, signature TEXT, subject {octets}, version BIGINT)",
    "CREATE TABLE {p}versions (subject {octets} PRIMARY KEY, version BIGINT NOT NULL, set_at BIGINT NOT NULL){by_key}",
)
STORES = ("sqlite", "postgresql", "sqlalchemy-sqlite", "sqlalchemy-postgresql")


def subject(record: str) -> bytes:
    return sha256(f"live\0transaction\0{record}".encode()).digest()


def waiting() -> tuple[Any, ...]:
    """A callback that was stored and not worked off."""
    body, url = outcome("r1", record="t1", ver=3).body, "https://tpp.example/cb/0123456789abcdefghij"
    now = microseconds(AT)
    return (
        b"k" * 32, b"d" * 32, "r1", now, "waiting", 0, now, None, None, "live", "live-2026", "POST", url, body, "30" * 70,
        subject("t1"), 3,
    )  # fmt: skip


def leave_version_1(name: str, location: str, prefix: str) -> None:
    """What the former version leaves behind: a callback that waits, and version 2 of the record t2."""
    if name.endswith("postgresql"):
        url = location.replace("postgresql+psycopg:", "postgresql:")
        connection: Any = psycopg.connect(url, autocommit=True)
        octets, by_key, mark = "BYTEA", "", "%s"
    else:
        path = location.removeprefix("sqlite:///")
        connection, octets, by_key, mark = sqlite3.connect(path, isolation_level=None), "BLOB", " WITHOUT ROWID", "?"
    prefix = "tppkit_inbox_" if name == "sqlite" else prefix
    with closing(connection):
        for sql in TABLES:
            connection.execute(sql.format(p=prefix, octets=octets, by_key=by_key))
        marks = ", ".join([mark] * 17)
        connection.execute(f"INSERT INTO {prefix}callbacks VALUES ({marks})", waiting())
        connection.execute(
            f"INSERT INTO {prefix}versions VALUES ({mark}, {mark}, {mark})", (subject("t2"), 2, microseconds(AT))
        )


@pytest.mark.parametrize("name", STORES)
def test_tables_of_the_former_version_are_brought_up_to_date(name: str, request: pytest.FixtureRequest, tmp_path: Path):
    place = (name, located(name, tmp_path, request.getfixturevalue), new_prefix("former"))
    leave_version_1(*place)
    with open_case(*place) as case:
        inbox = Inbox(receiver(), case.store)

        def handled(request_id: str, **record: Any) -> Outcome:
            return inbox.handle(outcome(request_id, **record), case.handler, at=AT).outcome

        assert [one.outcome for one in inbox.work(case.handler, at=AT)] == [Outcome.APPLIED]
        # Of what the former version kept no content is known.
        assert handled("r2", record="t1", ver=3, tlc="executed") is Outcome.STALE
        assert handled("r3", record="t2", ver=2, tlc="executed") is Outcome.STALE
        assert handled("r4", record="t2", ver=3) is Outcome.APPLIED
        assert handled("r5", record="t2", ver=3, tlc="executed") is Outcome.VERSION_CONFLICT
    with open_case(*place) as case:
        assert (
            Inbox(receiver(), case.store).accept(outcome("r4", record="t2", ver=3), at=AT).outcome is Outcome.REPEATED
        )
        assert case.effects() == ["t1 3", "t2 3"]


def test_tables_of_the_former_version_acknowledge_nothing_until_they_are_upgraded(tmp_path: Path):
    path = tmp_path / "inbox.sqlite"
    leave_version_1("sqlite", str(path), "")
    store = SqliteStore(path)
    with pytest.raises(InboxError) as caught:
        Inbox(receiver(), store).accept(outcome("r2"), at=AT)
    assert caught.value.code == "inbox.unavailable"
    assert "create_tables() at first and after each upgrade" in caught.value.hint
    store.close()
