"""The store in an SQLite file: its file, its threads and processes, its transactions."""

from __future__ import annotations

import gc
import os
import resource
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from forking import look
from inboxes import AT, Case, login, open_case, outcome, receiver

from tppkit.callbacks import Inbox, InboxSettings, Outcome, Receipt, Retries
from tppkit.callbacks.stores import sqlite as sqlite_stores
from tppkit.callbacks.stores.sqlite import SqliteStore, Synchronous
from tppkit.errors import ConfigurationError, InboxError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbox.sqlite"


@pytest.fixture
def case(path: Path) -> Iterator[Case]:
    with open_case("sqlite", str(path), "") as case:
        yield case


@pytest.fixture
def inbox(case: Case) -> Inbox:
    return Inbox(receiver(), case.store)


def test_the_files_are_for_their_owner_only(path: Path, inbox: Inbox):
    old = os.umask(0)
    try:
        inbox.accept(login("r1"), at=AT)
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["inbox.sqlite", "inbox.sqlite-shm", "inbox.sqlite-wal"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    finally:
        os.umask(old)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_of_the_applications_keeps_its_mode(tmp_path: Path, mode: int):
    path = tmp_path / "own.sqlite"
    path.touch()
    path.chmod(mode)
    with open_case("sqlite", str(path), "") as case:
        Inbox(receiver(), case.store).accept(login("r1"), at=AT)
        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {mode}


@pytest.mark.parametrize(("synchronous", "told"), [(None, 2), (Synchronous.FULL, 2), (Synchronous.NORMAL, 1)])
def test_every_commit_waits_for_the_disk_unless_told_otherwise(path: Path, synchronous: Synchronous | None, told: int):
    store = SqliteStore(path) if synchronous is None else SqliteStore(path, synchronous=synchronous)
    store.create_tables()
    found: list[Any] = []
    Inbox(receiver(), store).handle(
        login("r1"), lambda _, connection: found.extend(connection.execute("PRAGMA synchronous").fetchone()), at=AT
    )
    store.close()
    assert found == [told]


def test_writes_of_a_handler_that_raises_are_undone(inbox: Inbox, case: Case):
    def half(callback: Any, connection: Any) -> None:
        case.handler(callback, connection)
        raise LookupError

    with pytest.raises(LookupError):
        inbox.handle(outcome("r1"), half, at=AT)
    assert case.effects() == []


def test_a_drivers_error_in_a_handler_is_the_handlers(inbox: Inbox):
    with pytest.raises(sqlite3.OperationalError):
        inbox.handle(login("r1"), lambda _, connection: connection.execute("SELECT nothing"), at=AT)
    assert inbox.failed()[0].reason == "OperationalError"


def test_a_handler_that_commits_is_found_out(inbox: Inbox):
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), lambda _, connection: connection.commit(), at=AT)
    assert caught.value.code == "inbox.handler-committed"


def test_a_handler_that_begins_another_transaction_is_found_out(inbox: Inbox, case: Case):
    def restarts(callback: Any, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")

    def applies(callback: Any, connection: sqlite3.Connection) -> None:
        case.handler(callback, connection)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # on a connection that nobody set otherwise

    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), restarts, at=AT)
    assert caught.value.code == "inbox.handler-committed"
    assert inbox.handle(login("r1"), applies, at=AT).outcome is Outcome.APPLIED
    assert len(case.effects()) == 1


def test_a_connection_that_commits_each_statement_is_no_transaction(path: Path, inbox: Inbox):
    with closing(sqlite3.connect(path, isolation_level=None)) as own, pytest.raises(ConfigurationError) as caught:
        inbox.once(login("r1"), at=AT, within=own)
    assert caught.value.code == "inbox.no-transaction"


