"""Every store of the replay guard, on its real database: one answer for one question, whoever else asks."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.replay import Bounds, Claim, ReplayStore, Verdict
from tppkit.web.replay_stores.memory import USE_BYTES, MemoryReplayStore
from tppkit.web.replay_stores.postgresql import PostgresqlReplayStore
from tppkit.web.replay_stores.redis import RedisReplayStore
from tppkit.web.replay_stores.sql import TABLE
from tppkit.web.replay_stores.sqlite import SqliteReplayStore

HOUR, MINUTE = 3_600_000_000, 60_000_000
NOW = 1_780_000_000_000_000
KINDS = ("memory", "sqlite", "postgresql", "redis")
FIRST, AGAIN, RUNNING, SAME, OTHER = Verdict

Make = Callable[[], Any]


def bounds(at: int = NOW) -> Bounds:
    return Bounds(at, at - HOUR, at - MINUTE)


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the same store each time it is called; memory has one only."""
    name = f"t{uuid4().hex}"
    if request.param == "memory":
        memory = MemoryReplayStore()
        return lambda: memory
    if request.param == "sqlite":
        return lambda: SqliteReplayStore(tmp_path / "ids.sqlite")
    url = request.getfixturevalue(f"{request.param}_url")
    if request.param == "postgresql":
        return lambda: PostgresqlReplayStore(url, table=name)
    return lambda: RedisReplayStore(url, prefix=name)


@pytest.fixture
def store(make: Make) -> Iterator[ReplayStore]:
    opened = make()
    yield opened
    if hasattr(opened, "close"):
        opened.close()


@pytest.fixture
def key() -> bytes:
    return os.urandom(32)


@pytest.fixture
def digest() -> bytes:
    return os.urandom(32)


def test_a_new_id_is_first(store: ReplayStore, key: bytes, digest: bytes) -> None:
    assert store.claim(key, digest, bounds()).verdict is FIRST


def test_the_same_request_waits_for_the_first_ones_answer(store: ReplayStore, key: bytes, digest: bytes) -> None:
    attempt = store.claim(key, digest, bounds()).attempt
    assert store.claim(key, digest, bounds(NOW + MINUTE - 1)) == Claim(RUNNING)
    store.settle(key, attempt, b"\x00answer\xff")
    assert store.claim(key, digest, bounds(NOW + 1)) == Claim(SAME, b"\x00answer\xff")
    assert store.claim(key, digest, bounds(NOW + HOUR - 1)) == Claim(SAME, b"\x00answer\xff")


def test_another_request_under_the_same_id_is_told_apart(store: ReplayStore, key: bytes, digest: bytes) -> None:
    attempt = store.claim(key, digest, bounds()).attempt
    other = bytes(reversed(digest))
    assert store.claim(key, other, bounds()) == Claim(OTHER)
    store.settle(key, 0, b"not its answer")
    store.settle(key, attempt, b"its answer")
    assert store.claim(key, other, bounds(NOW + HOUR - 1)) == Claim(OTHER)
    assert store.claim(key, digest, bounds()) == Claim(SAME, b"its answer")


def test_an_id_is_new_again_when_its_window_is_over(store: ReplayStore, key: bytes, digest: bytes) -> None:
    attempt = store.claim(key, digest, bounds()).attempt
    store.settle(key, attempt, b"old")
    other = bytes(reversed(digest))
    assert store.claim(key, other, bounds(NOW + HOUR)).verdict is FIRST
    assert store.claim(key, digest, bounds(NOW + HOUR)) == Claim(OTHER)
    assert store.claim(key, other, bounds(NOW + HOUR)) == Claim(RUNNING)


def test_a_claim_whose_time_is_over_goes_to_the_next_one_only(store: ReplayStore, key: bytes, digest: bytes) -> None:
    store.claim(key, digest, bounds())
    assert store.claim(key, digest, bounds(NOW + MINUTE)).verdict is AGAIN
    assert store.claim(key, digest, bounds(NOW + MINUTE)) == Claim(RUNNING)


def test_a_claim_that_was_let_go_can_be_taken_at_once(store: ReplayStore, key: bytes, digest: bytes) -> None:
    store.settle(key, store.claim(key, digest, bounds()).attempt, None)
    assert store.claim(key, digest, bounds(NOW + 1)).verdict is AGAIN


