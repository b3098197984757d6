"""The effects of handlers, callers and lost connections on the transactions of a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import aiosqlite
import psycopg
import pytest
from inbox_cases import AT, MINUTE, SOURCE, apply, effects, entry, open_store, postgresql_address, work
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError, Outcome, Retries, Worker
from tppkit.inbox.store import InboxStore

KINDS = ("sqlite", "postgresql")


ENDS: dict[str, Callable[[Any], object]] = {
    "commit": lambda db: db.commit(),
    "rollback": lambda db: db.rollback(),
    "close": lambda db: db.close(),
    "text": lambda db: db.exec_driver_sql("COMMIT"),
    "driver's close": lambda db: db.connection.driver_connection.close(),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("raises", [False, True])
def test_a_handler_that_ends_the_transaction_fails_and_stops_no_other(store, end, raises):
    def ends(one: Any, db: Any) -> None:
        ENDS[end](db)
        if raises:
            raise ValueError

    with pytest.raises(ConfigurationError) as caught:
        store.handle(entry("a"), ends, at=AT)
    assert caught.value.code == "inbox.handler-committed"
    kept = [] if end in ("commit", "text") else ["ConfigurationError [inbox.handler-committed]"]
    assert [one.reason for one in store.failed(SOURCE)] == kept  # what it committed stays, its done mark included
    assert store.handle(entry("b"), apply, at=AT) is Outcome.APPLIED


@pytest.mark.parametrize(("end", "kept"), [("rollback", "ac"), ("commit", "abc"), ("commit close", "abc")])
def test_a_worker_reports_a_handler_that_ends_the_transaction_and_continues(store, end, kept):
    def ends(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            for name in end.split():
                getattr(db, name)()
            raise LookupError

    for key in "abc":
        store.accept(entry(key))
    codes = [one.code for one in store.work(Worker(SOURCE, ends), at=AT)]
    assert (codes, sorted(effects(store))) == (["", "inbox.handler-committed", ""], list(kept))


def test_a_handler_that_hides_an_error_of_the_database_is_not_acknowledged(postgresql_store):
    def hides(one: Any, db: Any) -> None:
        apply(one, db)
        with pytest.raises(Exception, match="no_such_table"):
            db.exec_driver_sql("SELECT * FROM no_such_table")

    with pytest.raises(ConfigurationError) as caught:
        postgresql_store.handle(entry("a"), hides, at=AT)
    assert caught.value.code == "inbox.handler-aborted"
    assert [one.reason for one in postgresql_store.failed(SOURCE)] == ["ConfigurationError [inbox.handler-aborted]"]


def test_a_handler_may_use_savepoints(store):
    def careful(one: Any, db: Any) -> None:
        apply(one, db)
        with pytest.raises(Exception, match="no_such_table"), db.begin_nested():
            db.exec_driver_sql("SELECT * FROM no_such_table")
        db.begin_nested()  # and leaves this one open
        apply(one, db)

    assert store.handle(entry("a"), careful, at=AT) is Outcome.APPLIED
    assert effects(store) == ["a", "a"]


def test_an_error_at_the_commit_is_a_failure_of_the_handler(store):
    with store.engine.begin() as db:
        for name in ("paid", "ordered"):
            db.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
        db.exec_driver_sql("CREATE TABLE ordered (id INTEGER PRIMARY KEY)")
        db.exec_driver_sql("CREATE TABLE paid (id INTEGER REFERENCES ordered DEFERRABLE INITIALLY DEFERRED)")
    if store.engine.dialect.name == "sqlite":
        event.listen(store.engine, "connect", lambda db, _: db.execute("PRAGMA foreign_keys = ON"))
        store.close()

    def pays(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            db.exec_driver_sql("INSERT INTO paid VALUES (1)")

    with pytest.raises(IntegrityError):
        store.handle(entry("b"), pays, at=AT)
    for key in "ac":
        store.accept(entry(key))
    worked = store.work(Worker(SOURCE, pays), at=AT + MINUTE)
    assert {one.entry.key: one.outcome.value for one in worked} == {"a": "applied", "b": "failed", "c": "applied"}
    assert sorted(effects(store)) == ["a", "c"]


@pytest.mark.parametrize("way", ["core", "session", "driver"])
def test_an_effect_in_the_transaction_of_the_caller_is_committed_and_undone_with_it(store, way):
    engine = create_engine(store.engine.url)

    @contextmanager
    def opened() -> Iterator[Any]:
        if way == "core":
            with engine.begin() as db:
                yield db
        elif way == "session":
            with Session(engine) as session, session.begin():
                yield session
        else:
            raw = engine.raw_connection()
            try:
                yield raw.driver_connection
                raw.commit()
            finally:
                raw.close()

    sql = "INSERT INTO store_effects (line) VALUES ('x')"

    def handler(one: Any, db: Any) -> None:
        db.execute(sql if way == "driver" else text(sql))

    def undone() -> None:
        with opened() as db:
            assert store.handle_within(entry("a", number=1), handler, at=AT, within=db) is Outcome.APPLIED
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert effects(store) == []
    for expected in (Outcome.APPLIED, Outcome.REPEATED):
        with opened() as db:
            assert store.handle_within(entry("a", number=1), handler, at=AT, within=db) is expected
    with opened() as db:
        assert store.handle_within(entry("b", number=1), None, at=AT, within=db) is Outcome.STALE
    with pytest.raises(LookupError), opened() as db:
        store.handle_within(entry("c"), lambda *_: {}["x"], at=AT, within=db)
    assert store.handle(entry("c"), apply, at=AT) is Outcome.APPLIED
    assert effects(store) == ["x", "c"]
    engine.dispose()


def test_a_connection_that_commits_each_statement_is_rejected(store):
    engine = create_engine(store.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        for within in (db, db.connection.driver_connection, None, object(), 5, aiosqlite.connect(":memory:")):
            with pytest.raises(ConfigurationError) as caught:
                store.handle_within(entry("a"), None, at=AT, within=within)
            assert caught.value.code == "inbox.no-transaction"
    own = InboxStore(engine, prefix=store._sql.entries.name.removesuffix("entries"))
    with pytest.raises(LookupError):  # its own transactions are transactions nevertheless
        own.handle(entry("a"), lambda one, db: (apply(one, db), {}["x"]), at=AT)
    assert effects(store) == []
    engine.dispose()


def test_a_savepoint_whose_end_would_commit_is_rejected(request, tmp_path):
    store = open_store("sqlite", tmp_path, request)
    with (
        Session(store.engine) as session,
        session.begin(),
        session.begin_nested(),
        pytest.raises(ConfigurationError) as caught,
    ):
        store.handle_within(entry("a"), None, at=AT, within=session)
    assert caught.value.code == "inbox.no-transaction"

    def careful(one: Any, db: Any) -> None:  # the transaction of the inbox has begun
        with db.begin_nested():
            assert store.handle_within(entry("b"), apply, at=AT, within=db) is Outcome.APPLIED

    assert store.handle(entry("a"), careful, at=AT) is Outcome.APPLIED
    assert effects(store) == ["b"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_two_deliveries_of_a_record_that_meet_at_a_strict_level_are_both_answered(level, postgresql_store, request):
    engine = create_engine(postgresql_address(request), isolation_level=level)
    strict = InboxStore(engine, prefix=postgresql_store._sql.entries.name.removesuffix("entries"))
    met = threading.Event()

    def first(one: Any, db: Any) -> None:
        assert db.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
        met.set()
        time.sleep(0.3)

    def second() -> Outcome:
        met.wait(20)
        return strict.handle(entry("b", content=b"2", number=2), apply, at=AT)

    with ThreadPoolExecutor(1) as thread:
        later = thread.submit(second)
        assert strict.handle(entry("a", number=1), first, at=AT) is Outcome.APPLIED
        assert later.result(20) is Outcome.APPLIED
    with engine.connect() as db:
        assert db.exec_driver_sql("SHOW transaction_isolation").scalar() == level.lower()
    engine.dispose()


def test_a_delivery_waits_a_second_for_a_handler_that_hangs_and_a_worker_skips_it(postgresql_store):
    store, seen = postgresql_store, list[Any]()
    store.accept(entry("b", content=b"2", number=2))
    store.accept(entry("c"))

    def beside(one: Any, db: Any) -> None:
        assert db.exec_driver_sql("SHOW lock_timeout").scalar() == "0"
        with ThreadPoolExecutor(1) as thread:
            with pytest.raises(InboxError) as caught:
                thread.submit(store.handle, entry("a", number=1), apply, at=AT).result(20)
            seen.append(caught.value.message[-5:])
            worked = thread.submit(store.work, Worker(SOURCE, apply), at=AT).result(20)
            seen.append({one.entry.key: one.outcome.value for one in worked})

    assert store.handle(entry("a", number=1), beside, at=AT) is Outcome.APPLIED
    assert seen == ["55P03", {"b": "busy", "c": "applied"}]
    assert work(store, at=AT + MINUTE) == [Outcome.APPLIED]


def test_a_database_that_fails_before_the_handler_is_no_attempt(store):
    begun = list[Any]()

    def fail(db: Any) -> None:
        begun.append(db)
        if len(begun) == 2:  # after the claim
            raise ConnectionResetError

    store.accept(entry("a"))
    event.listen(store.engine, "begin", fail)
    retries = Retries(attempts=1)
    assert work(store, retries=retries) == [Outcome.BUSY]
    assert (store.failed(SOURCE), store.work(Worker(SOURCE, apply, retries=retries), at=AT)) == ([], [])
    assert work(store, retries=retries, at=AT + MINUTE) == [Outcome.APPLIED]


def cut(store: InboxStore, db: Any) -> None:
    """Have the server end a connection."""
    pid = db.connection.driver_connection.info.backend_pid
    address = store.engine.url.set(drivername="postgresql").render_as_string()
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 20000)", (pid,))


@pytest.mark.parametrize("notices", [True, False])
def test_a_connection_that_is_lost_during_a_delivery_acknowledges_nothing(postgresql_store, notices):
    store = postgresql_store

    def loses(one: Any, db: Any) -> None:
        apply(one, db)
        cut(store, db)
        if notices:
            apply(one, db)

    with pytest.raises(OperationalError if notices else InboxError):
        store.handle(entry("a"), loses, at=AT)
    assert [one.reason for one in store.failed(SOURCE)] == (["OperationalError"] if notices else [])
    with store.engine.connect() as own:
        with pytest.raises(OperationalError if notices else InboxError):
            store.handle_within(entry("b"), loses, at=AT, within=own)
        own.invalidate()
    assert [store.handle(entry(key), apply, at=AT) for key in "ab"] == [Outcome.APPLIED] * 2
    assert effects(store) == ["a", "b"]


def test_a_trigger_that_rejects_the_commit_is_a_failure_of_the_handler(postgresql_store):
    with postgresql_store.engine.begin() as db:
        for statement in (
            "CREATE OR REPLACE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'TP001'; END $$",
            "CREATE CONSTRAINT TRIGGER rejects AFTER INSERT ON store_effects DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION reject()",
        ):
            db.exec_driver_sql(statement)
    with pytest.raises(DBAPIError):
        postgresql_store.handle(entry("a"), apply, at=AT)
    assert [one.reason for one in postgresql_store.failed(SOURCE)] == ["DatabaseError"]


def test_a_lost_connection_of_the_application_is_replaced_with_all_of_its_pool(postgresql_store):
    engine = create_engine(postgresql_store.engine.url)
    store = InboxStore(engine, prefix=postgresql_store._sql.entries.name.removesuffix("entries"))
    with engine.connect() as first, engine.connect() as second:
        for db in (first, second):
            cut(store, db)
    with pytest.raises(InboxError):
        store.handle(entry("a"), apply, at=AT)
    assert store.handle(entry("a"), apply, at=AT) is Outcome.APPLIED
    engine.dispose()


def test_a_closed_connection_that_the_pool_does_not_reset_is_unavailable(postgresql_store):
    engine = create_engine(postgresql_store.engine.url, pool_reset_on_return=None)
    with engine.connect() as db:
        db.connection.driver_connection.close()
    with pytest.raises(InboxError):
        InboxStore(engine).accept(entry("a"))
    engine.dispose()


def test_a_thread_that_a_handler_left_running_costs_no_place_in_the_pool(postgresql_store):
    engine = create_engine(postgresql_store.engine.url, pool_size=1, max_overflow=0, pool_timeout=1)
    store = InboxStore(engine, prefix=postgresql_store._sql.entries.name.removesuffix("entries"))

    def leaves(one: Any, db: Any) -> None:
        def write() -> None:
            with suppress(Exception):  # until the connection is closed
                while True:
                    apply(one, db)

        threads.append(threading.Thread(target=write))
        threads[-1].start()
        time.sleep(0.02)
        raise LookupError

    for key in "abc":
        threads = list[threading.Thread]()
        with pytest.raises(LookupError):
            store.handle(entry(key), leaves, at=AT)
        threads[0].join()
    assert store.handle(entry("d"), apply, at=AT) is Outcome.APPLIED
    assert effects(postgresql_store) == ["d"]
    engine.dispose()


def test_an_error_of_the_handler_is_raised_though_it_cannot_be_kept(postgresql_store):
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    def fails(one: Any, db: Any) -> None:
        event.listen(store.engine, "checkout", refuse)
        raise PermissionError

    store = InboxStore(create_engine(postgresql_store.engine.url), prefix=postgresql_store._sql.entries.name[:-7])
    with pytest.raises(PermissionError):
        store.handle(entry("a"), fails, at=AT)
    with pytest.raises(InboxError) as caught:
        store.accept(entry("b"))
    assert caught.value.code == "inbox.unavailable"
    assert postgresql_store.failed(SOURCE) == []
    store.close()


def test_a_handler_that_uses_its_own_inbox_fails_after_the_usual_wait(request, tmp_path):
    for kind in KINDS:
        store = open_store(kind, tmp_path, request, wait_s=0.5)

        def nested(one: Any, db: Any, store: InboxStore = store) -> None:
            store.handle(entry("a"), apply, at=AT)

        with pytest.raises(InboxError) as caught:
            store.handle(entry("a"), nested, at=AT)
        assert caught.value.code == "inbox.unavailable"
        assert [one.reason for one in store.failed(SOURCE)] == ["InboxError [inbox.unavailable]"]
        assert store.handle(entry("a"), apply, at=AT) is Outcome.APPLIED
        assert effects(store) == ["a"]


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_handler_that_costs_the_connection_fails_for_itself(postgresql_store, cuts):
    store = postgresql_store
    store.accept(entry("a"))
    store.accept(entry("b"))

    def loses(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "a":
            cut(store, db)

    for n in range(cuts):
        store.work(Worker(SOURCE, loses, retries=Retries(attempts=3)), at=AT + n * MINUTE)
    (failure,) = store.failed(SOURCE)
    assert (failure.reason, failure.attempts, failure.due_at is None) == (
        "InboxError [inbox.unavailable]",
        cuts,
        cuts == 3,
    )
    assert effects(store) == ["b"]