def test_a_handler_that_uses_its_own_inbox_is_told_instead_of_waiting_for_itself(inbox: Inbox, case: Case):
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), lambda *_: inbox.accept(login("r2"), at=AT), at=AT)
    assert caught.value.code == "inbox.nested"
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_an_effect_in_the_callers_transaction_is_committed_and_rolled_back_with_it(
    path: Path, inbox: Inbox, case: Case
):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        for end, expected in (("ROLLBACK", Outcome.APPLIED), ("COMMIT", Outcome.APPLIED), ("COMMIT", Outcome.REPEATED)):
            connection.execute("BEGIN IMMEDIATE")
            assert inbox.once(outcome("r1"), at=AT, within=connection).outcome is expected
            if expected is Outcome.APPLIED:
                connection.execute("INSERT INTO effects VALUES ('once')")
            connection.execute(end)
    assert case.effects() == ["once"]


def test_threads_that_come_together_share_a_commit(path: Path, case: Case):
    deliveries = [login(f"r{n}") for n in range(40)]
    commits: list[str] = []
    trace = lambda sql: commits.append(sql) if sql == "COMMIT" else None  # noqa: E731
    store = SqliteStore(path, on_connect=lambda connection: connection.set_trace_callback(trace))
    inbox = Inbox(receiver(), store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(40) as threads:
        other.execute("BEGIN IMMEDIATE")  # so that they all come before the first can commit
        ready = threading.Barrier(41)
        accepted = [threads.submit(lambda d=one: (ready.wait(), inbox.accept(d, at=AT))[1]) for one in deliveries]
        ready.wait()
        deadline = time.monotonic() + 20
        while len(store._waiting) < 39 and time.monotonic() < deadline:
            time.sleep(0.001)
        other.execute("COMMIT")
        assert {future.result().outcome for future in accepted} == {Outcome.STORED}
    store.close()
    assert len(commits) == 1


def test_every_thread_of_a_shared_commit_learns_that_it_failed(tmp_path: Path):
    inbox = Inbox(receiver(), SqliteStore(tmp_path / "absent" / "inbox.sqlite"))

    def code(n: int) -> str:
        with pytest.raises(InboxError) as caught:
            inbox.accept(login(f"r{n}"), at=AT)
        return caught.value.code

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(code, range(16))) == {"inbox.unavailable"}


def test_a_forked_process_has_a_connection_of_its_own(inbox: Inbox, case: Case):
    inbox.accept(login("parent"), at=AT)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            inbox.accept(login("child"), at=AT)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    inbox.accept(login("parent2"), at=AT)
    inbox.work(case.handler, at=AT)
    assert sorted(case.effects()) == ["child -", "parent -", "parent2 -"]


def test_a_store_ends_no_lock_of_the_applications_own_connection(path: Path, inbox: Inbox, case: Case):
    case.store.close()  # type: ignore[attr-defined]
    with closing(sqlite3.connect(path)) as own:
        own.execute("SELECT 1 FROM tppkit_inbox_callbacks").fetchall()
        inbox.accept(login("r1"), at=AT)
        assert look(path) == "['r1']"
        inbox.accept(login("r2"), at=AT)
        assert look(path) == "['r1', 'r2']"


def test_a_child_that_outlives_its_parent_loses_nothing(path: Path, case: Case):
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("forking.py")), str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )  # until the child is gone, too
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == ["['parent', 'r1']", "['parent', 'r1', 'r2']"]


def test_a_file_is_closed_behind_what_is_under_way(inbox: Inbox, case: Case):
    def closes(callback: Any, connection: Any) -> None:
        case.store.close()  # type: ignore[attr-defined]

    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), closes, at=AT)
    assert caught.value.code == "inbox.nested"
    begun, closed = threading.Event(), threading.Event()

    def waits(callback: Any, connection: Any) -> None:
        begun.set()
        assert not closed.wait(0.2)
        case.handler(callback, connection)

    def close() -> None:
        begun.wait()
        case.store.close()  # type: ignore[attr-defined]
        closed.set()

    with ThreadPoolExecutor(1) as thread:
        closing_it = thread.submit(close)
        assert inbox.handle(login("r1"), waits, at=AT).outcome is Outcome.APPLIED
        closing_it.result()
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.REPEATED
    assert len(case.effects()) == 1