def test_the_first_answer_stays(store: ReplayStore, key: bytes, digest: bytes) -> None:
    attempt = store.claim(key, digest, bounds()).attempt
    for answer in (b"first", b"second", None):
        store.settle(key, attempt, answer)
    assert store.claim(key, digest, bounds(NOW + MINUTE)) == Claim(SAME, b"first")


@pytest.mark.parametrize("later", [0, MINUTE])
def test_who_was_overtaken_neither_answers_nor_frees(store: ReplayStore, key: bytes, digest: bytes, later: int) -> None:
    first = store.claim(key, digest, bounds())
    store.settle(key, first.attempt, None)
    second = store.claim(key, digest, bounds(NOW + later))  # though the clock stands
    assert (second.verdict, second.attempt > first.attempt) == (AGAIN, True)
    store.settle(key, first.attempt, None)
    store.settle(key, first.attempt, b"late")
    assert store.claim(key, digest, bounds(NOW + later)) == Claim(RUNNING)
    store.settle(key, second.attempt, b"right")
    assert store.claim(key, digest, bounds(NOW + later)) == Claim(SAME, b"right")


def test_an_attempt_of_an_earlier_window_does_not_answer_in_the_next(
    store: ReplayStore, key: bytes, digest: bytes
) -> None:
    old = store.claim(key, digest, bounds())
    new = store.claim(key, digest, bounds(NOW + HOUR))
    store.settle(key, old.attempt, b"old")
    assert (new.verdict, store.claim(key, digest, bounds(NOW + HOUR))) == (FIRST, Claim(RUNNING))


def test_an_answer_to_nothing_is_nothing(store: ReplayStore, key: bytes, digest: bytes) -> None:
    store.settle(key, NOW, b"answer")
    assert store.claim(key, digest, bounds()).verdict is FIRST


def test_of_many_threads_one_is_first(store: ReplayStore) -> None:
    for _ in range(10):
        key, digest, start = os.urandom(32), os.urandom(32), threading.Barrier(8)

        def claim(_: int, key: bytes = key, digest: bytes = digest, start: threading.Barrier = start) -> Verdict:
            start.wait()
            return store.claim(key, digest, bounds()).verdict

        with ThreadPoolExecutor(8) as pool:
            assert Counter(pool.map(claim, range(8))) == {FIRST: 1, RUNNING: 7}


def test_of_several_processes_one_is_first(request: pytest.FixtureRequest, make: Make) -> None:
    if request.node.callspec.params["make"] == "memory":
        return  # it is no store of several processes
    keys = [os.urandom(32) for _ in range(60)]
    spawned = multiprocessing.get_context("fork")
    results, start = spawned.Queue(), spawned.Barrier(3)

    def work(digest: bytes) -> None:
        store = make()
        start.wait(30)
        results.put([store.claim(key, digest, bounds()).verdict.value for key in keys])
        store.close()

    processes = [spawned.Process(target=work, args=(bytes([number]) * 32,)) for number in range(3)]
    for process in processes:
        process.start()
    told = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    for verdicts in zip(*told, strict=True):
        assert sorted(verdicts) == ["first", "other", "other"]


