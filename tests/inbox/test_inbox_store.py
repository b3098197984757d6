"""The guarantees of a store for any source of entries."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from inbox_cases import (
    AT,
    DAY,
    MINUTE,
    SECOND,
    SOURCE,
    apply,
    effects,
    entry,
    open_store,
    postgresql_address,
    ready,
    work,
)
from sqlalchemy import create_engine, event

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.inbox import InboxError, Outcome, Retention, Retries, Version, Worker
from tppkit.inbox.store import InboxStore, MemoryStore

KINDS = ("memory", "sqlite", "postgresql")
FAULT = FormatError("json.malformed", "the entry cannot be read")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store(request.param, tmp_path, request)


def fails(one: Any, db: Any) -> None:
    apply(one, db)
    raise LookupError("a secret")


async def unawaited(one: Any, db: Any) -> None:
    apply(one, db)


def generator(one: Any, db: Any) -> Any:
    yield apply(one, db)


def test_a_worker_counts_each_entry_and_an_error_of_its_count_is_logged(caplog):
    store, counted = ready(MemoryStore()), list[tuple[str, str]]()

    def count(outcome: str, code: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        counted.append((outcome, code))
        raise ZeroDivisionError

    for key in "ab":
        store.accept(entry(key))
    worked = store.work(Worker(SOURCE, fails, count=count), at=AT)
    assert [one.outcome for one in worked] == [Outcome.FAILED] * 2
    assert counted == [("failed", "LookupError")] * 2
    assert [one.name for one in caplog.records] == ["tppkit.inbox"] * 2
    with pytest.raises(ConfigurationError, match="count is a generator, or a coroutine function"):
        Worker(SOURCE, fails, count=unawaited)


@pytest.mark.parametrize("handler", [unawaited, generator])
def test_a_handler_that_would_never_run_fails(handler):
    store = ready(MemoryStore())
    store.accept(entry("a"))
    assert [one.code for one in store.work(Worker(SOURCE, handler), at=AT)] == ["callback.function"]
    with pytest.raises(ConfigurationError):
        store.handle(entry("b"), handler, at=AT)
    with store.engine.begin() as db, pytest.raises(ConfigurationError):
        store.handle_within(entry("c"), handler, at=AT, within=db)
    assert [one.reason for one in store.failed(SOURCE)] == ["ConfigurationError [callback.function]"] * 2
    assert store.work(Worker(SOURCE, apply), at=AT + MINUTE)[0].outcome is Outcome.APPLIED


class Killed(BaseException):
    """The process of a worker ends."""


def test_a_key_counts_within_its_source(store):
    other = entry("a")._replace(source="callback:live")
    outcomes = [store.handle(one, apply, at=AT) for one in (entry("a"), other, entry("a"), other)]
    assert outcomes == [Outcome.APPLIED, Outcome.APPLIED, Outcome.REPEATED, Outcome.REPEATED]


def test_a_worker_a_list_and_a_purge_are_of_one_source(store):
    other = entry("b")._replace(source="callback:live")
    store.accept(entry("a"))
    store.accept(other)
    assert store.sources() == ["callback:live", SOURCE]
    assert [one.entry for one in store.work(Worker(SOURCE, fails), at=AT)] == [entry("a")]
    assert (len(store.failed(SOURCE)), store.failed("callback:live")) == (1, [])
    assert [one.entry for one in store.work(Worker("callback:live", apply), at=AT)] == [other]
    assert store.purge(SOURCE, at=AT + 30 * DAY) == 0
    assert store.purge("callback:live", at=AT + 30 * DAY) == 1


def test_a_key_with_other_content_is_a_conflict_in_every_way(store):
    store.accept(entry("a"))
    other = entry("a", content=b"other")
    assert store.accept(other) is store.handle(other, apply, at=AT) is Outcome.CONFLICT
    assert store.accept(other._replace(fault=FAULT)) is Outcome.CONFLICT
    assert effects(store) == []


def test_an_entry_is_kept_and_given_back_as_it_was(store):
    kept = entry("ž" * 100, content=bytes(range(256)) * 200, number=2**63 - 1)
    store.accept(kept)
    store.accept(entry("f")._replace(fault=FAULT))
    assert [one.entry for one in store.work(Worker(SOURCE, apply), at=AT)] == [kept]
    assert [one.entry for one in store.failed(SOURCE)] == [entry("f")]
    assert store.find_failed(SOURCE, "f") == store.failed(SOURCE)[0]
    assert store.find_failed(SOURCE, "ž" * 100) is None


def test_an_entry_that_was_stored_without_a_version_gets_it_when_it_can_be_read(store):
    store.handle(entry("new", number=3), apply, at=AT)
    for key, number in (("old", 2), ("newer", 4)):
        store.accept(entry(key)._replace(fault=FAULT))
        failure = store.find_failed(SOURCE, key)
        assert failure is not None
        assert store.release(failure, at=AT)
        (worked,) = store.work(
            Worker(SOURCE, apply, prepare=lambda one, _, number=number: one._replace(version=Version("r", number))),
            at=AT,
        )
        assert worked.outcome is (Outcome.STALE if key == "old" else Outcome.APPLIED)
    assert effects(store) == ["new", "newer"]


def test_an_entry_that_ends_its_worker_is_failed_after_its_attempts_and_delays_no_other(store):
    def poisoned(one: Any, db: Any) -> None:
        apply(one, db)
        if one.key == "b":
            raise Killed

    for n, key in enumerate("abcd"):
        store.accept(entry(key, at=AT + n * SECOND))
    retries, ended = Retries(attempts=3), 0
    for n in range(8):
        try:
            store.work(Worker(SOURCE, poisoned, retries=retries), at=AT + (n + 1) * MINUTE)
        except Killed:
            ended += 1
    assert (ended, sorted(effects(store))) == (3, ["a", "c", "d"])
    (failure,) = store.failed(SOURCE)
    assert (failure.entry.key, failure.reason, failure.attempts, failure.due_at) == ("b", "lease-ended", 3, None)
    assert store.release(failure, at=AT + DAY)
    assert work(store, at=AT + DAY) == [Outcome.APPLIED]


@pytest.mark.parametrize("attempts", [1, 10])
def test_an_entry_that_is_renewed_while_its_attempt_fails_waits_again(store, attempts):
    def renews(one: Any, _: Any) -> Any:
        assert store.renew(entry("a")) is Outcome.STORED
        raise LookupError

    store.renew(entry("a"))
    (worked,) = store.work(Worker(SOURCE, apply, retries=Retries(attempts=attempts), prepare=renews), at=AT, limit=1)
    assert (worked.outcome, worked.code, store.failed(SOURCE)) == (Outcome.FAILED, "LookupError", [])
    assert work(store) == [Outcome.APPLIED]


def test_a_renewal_during_the_last_attempt_has_its_own_when_the_worker_dies(store):
    def renews_and_dies(one: Any, _: Any) -> Any:
        store.renew(entry("a"))
        raise Killed

    store.renew(entry("a"))
    retries = Retries(attempts=1)
    with pytest.raises(Killed):
        store.work(Worker(SOURCE, apply, retries=retries, prepare=renews_and_dies), at=AT)
    assert work(store, retries=retries, at=AT + DAY) == [Outcome.APPLIED]


def test_an_entry_with_more_attempts_than_a_new_limit_is_tried_once_more(store):
    store.accept(entry("a"))
    for day in (0, 1):
        store.work(Worker(SOURCE, lambda *_: 1 / 0), at=AT + day * DAY)
    assert work(store, retries=Retries(attempts=1), at=AT + 2 * DAY) == [Outcome.APPLIED]


def test_a_failed_attempt_keeps_the_content_as_it_was(store):
    store.accept(entry("a", content=b"encrypted"))
    store.work(Worker(SOURCE, fails, prepare=lambda one, _: one._replace(content=b"readable")), at=AT)
    assert [one.entry.content for one in store.failed(SOURCE)] == [b"encrypted"]


@pytest.mark.parametrize("given_up", [True, False])
def test_an_entry_that_is_renewed_when_it_is_done_has_no_version(store, given_up):
    store.accept(entry("a", number=3))
    store.work(Worker(SOURCE, fails if given_up else apply), at=AT)
    for failure in store.failed(SOURCE):
        assert store.discard(failure, at=AT)
    store.renew(entry("a"))
    assert [(one.outcome, one.entry.version) for one in store.work(Worker(SOURCE, apply), at=AT)] == [
        (Outcome.APPLIED, None)
    ]


def test_a_worker_that_was_overtaken_has_no_effect(store):
    for key in "ab":
        store.accept(entry(key))
    taken: list[Any] = [store._take(SOURCE, AT, AT + MINUTE) for _ in range(2)]
    overtaking = work(store, at=AT + MINUTE)
    late = [store._work_one(*one, Worker(SOURCE, apply), AT + MINUTE).outcome for one in taken]
    assert (overtaking, late) == ([Outcome.APPLIED] * 2, [Outcome.BUSY] * 2)
    assert sorted(effects(store)) == ["a", "b"]


def test_a_version_is_kept_while_an_older_entry_of_its_record_is_not_done(store):
    store.accept(entry("old", number=1)._replace(fault=FAULT))
    assert store.handle(entry("new", number=2), apply, at=AT) is Outcome.APPLIED
    assert store.purge(SOURCE, at=AT + 401 * DAY) == 1  # the new entry
    (failure,) = store.failed(SOURCE)
    assert store.release(failure, at=AT + 401 * DAY)
    assert work(store, at=AT + 401 * DAY) == [Outcome.STALE]
    assert store.purge(SOURCE, at=AT + 802 * DAY) == 2


def test_a_purge_deletes_failed_entries_but_none_that_is_retried(store):
    for key in "ab":
        store.accept(entry(key)._replace(fault=FAULT))
    with pytest.raises(LookupError):
        store.handle(entry("c"), fails, at=AT)
    retention = Retention(failed=DAY)
    assert store.purge(SOURCE, at=AT + DAY, retention=retention) == 0
    assert len(store.failed(SOURCE)) == 3
    store.purge(SOURCE, at=AT + DAY + SECOND, retention=retention)
    assert [one.entry.key for one in store.failed(SOURCE)] == ["c"]


@pytest.mark.parametrize("same", [True, False])
def test_of_many_threads_one_has_the_effect_and_versions_only_grow(store, same):
    start = threading.Barrier(8)

    def deliver(n: int) -> Outcome:
        start.wait()
        return store.handle(entry("a") if same else entry(f"{n}", content=b"%d" % n, number=n), apply, at=AT)

    with ThreadPoolExecutor(8) as threads:
        outcomes = Counter(threads.map(deliver, (3, 1, 4, 7, 5, 2, 6, 0)))
    if same:
        assert outcomes == {Outcome.APPLIED: 1, Outcome.REPEATED: 7}
    else:
        assert outcomes.keys() <= {Outcome.APPLIED, Outcome.STALE}
        assert effects(store) == sorted(effects(store))
        assert effects(store)[-1] == "7"


def test_each_entry_is_claimed_by_one_of_two_workers(request, tmp_path):
    store = open_store("postgresql", tmp_path, request)
    for n in range(60):
        store.accept(entry(f"{n}"))
    start = threading.Barrier(3)

    def work(_: int) -> list[str]:
        start.wait()
        return [one.entry.key for _ in range(20) for one in store.work(Worker(SOURCE, apply), at=AT, limit=5)]

    with ThreadPoolExecutor(3) as threads:
        keys = [key for worked in threads.map(work, range(3)) for key in worked]
    assert Counter(keys) == Counter(effects(store)) == Counter(map(str, range(60)))


def test_the_entries_without_content_that_wait_are_counted_by_an_index(request, tmp_path):
    store, statements = open_store("sqlite", tmp_path, request), list[str]()
    with store.engine.connect() as db:
        driver: Any = db.connection.driver_connection
        driver.set_trace_callback(statements.append)
        store._sql.beyond.first(db, {"of_source": SOURCE, "most": 10})
        assert "COVERING INDEX" in str(driver.execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall())


def test_if_the_database_fails_midway_the_finished_entries_are_returned(request, tmp_path):
    store = open_store("sqlite", tmp_path, request, wait_s=0.2)
    for key in "ab":
        store.accept(entry(key, at=AT if key == "a" else AT + SECOND))
    with closing(sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)) as other:

        def lock(*_: object) -> None:  # when the transaction of the first is over
            if not other.in_transaction and effects_of(other):
                other.execute("BEGIN IMMEDIATE")

        event.listen(store.engine, "checkin", lock)
        assert work(store, at=AT + MINUTE) == [Outcome.APPLIED]
        with pytest.raises(InboxError):
            store.work(Worker(SOURCE, apply), at=AT + MINUTE)
        event.remove(store.engine, "checkin", lock)
        other.execute("ROLLBACK")
    assert work(store, at=AT + 3 * MINUTE) == [Outcome.APPLIED]
    assert effects(store) == ["a", "b"]


def effects_of(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute("SELECT line FROM store_effects").fetchall()


def test_tables_are_created_by_concurrent_processes_and_then_only_read(request):
    address, start = postgresql_address(request), threading.Barrier(4)
    stores = [InboxStore(address, prefix="together_") for _ in range(4)]

    def create(store: InboxStore) -> None:
        start.wait()
        store.create_tables()
        store.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create, stores))
    engine = create_engine(address)
    with engine.begin() as db:
        db.exec_driver_sql("CREATE ROLE reader LOGIN")
        db.exec_driver_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON together_entries, together_versions TO reader")
    engine.dispose()
    reader = InboxStore(address.replace("user=tppkit", "user=reader"), prefix="together_")
    reader.create_tables()
    assert reader.handle(entry("a", number=1), lambda *_: None, at=AT) is Outcome.APPLIED
    reader.close()


def test_without_tables_nothing_is_acknowledged_and_tables_of_others_are_rejected(tmp_path):
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
    with pytest.raises(InboxError, match=r"no such table: \w+: call create_tables\(\) first, or correct the address"):
        store.accept(entry("a"))
    with store.engine.begin() as db:
        db.exec_driver_sql("CREATE TABLE tppkit_inbox_entries (id INTEGER)")
    with pytest.raises(ConfigurationError) as caught:
        store.create_tables()
    assert caught.value.code == "inbox.schema"
    store.close()


@pytest.mark.parametrize(
    ("address", "meaning"),
    [
        ("secret:secret@127.0.0.1:1/secret", "no server listens at this port or socket"),
        ("secret:secret@secret.invalid/secret", "the host name cannot be resolved"),
        ("secret:secret@/secret?host=/secret", "no server listens at this port or socket"),
    ],
)
def test_a_server_that_cannot_be_reached_is_reported_with_the_cause_but_without_its_address(address, meaning):
    with pytest.raises(InboxError, match=f"{meaning} .inbox.unavailable.$") as caught:
        InboxStore(f"postgresql+psycopg://{address}").accept(entry("a"))
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(("right", "wrong"), [(":///postgres", ":///secret"), ("user=tppkit", "user=secret")])
def test_a_database_or_user_that_does_not_exist_is_reported_without_its_name(right, wrong, request):
    address = postgresql_address(request).replace("+psycopg:///", ":///").replace(right, wrong)
    with pytest.raises(InboxError, match="the database or the user does not exist") as caught:
        InboxStore(address.replace(":///", "+psycopg:///")).accept(entry("a"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (b"N", "TLS cannot be used as the address requires"),
        (b"S", "TLS cannot be used as the address requires"),  # libpq then reads the file of the root certificate
        (b"R\0\0\0\x08\0\0\0\x03", "the server asks for a password"),
        (b'E\0\0\0\x45SFATAL\0C28P01\0Mpassword authentication failed for user "secret"\0\0', "rejects the user, the password"),
    ],
)  # fmt: skip
def test_what_a_server_answers_to_a_connection_is_reported_without_its_text(answer, meaning):
    def refuse() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(refuse)
        options = f"gssencmode=disable&sslrootcert=/secret&sslmode={'verify-full' if len(answer) == 1 else 'disable'}"
        hosts = f"host=127.0.0.1:1&host=127.0.0.1:{server.getsockname()[1]}"  # nothing listens at the first
        address = f"postgresql+psycopg://secret@/x?{hosts}&{options}"
        with pytest.raises(InboxError, match=meaning) as caught:
            InboxStore(address).accept(entry("a"))
    assert "secret" not in str(caught.value)


def test_settings_that_cannot_work_are_rejected():
    # The tests of engines have more addresses.
    for database, code in {
        "sqlite://": "inbox.sqlite", "sqlite:///:memory:": "inbox.sqlite", "sqlite:///file:x?uri=true": "inbox.sqlite",
        "no address": "inbox.setting", "sqlite+none:///x": "inbox.setting", "postgresql+pg8000://h/x": "extra.missing",
        None: "inbox.setting", "mysql://host/x": "inbox.dialect",
    }.items():  # fmt: skip
        with refused(ConfigurationError, code):
            InboxStore(database)
    for settings, code in (({"wait_s": -1}, "inbox.setting"), ({"prefix": "Robert'); DROP TABLE"}, "inbox.prefix")):
        with refused(ConfigurationError, code):
            InboxStore("sqlite:///x", **settings)
    store = MemoryStore()
    for limit in (-1, 0, 1001):
        with refused(ConfigurationError, "inbox.setting"):
            store.failed(SOURCE, limit=limit)
        with refused(ConfigurationError, "inbox.setting"):
            store.work(Worker(SOURCE, apply), at=AT, limit=limit)


def test_a_memory_store_is_shared_by_threads_and_by_no_other_store():
    store, other = ready(MemoryStore()), ready(MemoryStore())
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(store.handle, entry("a"), apply, at=AT).result(20) is Outcome.APPLIED
    assert (effects(store), effects(other)) == (["a"], [])