def test_a_store_is_not_closed_behind_a_handler_that_hangs(path: Path, case: Case):
    store = SqliteStore(path, wait_s=0.05)

    def waits(callback: Any, connection: Any) -> None:
        with ThreadPoolExecutor(1) as thread, pytest.raises(InboxError) as caught:
            thread.submit(store.close).result(60)
        assert caught.value.code == "inbox.unavailable"
        case.handler(callback, connection)

    assert Inbox(receiver(), store).handle(login("r1"), waits, at=AT).outcome is Outcome.APPLIED
    store.close()


def test_a_store_that_is_no_longer_used_leaves_nothing_behind_for_forks(path: Path):
    gc.collect()
    known = len(sqlite_stores._STORES)
    stores = [SqliteStore(path) for _ in range(3)]
    assert len(sqlite_stores._STORES) == known + 3
    del stores
    gc.collect()
    assert len(sqlite_stores._STORES) == known


def test_a_file_that_is_locked_for_long_is_told_and_received_later(path: Path, case: Case):
    inbox, hasty = Inbox(receiver(), case.store), Inbox(receiver(), SqliteStore(path, wait_s=0.05))
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(4) as threads:
        other.execute("BEGIN IMMEDIATE")

        def code(n: int) -> str:
            with pytest.raises(InboxError, match=r"locked|busy") as caught:
                hasty.handle(login(f"r{n}"), case.handler, at=AT)
            return caught.value.code

        assert set(threads.map(code, range(8))) == {"inbox.unavailable"}
        other.execute("ROLLBACK")
        again = threads.map(lambda n: inbox.handle(login(f"r{n}"), case.handler, at=AT).outcome, range(8))
        assert set(again) == {Outcome.APPLIED}
    assert len(case.effects()) == 8


@pytest.mark.parametrize("lost", [Path.unlink, lambda path: path.rename(path.with_name("elsewhere"))])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(path: Path, inbox: Inbox, case: Case, lost: Any):
    inbox.handle(login("r1"), case.handler, at=AT)
    lost(path)
    with pytest.raises(InboxError, match="moved, replaced or deleted"):
        inbox.accept(login("r2"), at=AT)


def test_a_file_that_was_closed_opens_again(inbox: Inbox, case: Case):
    inbox.accept(login("r1"), at=AT)
    case.store.close()  # type: ignore[attr-defined]
    assert inbox.accept(login("r1"), at=AT).outcome is Outcome.REPEATED


def test_without_tables_nothing_is_acknowledged(path: Path):
    store = SqliteStore(path)
    with pytest.raises(InboxError, match="no such table") as caught:
        Inbox(receiver(), store).accept(login("r1"), at=AT)
    assert caught.value.code == "inbox.unavailable"
    store.close()


def test_tables_of_another_version_are_refused(path: Path, case: Case):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tppkit_inbox_schema SET version = 99")
    with pytest.raises(ConfigurationError) as caught:
        case.store.create_tables()  # type: ignore[attr-defined]
    assert caught.value.code == "inbox.schema"


@pytest.mark.parametrize("prefix", ["", "1x", "Inbox_", 'x"; DROP TABLE y; --', "x" * 31, "ž_"])
def test_a_prefix_that_is_no_name_is_refused(path: Path, prefix: str):
    with pytest.raises(ConfigurationError) as caught:
        SqliteStore(path, prefix=prefix)
    assert caught.value.code == "inbox.prefix"


def test_a_file_that_is_no_database_is_told(path: Path):
    path.write_bytes(b"no database at all, but long enough to be looked at as one" * 20)
    store = SqliteStore(path)
    with pytest.raises(InboxError) as caught:
        store.create_tables()
    assert caught.value.code == "inbox.unavailable"
    path.rename(path.with_name("elsewhere"))  # nothing was kept in it, so another may take its place
    store.create_tables()
    store.close()