def test_a_purge_forgets_what_is_over_and_nothing_else(request: pytest.FixtureRequest, store: ReplayStore) -> None:
    old, young = [os.urandom(32) for _ in range(5)], os.urandom(32)
    for number, key in enumerate(old):
        store.claim(key, key, bounds(NOW + number))
    store.claim(young, young, bounds(NOW + HOUR // 2))
    purged = [store.purge(forget=NOW + 4, limit=3), store.purge(forget=NOW + 4, limit=10)]
    # Redis forgets by its own clock.
    assert purged == ([0, 0] if isinstance(store, RedisReplayStore) else [3, 2])
    assert store.claim(young, young, bounds(NOW + HOUR // 2)) == Claim(RUNNING)


def test_first_uses_sweep_up_behind_them(store: ReplayStore) -> None:
    if isinstance(store, RedisReplayStore):
        client = store._client
        store.claim(b"k" * 32, b"d" * 32, bounds())
        assert 3_600_000 < client.pttl(store._prefix + (b"k" * 32).hex()) <= 3_660_000
        store.claim(b"w" * 32, b"d" * 32, Bounds(NOW, NOW - 5 * HOUR, NOW))  # the guard's window, not one of its own
        assert client.pttl(store._prefix + (b"w" * 32).hex()) > 5 * 3_600_000
        return
    for number in range(10):
        store.claim(bytes([number]) * 32, b"d" * 32, bounds(NOW))
    for number in range(10, 15):
        store.claim(bytes([number]) * 32, b"d" * 32, bounds(NOW + HOUR))
    assert store.purge(forget=NOW, limit=100) == 0


def test_a_claim_stands_where_nothing_can_be_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "ids.sqlite"
    store = SqliteReplayStore(path)
    store.claim(b"o" * 32, b"d" * 32, Bounds(1, 0, 0))
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"CREATE TRIGGER held BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, 'held'); END")
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is FIRST
    assert "were not forgotten" in caplog.text
    with pytest.raises(TransportError):
        store.purge(forget=NOW, limit=1)


def test_a_database_in_memory_is_no_store_for_processes() -> None:
    with pytest.raises(ConfigurationError) as refused:
        SqliteReplayStore(Path(":memory:"))
    assert refused.value.code == "web.setting"
    assert not Path(":memory:").exists()


@pytest.mark.parametrize("wait_s", [-3, -1, 1e10, float("nan"), float("inf")])
def test_a_wait_that_cannot_be_is_refused(wait_s: float, tmp_path: Path) -> None:
    for make in (
        lambda: SqliteReplayStore(tmp_path / "ids", wait_s=wait_s),
        lambda: PostgresqlReplayStore("host=127.0.0.1", wait_s=wait_s),
    ):
        with pytest.raises(ConfigurationError) as refused:
            make()
        assert refused.value.code == "web.setting"


def test_a_full_memory_refuses_rather_than_forgets() -> None:
    store = MemoryReplayStore(max_bytes=3 * USE_BYTES, share=1)
    for number in range(3):
        assert store.claim(bytes([number]) * 32, b"d" * 32, bounds()).verdict is FIRST
    with pytest.raises(TransportError) as caught:
        store.claim(b"x" * 32, b"d" * 32, bounds())
    assert caught.value.code == "replay.unavailable"
    assert store.claim(b"\x00" * 32, b"d" * 32, bounds()).verdict is RUNNING
    assert store.claim(b"x" * 32, b"d" * 32, bounds(NOW + HOUR)).verdict is FIRST


def test_one_organisation_fills_no_more_than_its_share_of_the_memory() -> None:
    store = MemoryReplayStore(max_bytes=8 * USE_BYTES, share=0.25)
    for number in range(2):
        store.claim(b"greedy.." + bytes([number]) * 24, b"d" * 32, bounds())
    with pytest.raises(TransportError):
        store.claim(b"greedy.." + b"x" * 24, b"d" * 32, bounds())
    assert store.claim(b"another." + b"x" * 24, b"d" * 32, bounds()).verdict is FIRST
    store.purge(forget=NOW, limit=10)
    assert store.claim(b"greedy.." + b"x" * 24, b"d" * 32, bounds(NOW + HOUR)).verdict is FIRST


def test_an_answer_without_room_in_memory_is_kept_as_too_long(key: bytes, digest: bytes) -> None:
    store = MemoryReplayStore(max_bytes=2 * USE_BYTES, share=1)
    store.settle(key, store.claim(key, digest, bounds()).attempt, b"x" * (USE_BYTES + 1))
    assert store.claim(key, digest, bounds()) == Claim(SAME, b"")
    assert store.claim(os.urandom(32), digest, bounds()).verdict is FIRST


def test_a_sqlite_file_is_its_owners_alone(tmp_path: Path) -> None:
    SqliteReplayStore(tmp_path / "ids.sqlite").claim(b"k" * 32, b"d" * 32, bounds())
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def _replace(path: Path) -> None:
    path.rename(path.with_name("old.sqlite"))
    path.touch()


@pytest.mark.parametrize(
    "lose", [Path.unlink, lambda path: path.rename(path.with_name("elsewhere")), _replace], ids=["deleted", "moved", "replaced"]
)  # fmt: skip
def test_nothing_is_claimed_in_a_file_that_other_processes_do_not_see(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "ids.sqlite"
    store = SqliteReplayStore(path)
    attempt = store.claim(b"k" * 32, b"d" * 32, bounds()).attempt
    lose(path)
    for call in (
        lambda: store.claim(b"x" * 32, b"d" * 32, bounds()),
        lambda: store.claim(b"k" * 32, b"d" * 32, bounds()),
        lambda: store.settle(b"k" * 32, attempt, b"answer"),
    ):
        with pytest.raises(TransportError, match="moved, replaced or deleted") as caught:
            call()
        assert caught.value.code == "replay.unavailable"


def test_a_store_opened_before_a_fork_serves_each_process_its_own(
    request: pytest.FixtureRequest, store: ReplayStore
) -> None:
    if isinstance(store, MemoryReplayStore):
        return  # it is no store of several processes
    store.claim(b"k" * 32, b"d" * 32, bounds())
    forked = multiprocessing.get_context("fork")
    results = forked.Queue()

    def work(number: int) -> None:
        keys = [bytes([number, n]) * 16 for n in range(80)]
        verdicts = [store.claim(key, bytes([number]) * 32, bounds()).verdict.value for key in keys]
        results.put((verdicts, store.claim(b"k" * 32, b"d" * 32, bounds()).verdict.value))

    processes = [forked.Process(target=work, args=(number,)) for number in range(3)]
    for process in processes:
        process.start()
    told = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(30)
    assert told == [(["first"] * 80, "running")] * 3
    assert store.claim(b"k" * 32, b"x" * 32, bounds()).verdict is OTHER


def test_a_memory_store_that_is_forked_in_use_goes_on_in_both_processes() -> None:
    inside, go_on = threading.Event(), threading.Event()

    class WaitingKey(bytes):
        """Waits where a claim looks it up, which is behind the store's lock."""

        def __hash__(self) -> int:
            inside.set()
            go_on.wait(60)
            return super().__hash__()

    store = MemoryReplayStore(max_bytes=4 * USE_BYTES, share=1)
    store.claim(b"k" * 32, b"d" * 32, bounds())
    forked = multiprocessing.get_context("fork")
    results = forked.Queue()

    def work() -> None:
        told = [store.claim(key * 32, b"d" * 32, bounds()).verdict.value for key in (b"k", b"1", b"2", b"3")]
        with pytest.raises(TransportError):  # so the uses that were copied are counted
            store.claim(b"4" * 32, b"d" * 32, bounds())
        results.put(told)

    with ThreadPoolExecutor(1) as pool:
        claimed = pool.submit(store.claim, WaitingKey(b"w" * 32), b"d" * 32, bounds())
        assert inside.wait(30)
        process = forked.Process(target=work)
        process.start()
        go_on.set()
        assert claimed.result(30).verdict is FIRST
    assert results.get(timeout=30) == ["running", "first", "first", "first"]
    process.join(30)
    assert process.exitcode == 0
    assert store.claim(b"1" * 32, b"d" * 32, bounds()).verdict is FIRST  # none learns what another adds


@pytest.mark.parametrize(
    "opening",
    [
        lambda folder: SqliteReplayStore(folder / "none" / "ids.sqlite"),
        lambda folder: PostgresqlReplayStore("postgresql:///x?host=/nowhere"),
        lambda folder: RedisReplayStore("redis://127.0.0.1:1/0").claim(b"k" * 32, b"d" * 32, bounds()),
    ],
    ids=["sqlite", "postgresql", "redis"],
)
def test_a_store_that_cannot_be_reached_says_so(opening: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(TransportError) as caught:
        opening(tmp_path)
    assert caught.value.code == "replay.unavailable"


def test_a_broken_connection_to_postgresql_is_opened_again(postgresql_url: str) -> None:
    store = PostgresqlReplayStore(postgresql_url, table=f"t{uuid4().hex}")
    store.claim(b"k" * 32, b"d" * 32, bounds())
    with pytest.raises(TransportError):
        store._query("SELECT pg_terminate_backend(pg_backend_pid())", {})
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is RUNNING
    store.close()


def test_postgresql_is_not_waited_for_without_end(postgresql_url: str) -> None:
    store = PostgresqlReplayStore(postgresql_url, table=f"t{uuid4().hex}")
    with pytest.raises(TransportError) as caught:
        store._query("SET LOCAL statement_timeout = 50; SELECT pg_sleep(20)", {})
    assert caught.value.code == "replay.unavailable"
    assert store._query("SHOW statement_timeout", {}) == [("4s",)]
    store.close()


@contextmanager
def relay_to(postgresql_url: str) -> Iterator[tuple[str, threading.Event]]:
    """The address of a relay before the server, which from an event on takes everything and passes nothing on."""
    socket_path = f"{psycopg.conninfo.conninfo_to_dict(postgresql_url)['host']}/.s.PGSQL.5432"
    silent = threading.Event()

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, far = listening.accept()[0], socket.socket(socket.AF_UNIX)
                ends.extend((near, far))
                far.connect(socket_path)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        try:
            yield f"host=127.0.0.1 port={listening.getsockname()[1]} dbname=postgres user=tppkit", silent
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for end in ends:
                end.close()


def test_a_postgresql_that_falls_silent_fails_every_call_in_time(postgresql_url: str) -> None:
    with relay_to(postgresql_url) as (url, silent):
        store = PostgresqlReplayStore(url, table=f"t{uuid4().hex}", wait_s=0.5)
        store.claim(b"k" * 32, b"d" * 32, bounds())
        silent.set()
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(store.claim, os.urandom(32), b"d" * 32, bounds()) for _ in range(4)]
            codes = {getattr(call.exception(timeout=20), "code", None) for call in calls}
        assert codes == {"replay.unavailable"}
        silent.clear()
        assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is RUNNING  # over a connection of its own
        store.close()


def test_who_waits_behind_a_locked_table_does_not_wait_for_all_before_it(postgresql_url: str) -> None:
    table = f"t{uuid4().hex}"
    store = PostgresqlReplayStore(postgresql_url, table=table, wait_s=0.5)
    with psycopg.connect(postgresql_url) as locking, ThreadPoolExecutor(20) as pool:
        locking.execute(f"LOCK TABLE {table}".encode())
        before = time.monotonic()
        calls = [pool.submit(store.claim, os.urandom(32), b"d" * 32, bounds()) for _ in range(20)]
        codes = {getattr(call.exception(timeout=20), "code", None) for call in calls}
        assert (codes, time.monotonic() - before < 5) == ({"replay.unavailable"}, True)  # 20 in a row take 8 seconds
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is FIRST
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def of_first_form(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens a store whose table was made before there were attempts, and has one answered and one open use."""
    rows = ((b"a" * 32, b"d" * 32, NOW, NOW, b"answer"), (b"o" * 32, b"d" * 32, NOW, NOW, None))
    create = (
        "CREATE TABLE {} (key {octets} PRIMARY KEY, digest {octets} NOT NULL, first_at BIGINT NOT NULL,"
        " claimed_at BIGINT NOT NULL, answer {octets})"
    )
    insert = "INSERT INTO {} (key, digest, first_at, claimed_at, answer) VALUES ({places})"
    if request.param == "sqlite":
        path = tmp_path / "ids.sqlite"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(create.format(TABLE, octets="BLOB"))
            database.executemany(insert.format(TABLE, places="?, ?, ?, ?, ?"), rows)
        return lambda: SqliteReplayStore(path)
    url, name = request.getfixturevalue("postgresql_url"), f"t{uuid4().hex}"
    with psycopg.connect(url) as connection:
        connection.execute(create.format(name, octets="BYTEA").encode())
        connection.cursor().executemany(insert.format(name, places="%s, %s, %s, %s, %s").encode(), rows)
    return lambda: PostgresqlReplayStore(url, table=name)


def test_a_table_of_the_first_form_is_migrated_with_what_it_holds(of_first_form: Make) -> None:
    store = of_first_form()
    assert store.claim(b"a" * 32, b"d" * 32, bounds()) == Claim(SAME, b"answer")
    assert store.claim(b"o" * 32, b"d" * 32, bounds()) == Claim(RUNNING)
    again = store.claim(b"o" * 32, b"d" * 32, bounds(NOW + MINUTE))
    assert (again.verdict, again.attempt) == (AGAIN, NOW + MINUTE)
    store.settle(b"o" * 32, 0, b"of a process of the former release")
    store.settle(b"o" * 32, again.attempt, b"right")
    assert store.claim(b"o" * 32, b"d" * 32, bounds(NOW + MINUTE)) == Claim(SAME, b"right")
    store.close()


def test_several_processes_migrate_one_table(of_first_form: Make) -> None:
    start = threading.Barrier(4)

    def open_one(_: int) -> Verdict:
        start.wait()
        store = of_first_form()
        with closing(store):
            return store.claim(b"a" * 32, b"d" * 32, bounds()).verdict  # type: ignore[no-any-return]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_one, range(4))) == [SAME] * 4


@pytest.mark.parametrize("table", ["", "Ids", "ids; DROP TABLE x", "1ids", "x" * 41])
def test_a_table_has_a_plain_name(table: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SqliteReplayStore(tmp_path / "ids.sqlite", table=table)
    assert caught.value.code == "replay.table"
