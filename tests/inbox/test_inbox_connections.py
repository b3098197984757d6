"""Connections of callers, and databases with settings of an application."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from socket import create_server
from typing import Any

import psycopg
import pytest
from inbox_cases import AT, DAY, SOURCE, apply, effects, entry, open_store, postgresql_address
from psycopg.rows import dict_row
from sqlalchemy import create_engine, event

from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError, Outcome
from tppkit.inbox.store import InboxStore


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_connection_whose_rows_are_dictionaries_can_be_used(kind, request, tmp_path):
    store = open_store(kind, tmp_path, request)
    if kind == "sqlite":
        connection: Any = sqlite3.connect(tmp_path / "inbox.sqlite")
        connection.row_factory = lambda cursor, row: {column[0]: row[n] for n, column in enumerate(cursor.description)}
    else:
        address = store.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = psycopg.connect(address, row_factory=dict_row)
    with closing(connection):
        outcomes = [store.handle_within(entry("a", number=1), None, at=AT, within=connection) for _ in range(2)]
        outcomes.append(store.handle_within(entry("b", number=1), None, at=AT, within=connection))
        connection.commit()
    assert outcomes == [Outcome.APPLIED, Outcome.REPEATED, Outcome.STALE]


def test_a_connection_in_pipeline_mode_is_rejected(postgresql_store):
    address = postgresql_store.engine.url.set(drivername="postgresql").render_as_string()
    with psycopg.connect(address) as connection:
        with connection.pipeline(), pytest.raises(ConfigurationError) as caught:
            postgresql_store.handle_within(entry("a"), None, at=AT, within=connection)
        assert caught.value.code == "inbox.no-transaction"
        assert postgresql_store.handle_within(entry("a"), None, at=AT, within=connection) is Outcome.APPLIED


def test_a_closed_connection_is_unavailable(sqlite_store, tmp_path):
    connection = sqlite3.connect(tmp_path / "inbox.sqlite")
    connection.close()
    with pytest.raises(InboxError, match="closed database"):
        sqlite_store.handle_within(entry("a"), None, at=AT, within=connection)


@pytest.mark.parametrize(("end", "expected"), [("commit", Outcome.REPEATED), ("rollback", Outcome.APPLIED)])
def test_a_second_delivery_waits_for_the_first_callers_transaction(end, expected, postgresql_store):
    with postgresql_store.engine.connect() as first:
        assert postgresql_store.handle_within(entry("a"), None, at=AT, within=first) is Outcome.APPLIED
        timer = threading.Timer(0.2, getattr(first, end))
        timer.start()
        assert postgresql_store.handle(entry("a"), apply, at=AT) is expected
        timer.join()


def test_a_limit_for_locks_that_the_application_set_stays(request, tmp_path):
    prefix = open_store("postgresql", tmp_path, request)._sql.entries.name.removesuffix("entries")
    engine = create_engine(postgresql_address(request), connect_args={"options": "-c lock_timeout=7s"})
    seen = list[Any]()
    store = InboxStore(engine, prefix=prefix)
    store.handle(entry("a"), lambda _, db: seen.append(db.exec_driver_sql("SHOW lock_timeout").scalar()), at=AT)
    assert seen == ["7s"]
    engine.dispose()


@pytest.mark.slow
def test_a_store_that_hangs_is_unavailable_before_the_gateway_stops_waiting(sqlite_store, tmp_path):
    def deliver(store: InboxStore, after_s: float) -> Any:
        time.sleep(after_s)
        began = time.monotonic()
        with pytest.raises(InboxError) as caught:
            store.accept(entry("a"))
        return caught.value.code, time.monotonic() - began

    with (
        ThreadPoolExecutor(3) as threads,
        closing(sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)) as other,
        create_server(("127.0.0.1", 0)) as silent,
    ):
        other.execute("BEGIN IMMEDIATE")
        hanging = InboxStore(f"postgresql+psycopg://u@127.0.0.1:{silent.getsockname()[1]}/x")
        # The second waits for the connection of the first, and then for the lock.
        answers = list(threads.map(deliver, (sqlite_store, sqlite_store, hanging), (0, 0.5, 0), timeout=20))
    assert [code for code, _ in answers] == ["inbox.unavailable"] * 3
    assert max(took for _, took in answers) < 4  # after which the gateway gives up


def test_a_renewal_that_waits_holds_no_other_entry(postgresql_store):
    for key in "abc":
        postgresql_store.handle(entry(key), apply, at=AT)
    table = postgresql_store._sql.entries.name
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    with ThreadPoolExecutor(1) as threads:
        with postgresql_store.engine.begin() as other:
            other.exec_driver_sql(f"SELECT 1 FROM {table} WHERE key = 'a' FOR UPDATE")
            renewal = threads.submit(postgresql_store.renew, entry("a", at=AT + DAY))
            while not other.exec_driver_sql(waiting).all():
                assert not renewal.done()
            locked = other.exec_driver_sql(f"SELECT key FROM {table} WHERE key > 'a' FOR UPDATE SKIP LOCKED").all()
        assert renewal.result() is Outcome.STORED
    assert len(locked) == 2


def test_a_purge_deletes_no_more_than_its_limit(postgresql_store):
    for number in range(20):  # without statistics, PostgreSQL joins them with the chosen ones row by row
        postgresql_store.handle(entry(f"{number:02}"), apply, at=AT)
    postgresql_store.renew(entry("new", at=AT + DAY))
    with postgresql_store.engine.connect() as db:
        left = db.exec_driver_sql(f"SELECT count(*) FROM {postgresql_store._sql.entries.name} WHERE state = 'done'")
        assert left.scalar() == 10


def test_a_purge_passes_by_what_is_locked(postgresql_store):
    for key in "ab":
        postgresql_store.handle(entry(key), apply, at=AT)
    table = postgresql_store._sql.entries.name
    with postgresql_store.engine.begin() as other:
        other.exec_driver_sql(f"SELECT 1 FROM {table} WHERE key = 'a' FOR UPDATE")
        assert postgresql_store.purge(SOURCE, at=AT + 8 * DAY) == 1
    assert postgresql_store.purge(SOURCE, at=AT + 8 * DAY) == 1


def test_a_file_is_private_and_each_commit_waits_for_the_disk(sqlite_store, tmp_path):
    with sqlite_store.engine.connect() as db:
        found = [db.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    assert (found, {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}) == (["wal", 2], {0o600})


def test_two_processes_may_make_the_tables_of_one_new_file(tmp_path):
    store, other = (InboxStore(f"sqlite:///{tmp_path / 'i'}") for _ in range(2))
    changing = sqlite3.connect(tmp_path / "i", isolation_level=None, check_same_thread=False)
    changing.execute("BEGIN IMMEDIATE")  # as a process that changes the file to WAL mode
    end = threading.Timer(0.3, changing.close)
    end.start()
    store.create_tables()
    end.join()
    with store.engine.begin() as db:
        store._sql.metadata.drop_all(db)
    made = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def make_before(_db: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "CREATE TABLE" in statement:
            made.append(statement)
            with other.engine.begin() as db:
                db.exec_driver_sql(statement)

    store.create_tables()
    assert len(made) == 2
    for one in (store, other):
        one.close()


def test_a_file_of_the_application_keeps_its_mode_and_one_that_is_not_a_database_is_unavailable(tmp_path):
    for name, content in (("own", b""), ("text", b"no database " * 100)):
        file = tmp_path / name
        file.write_bytes(content)
        file.chmod(0o640)
        store = InboxStore(f"sqlite:///{file}")
        if content:
            with pytest.raises(InboxError, match="not a database"):
                store.create_tables()
        else:
            store.create_tables()
        store.close()
        assert file.stat().st_mode & 0o777 == 0o640


def test_a_translated_schema_is_the_handlers_too(sqlite_store):
    engine = sqlite_store.engine.execution_options(schema_translate_map={None: "main"})
    store = InboxStore(engine)
    assert [store.handle(entry("a"), apply, at=AT) for _ in range(2)] == [Outcome.APPLIED, Outcome.REPEATED]
    assert effects(sqlite_store) == ["a"]


@pytest.mark.slow
def test_a_thread_that_stopped_waiting_does_not_hold_up_the_next(request, tmp_path):
    store, begun = open_store("sqlite", tmp_path, request, wait_s=4), threading.Event()

    def hangs(*_: Any) -> None:
        begun.set()
        with pytest.raises(InboxError, match="no connection became free"):
            store.accept(entry("b"))
        time.sleep(0.1)

    with ThreadPoolExecutor(2) as threads:
        hanging = threads.submit(store.handle, entry("a"), hangs, at=AT)
        begun.wait(20)
        time.sleep(1.5)  # behind the one that gives up
        assert threads.submit(store.accept, entry("c")).result(20) is Outcome.STORED
        assert hanging.result(20) is Outcome.APPLIED


@pytest.mark.slow
def test_threads_get_a_file_in_the_order_in_which_they_ask(sqlite_store):
    """Those that come again and again must not pass others that wait."""
    stop, order = threading.Event(), []

    def slow(one: Any, db: Any) -> None:
        order.append(one.key)
        time.sleep(0.05)

    def busy(name: str) -> None:
        for number in range(1000):
            if stop.is_set():
                return
            sqlite_store.handle(entry(f"{name}{number}"), slow, at=AT)

    with ThreadPoolExecutor() as threads:
        for name in "bcd":
            threads.submit(busy, name)
        time.sleep(0.2)
        for number in range(5):
            before = len(order)
            sqlite_store.handle(entry(f"a{number}"), slow, at=AT)
            assert len(order) - before <= 5  # each of the others at most once more
        stop.set()


def test_a_forked_process_does_not_wait_for_the_turn_of_its_parents_thread(sqlite_store):
    inside, end = threading.Event(), threading.Event()

    def hold(one: Any, db: Any) -> None:
        inside.set()
        end.wait(10)

    with ThreadPoolExecutor() as threads:
        held = threads.submit(sqlite_store.handle, entry("a"), hold, at=AT)
        assert inside.wait(5)
        child = os.fork()
        if child == 0:
            try:
                sqlite_store.failed(SOURCE)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        end.set()
        assert held.result() is Outcome.APPLIED