def test_nothing_of_a_body_stays_behind_when_it_is_done(path: Path, inbox: Inbox, case: Case):
    inbox.handle(outcome("r1"), case.handler, at=AT)
    inbox.accept(outcome("r2", ver=2), at=AT)
    inbox.work(case.handler, at=AT)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT state, body, signature FROM tppkit_inbox_callbacks").fetchall()
    assert rows == [("done", None, None)] * 2


@pytest.mark.parametrize("wait_s", [-3, -1, 1e10, float("nan")])
def test_a_wait_that_cannot_be_is_refused(wait_s: float, tmp_path: Path):
    with pytest.raises(ConfigurationError) as caught:
        SqliteStore(tmp_path / "inbox", wait_s=wait_s)
    assert caught.value.code == "inbox.setting"


@pytest.mark.parametrize("path", [Path(":memory:"), ":memory:", "", b"inbox.sqlite", None])
def test_what_is_no_file_is_no_store(path: Any):
    with pytest.raises(ConfigurationError) as caught:
        SqliteStore(path)
    assert caught.value.code == "inbox.sqlite"


@pytest.mark.parametrize("synchronous", ["OFF", "full", None, 2])
def test_a_durability_that_is_none_is_refused(path: Path, synchronous: Any):
    with pytest.raises(ConfigurationError) as caught:
        SqliteStore(path, synchronous=synchronous)
    assert caught.value.code == "inbox.setting"


@pytest.mark.parametrize("within", [None, 5, object()])
def test_what_is_no_connection_is_refused(inbox: Inbox, within: object):
    with pytest.raises(ConfigurationError) as caught:
        inbox.once(login("r1"), at=AT, within=within)
    assert caught.value.code == "inbox.no-transaction"


def commit_and_raise(connection: sqlite3.Connection) -> None:
    connection.commit()
    raise ValueError("behind the commit")


def roll_back_by_a_conflict(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TEMP TABLE one (id UNIQUE)")
    connection.execute("INSERT INTO one VALUES (1)")
    with suppress(sqlite3.IntegrityError):
        connection.execute("INSERT OR ROLLBACK INTO one VALUES (1)")


@pytest.mark.parametrize("ends", [commit_and_raise, roll_back_by_a_conflict])
def test_a_handler_that_ended_the_transaction_is_told_so_whatever_it_raises(inbox: Inbox, ends: Any):
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), lambda _, connection: ends(connection), at=AT)
    assert caught.value.code == "inbox.handler-committed"


def commit_and_spoil(connection: sqlite3.Connection) -> None:
    connection.executescript("PRAGMA synchronous = OFF")  # which commits first


@pytest.mark.parametrize("ends", [sqlite3.Connection.close, commit_and_raise, commit_and_spoil])
def test_a_handler_that_ends_the_transaction_spoils_the_connection_for_no_other(inbox: Inbox, case: Case, ends: Any):
    with pytest.raises(ConfigurationError) as caught:
        inbox.handle(login("r1"), lambda _, connection: ends(connection), at=AT)
    assert caught.value.code == "inbox.handler-committed"
    found: list[Any] = []

    def handler(callback: Any, connection: sqlite3.Connection) -> None:
        found.extend(connection.execute("PRAGMA synchronous").fetchone())
        case.handler(callback, connection)

    for request_id in ("r2", "r3"):
        assert inbox.handle(login(request_id), handler, at=AT).outcome is Outcome.APPLIED
    assert found == [2, 2]
    assert case.effects() == ["r2 -", "r3 -"]


def test_who_waits_behind_the_first_that_fails_has_a_transaction_of_its_own(inbox: Inbox, case: Case):
    def fails(callback: Any, connection: sqlite3.Connection) -> None:
        case.write(connection, "undone")
        deadline = time.monotonic() + 20
        while not case.store._waiting and time.monotonic() < deadline:  # type: ignore[attr-defined]
            time.sleep(0.001)
        raise ValueError

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(inbox.handle, login("r1"), fails, at=AT)
        while case.store._holder is None:  # type: ignore[attr-defined]
            time.sleep(0.001)
        second = threads.submit(inbox.handle, login("r2"), lambda _, connection: case.write(connection, "kept"), at=AT)
        with pytest.raises(ValueError):
            first.result(20)
        assert second.result(20).outcome is Outcome.APPLIED
    assert case.effects() == ["kept"]


def test_a_handler_that_closes_its_connection_fails_for_itself_alone(inbox: Inbox, case: Case):
    """Another thread waits for its turn meanwhile: it shares no commit with what has failed."""

    def closes(callback: Any, connection: sqlite3.Connection) -> None:
        while not case.store._waiting:  # type: ignore[attr-defined]
            time.sleep(0.001)
        connection.close()

    def fails() -> str:
        with pytest.raises(ConfigurationError) as caught:
            inbox.handle(login("r1"), closes, at=AT)
        return caught.value.code

    with ThreadPoolExecutor(1) as thread:
        failing = thread.submit(fails)
        while case.store._holder is None:  # type: ignore[attr-defined]
            time.sleep(0.001)
        assert inbox.handle(login("r2"), case.handler, at=AT).outcome is Outcome.APPLIED
        assert failing.result(60) == "inbox.handler-committed"
    assert [failure.reason for failure in inbox.failed()] == ["ConfigurationError [inbox.handler-committed]"]
    assert case.effects() == ["r2 -"]


def test_tables_are_not_created_in_another_file_than_the_one_that_was_opened(path: Path, case: Case):
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(InboxError, match="moved, replaced or deleted"):
        case.store.create_tables()  # type: ignore[attr-defined]
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a b.sqlite", "100%25?mode=ro#x.sqlite", "file:ž.sqlite"])
def test_any_name_of_a_file_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path(name))
    store.create_tables()
    assert Inbox(receiver(), store).accept(login("r1"), at=AT).outcome is Outcome.STORED
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_spoilt_connection_is_not_opened_anew_to_another_file(path: Path, inbox: Inbox, case: Case):
    def loses(callback: Any, connection: sqlite3.Connection) -> None:
        connection.close()
        path.rename(path.with_name("elsewhere"))

    with pytest.raises(ConfigurationError):
        inbox.handle(login("r1"), loses, at=AT)
    with pytest.raises(InboxError, match="moved, replaced or deleted"):
        inbox.handle(login("r2"), case.handler, at=AT)
    assert not path.exists()


def test_a_connection_of_the_callers_that_is_closed_is_told(path: Path, inbox: Inbox):
    own = sqlite3.connect(path)
    own.close()
    with pytest.raises(InboxError) as caught:
        inbox.once(login("r1"), at=AT, within=own)
    assert caught.value.code == "inbox.unavailable"


def with_foreign_keys(path: Path, deferred: str = "") -> Inbox:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE orders (id TEXT PRIMARY KEY);"
            f"CREATE TABLE payments (order_id TEXT REFERENCES orders (id) {deferred});"
        )
    store = SqliteStore(path, on_connect=lambda connection: connection.execute("PRAGMA foreign_keys = ON"))
    return Inbox(receiver(), store)


def pay_for_nothing(callback: Any, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO payments VALUES ('no such order')")


def pay_and_order(callback: Any, connection: sqlite3.Connection) -> None:
    pay_for_nothing(callback, connection)
    connection.execute("INSERT INTO orders VALUES ('no such order')")


@pytest.mark.parametrize("deferred", ["", "DEFERRABLE INITIALLY DEFERRED"])
def test_the_applications_foreign_keys_hold_in_handlers(path: Path, case: Case, deferred: str):
    inbox = with_foreign_keys(path, deferred)
    with pytest.raises(sqlite3.IntegrityError):
        inbox.handle(login("r1"), pay_for_nothing, at=AT)
    assert [failure.reason for failure in inbox.failed()] == ["IntegrityError"]
    handlers = {"r2": pay_for_nothing, "r3": case.handler}
    receipts = inbox.handle_all(
        [login("r2"), login("r3")],
        lambda callback, connection: handlers[callback.request_id](callback, connection), at=AT,
    )  # fmt: skip
    assert [receipt.outcome for receipt in receipts if isinstance(receipt, Receipt)] == [
        Outcome.FAILED,
        Outcome.APPLIED,
    ]


def test_what_is_put_right_before_the_commit_breaks_no_deferred_foreign_key(path: Path, case: Case):
    inbox = with_foreign_keys(path, "DEFERRABLE INITIALLY DEFERRED")
    assert inbox.handle(login("r1"), pay_and_order, at=AT).outcome is Outcome.APPLIED


def test_a_shared_commit_that_a_deferred_foreign_key_refuses_acknowledges_nothing(path: Path, case: Case):
    inbox = with_foreign_keys(path, "DEFERRABLE INITIALLY DEFERRED")
    store: Any = inbox._store

    def waits(callback: Any, connection: sqlite3.Connection) -> None:
        while not store._waiting:
            time.sleep(0.001)
        pay_for_nothing(callback, connection)

    def code(request_id: str, handler: Any) -> str:
        with pytest.raises(InboxError) as caught:
            inbox.handle(login(request_id), handler, at=AT)
        return caught.value.code

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(code, "r1", waits)
        while store._holder is None:
            time.sleep(0.001)
        assert [code("r2", case.handler), first.result(60)] == ["inbox.unavailable"] * 2
    assert case.effects() == []
    assert inbox.handle(login("r2"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_a_disk_that_is_full_at_the_commit_is_told_as_that(path: Path, case: Case):
    """SQLite undoes the transaction by itself then."""
    inbox = Inbox(receiver(), case.store)

    def writes(callback: Any, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO effects VALUES (?)", ("x" * 200_000,))
        wal = path.with_name(path.name + "-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal + 20_000, before[1]))

    inbox.handle(login("r1"), case.handler, at=AT)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(InboxError) as caught:
            inbox.handle(login("r2"), writes, at=AT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.message == "the inbox's SQLite file fails: disk I/O error"
    assert inbox.handle(login("r2"), case.handler, at=AT).outcome is Outcome.APPLIED
    assert case.effects() == ["r1 -", "r2 -"]


def test_what_shares_a_commit_that_is_refused_by_another_is_tried_alone(path: Path, case: Case):
    """It costs no attempt of its own, of which it has one."""
    inbox = with_foreign_keys(path, "DEFERRABLE INITIALLY DEFERRED")
    worker = Inbox(receiver(), inbox._store, settings=InboxSettings(retries=Retries(attempts=1)))
    store: Any = inbox._store
    calls = list[str]()

    def waits(callback: Any, connection: sqlite3.Connection) -> None:
        calls.append(callback.request_id)
        while not store._waiting and len(calls) < 2:
            time.sleep(0.001)
        case.handler(callback, connection)

    worker.accept(login("r1"), at=AT)
    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(worker.work, waits, at=AT)
        while not calls:
            time.sleep(0.001)
        with pytest.raises(InboxError):
            inbox.handle(login("r2"), pay_for_nothing, at=AT)
        assert [one.outcome for one in working.result(60)] == [Outcome.APPLIED]
    assert calls == ["r1", "r1"]
    assert (case.effects(), worker.failed()) == (["r1 -"], [])


def test_a_connection_that_a_handler_kept_and_closed_is_opened_again(inbox: Inbox, case: Case):
    kept = list[sqlite3.Connection]()
    inbox.handle(login("r1"), lambda _, connection: kept.append(connection), at=AT)
    kept[0].close()
    assert inbox.handle(login("r2"), case.handler, at=AT).outcome is Outcome.APPLIED


def test_every_connection_is_handed_out_before_it_is_used(path: Path, case: Case):
    seen: list[sqlite3.Connection] = []
    store = SqliteStore(path, on_connect=seen.append)
    inbox = Inbox(receiver(), store)
    with pytest.raises(ConfigurationError):
        inbox.handle(login("r1"), lambda _, connection: connection.close(), at=AT)
    inbox.handle(login("r1"), case.handler, at=AT)
    store.close()
    inbox.handle(login("r2"), case.handler, at=AT)
    assert len(seen) == 3


def fail(connection: sqlite3.Connection) -> None:
    raise LookupError(connection)


def refuse(connection: sqlite3.Connection) -> None:
    raise ConfigurationError("extra.missing", "an extension is absent")


@pytest.mark.parametrize(
    ("on_connect", "kind", "code"),
    [
        (fail, InboxError, "inbox.unavailable"), (sqlite3.Connection.close, InboxError, "inbox.unavailable"),
        (lambda connection: connection.execute("nonsense"), InboxError, "inbox.unavailable"),
        (lambda connection: connection.execute("BEGIN"), ConfigurationError, "inbox.setting"),
        (refuse, ConfigurationError, "extra.missing"),
    ],
)  # fmt: skip
def test_a_connection_that_cannot_be_set_up_is_told(path: Path, case: Case, on_connect: Any, kind: Any, code: str):
    inbox = Inbox(receiver(), SqliteStore(path, on_connect=on_connect))
    with pytest.raises(kind) as caught:
        inbox.accept(login("r1"), at=AT)
    assert caught.value.code == code


def test_a_handler_that_hangs_holds_nobody_up_for_longer_than_was_set(path: Path, case: Case):
    """One thread's handler hangs; one that waits for its turn, and one whose effect waits for the shared commit, are told."""
    store = SqliteStore(path, wait_s=0.3)
    inbox, told = Inbox(receiver(), store), dict[str, str]()
    first, second, released = threading.Event(), threading.Event(), threading.Event()

    def deliver(request_id: str, handler: Any) -> None:
        try:
            told[request_id] = inbox.handle(login(request_id), handler, at=AT).outcome
        except InboxError as e:
            told[request_id] = e.message

    def begins(callback: Any, connection: Any) -> None:
        first.set()
        while not store._waiting:  # until the one that hangs counts on sharing the commit
            time.sleep(0.001)

    def hangs(callback: Any, connection: Any) -> None:
        second.set()
        released.wait(60)

    threads = [threading.Thread(target=deliver, args=("r1", begins))]
    threads[0].start()
    assert first.wait(60)
    threads.append(threading.Thread(target=deliver, args=("r2", hangs)))
    threads[1].start()
    assert second.wait(60)
    threads.append(threading.Thread(target=deliver, args=("r3", case.handler)))
    threads[2].start()
    threads[2].join(60)
    threads[0].join(60)
    assert "the commit did not come within 0.3 seconds" in told["r1"]
    assert "the inbox was busy for 0.3 seconds" in told["r3"]
    released.set()
    threads[1].join(60)
    # What hung has its effect after all, and so has what shared its commit.
    assert told["r2"] == Outcome.APPLIED
    assert inbox.handle(login("r1"), case.handler, at=AT).outcome is Outcome.REPEATED
    assert inbox.handle(login("r3"), case.handler, at=AT).outcome is Outcome.APPLIED
    store.close()


def test_many_who_give_up_leave_nothing_open(path: Path, case: Case):
    store = SqliteStore(path, wait_s=0.02)
    inbox = Inbox(receiver(), store)

    def deliver(number: int) -> Any:
        try:
            return inbox.handle(login(f"r{number}"), lambda *_: time.sleep(0.015), at=AT).outcome
        except InboxError:
            return None

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(deliver, range(60)))
    store.close()
    patient = Inbox(receiver(), case.store)
    again = [patient.handle(login(f"r{number}"), case.handler, at=AT).outcome for number in range(60)]
    assert set(again) <= {Outcome.APPLIED, Outcome.REPEATED}
    assert all(now is Outcome.REPEATED for then, now in zip(told, again, strict=True) if then is Outcome.APPLIED)
