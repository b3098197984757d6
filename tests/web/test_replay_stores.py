"""Every store of the replay guard, on its real database: one answer for one question, whoever else asks."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from refusals import refused
from servers import relay_to
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.replay import Bounds, Claim, ReplayStore, Verdict
from tppkit.web.replay_stores.memory import USE_BYTES, MemoryReplayStore
from tppkit.web.replay_stores.table import TABLE, TableReplayStore

pytestmark = pytest.mark.slow

HOUR, MINUTE = 3_600_000_000, 60_000_000
NOW = 1_780_000_000_000_000
KINDS = ("memory", "sqlite", "postgresql")
FIRST, AGAIN, RUNNING, SAME, OTHER = Verdict

Make = Callable[[], Any]


def psycopg_url(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


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
        return lambda: TableReplayStore(f"sqlite:///{tmp_path / 'ids.sqlite'}")
    url = psycopg_url(request.getfixturevalue("postgresql_url"))
    return lambda: TableReplayStore(url, table=name)


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


def test_the_same_request_gets_the_first_answer_and_another_one_none(store, key, digest):
    other = bytes(reversed(digest))
    store.settle(key, NOW, b"an answer to nothing")
    first = store.claim(key, digest, bounds())
    assert first.verdict is FIRST
    assert store.claim(key, digest, bounds(NOW + MINUTE - 1)) == Claim(RUNNING)
    assert store.claim(key, other, bounds()) == Claim(OTHER)
    store.settle(key, 0, b"not its answer")
    for answer in (b"\x00answer\xff", b"second", None):
        store.settle(key, first.attempt, answer)
    for later in (1, MINUTE, HOUR - 1):
        assert store.claim(key, digest, bounds(NOW + later)) == Claim(SAME, b"\x00answer\xff")
        assert store.claim(key, other, bounds(NOW + later)) == Claim(OTHER)


def test_a_claim_as_old_as_its_window_leaves_the_id_unused_and_takes_no_claim_over(store, key, digest):
    old, other = Bounds(NOW - HOUR, NOW - HOUR, -1), bytes(reversed(digest))
    for tried in (digest, other, other):
        claim = store.claim(key, tried, old)
        assert claim.verdict is FIRST
        store.settle(key, claim.attempt, None)
    attempt = store.claim(key, digest, bounds()).attempt
    assert store.claim(key, digest, old) == Claim(RUNNING)
    assert store.claim(key, other, old) == Claim(OTHER)
    store.settle(key, attempt, b"answer")
    assert store.claim(key, digest, old) == Claim(SAME, b"answer")


@pytest.mark.parametrize("answered", [True, False])
def test_an_id_is_new_again_when_its_window_is_over_whatever_its_earlier_attempt_answers(store, key, digest, answered):
    attempt = store.claim(key, digest, bounds()).attempt
    if answered:
        store.settle(key, attempt, b"old")
    other = bytes(reversed(digest))
    assert store.claim(key, other, bounds(NOW + HOUR)).verdict is FIRST
    store.settle(key, attempt, b"late")
    assert store.claim(key, digest, bounds(NOW + HOUR)) == Claim(OTHER)
    assert store.claim(key, other, bounds(NOW + HOUR)) == Claim(RUNNING)


def test_a_claim_whose_time_is_over_goes_to_the_next_one_only(store, key, digest):
    store.claim(key, digest, bounds())
    assert store.claim(key, digest, bounds(NOW + MINUTE)).verdict is AGAIN
    assert store.claim(key, digest, bounds(NOW + MINUTE)) == Claim(RUNNING)


@pytest.mark.parametrize("later", [0, MINUTE])
def test_an_overtaken_claim_neither_answers_nor_frees(store, key, digest, later):
    first = store.claim(key, digest, bounds())
    store.settle(key, first.attempt, None)
    second = store.claim(key, digest, bounds(NOW + later))  # though the clock stands
    assert (second.verdict, second.attempt > first.attempt) == (AGAIN, True)
    store.settle(key, first.attempt, None)
    store.settle(key, first.attempt, b"late")
    assert store.claim(key, digest, bounds(NOW + later)) == Claim(RUNNING)
    store.settle(key, second.attempt, b"right")
    assert store.claim(key, digest, bounds(NOW + later)) == Claim(SAME, b"right")


def test_of_many_threads_one_is_first(store):
    for _ in range(10):
        key, digest, start = os.urandom(32), os.urandom(32), threading.Barrier(8)

        def claim(_: int, key: bytes = key, digest: bytes = digest, start: threading.Barrier = start) -> Verdict:
            start.wait()
            return store.claim(key, digest, bounds()).verdict

        with ThreadPoolExecutor(8) as pool:
            assert Counter(pool.map(claim, range(8))) == {FIRST: 1, RUNNING: 7}


def in_processes(work: Callable[[int], Any]) -> list[Any]:
    """What `work` gives in each of three forked processes."""
    forked = multiprocessing.get_context("fork")
    results = forked.Queue()
    processes = [forked.Process(target=lambda one: results.put(work(one)), args=(number,)) for number in range(3)]
    for process in processes:
        process.start()
    given = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    return given


@pytest.mark.parametrize("make", ["sqlite", "postgresql"], indirect=True)
def test_of_several_processes_one_is_first(make):
    keys, start = [os.urandom(32) for _ in range(60)], multiprocessing.get_context("fork").Barrier(3)

    def work(number: int) -> list[str]:
        with closing(make()) as store:
            start.wait(30)
            return [store.claim(key, bytes([number]) * 32, bounds()).verdict.value for key in keys]

    for verdicts in zip(*in_processes(work), strict=True):
        assert sorted(verdicts) == ["first", "other", "other"]


def test_a_purge_and_each_first_use_forget_what_is_over_and_nothing_else(store):
    old, young = [os.urandom(32) for _ in range(5)], os.urandom(32)
    for number, key in enumerate(old):
        store.claim(key, key, bounds(NOW + number))
    store.claim(young, young, bounds(NOW + HOUR // 2))
    purged = [store.purge(forget=NOW + 4, limit=3), store.purge(forget=NOW + 4, limit=10)]
    assert purged == [3, 2]
    assert store.claim(young, young, bounds(NOW + HOUR // 2)) == Claim(RUNNING)
    for number in range(10):
        store.claim(bytes([number]) * 32, b"d" * 32, bounds(NOW))
    for number in range(10, 15):
        store.claim(bytes([number]) * 32, b"d" * 32, bounds(NOW + HOUR))
    assert store.purge(forget=NOW, limit=100) == 0


def test_a_claim_stays_if_it_cannot_be_deleted(tmp_path, caplog):
    path = tmp_path / "ids.sqlite"
    store = TableReplayStore(f"sqlite:///{path}")
    store.claim(b"o" * 32, b"d" * 32, Bounds(1, 0, 0))
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"CREATE TRIGGER held BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, 'held'); END")
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is FIRST
    assert "could not be deleted" in caplog.text
    with pytest.raises(TransportError):
        store.purge(forget=NOW, limit=1)


def test_a_setting_of_no_use_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'ids'}"
    for given, settings in (
        ("sqlite://", {}),
        ("mysql://localhost/x", {}),
        (url, {"wait_s": -1}),
        (url, {"wait_s": float("nan")}),
    ):
        with refused(ConfigurationError, "web.setting"):
            TableReplayStore(given, **settings)
    for table in ("", "Ids", "ids; DROP TABLE x", "1ids", "x" * 41):
        with refused(ConfigurationError, "replay.table"):
            TableReplayStore(url, table=table)


def test_a_table_of_another_shape_is_refused_at_start(tmp_path):
    with sqlite3.connect(tmp_path / "ids") as plain:
        plain.execute("create table tppkit_request_ids (other text)")
    with refused(TransportError, "replay.unavailable"):
        TableReplayStore(f"sqlite:///{tmp_path / 'ids'}")


@pytest.mark.parametrize(
    "url", ["sqlite:////nowhere/ids.sqlite", "postgresql+psycopg:///x?host=/nowhere", "no address"]
)
def test_a_database_that_cannot_be_opened_is_reported(url):
    with refused(TransportError, "replay.unavailable"):
        TableReplayStore(url)


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"])
def test_nothing_is_claimed_in_a_file_without_the_table(lose, tmp_path):
    path = tmp_path / "ids.sqlite"
    store = TableReplayStore(f"sqlite:///{path}")
    lose(path)
    with refused(TransportError, "replay.unavailable"):
        store.claim(b"k" * 32, b"d" * 32, bounds())


def test_a_broken_connection_to_postgresql_is_opened_again(postgresql_url):
    store = TableReplayStore(psycopg_url(postgresql_url), table=f"t{uuid4().hex}")
    store.claim(b"k" * 32, b"d" * 32, bounds())
    with psycopg.connect(postgresql_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is RUNNING
    store.close()


def test_a_full_memory_refuses_rather_than_forgets_and_one_organisation_fills_no_more_than_its_share():
    store = MemoryReplayStore(max_bytes=3 * USE_BYTES, share=1)
    for number in range(3):
        assert store.claim(bytes([number]) * 32, b"d" * 32, bounds()).verdict is FIRST
    with refused(TransportError, "replay.unavailable"):
        store.claim(b"x" * 32, b"d" * 32, bounds())
    assert store.claim(b"\x00" * 32, b"d" * 32, bounds()).verdict is RUNNING
    assert store.claim(b"x" * 32, b"d" * 32, bounds(NOW + HOUR)).verdict is FIRST
    store = MemoryReplayStore(max_bytes=8 * USE_BYTES, share=0.25)
    for number in range(2):
        store.claim(b"greedy.." + bytes([number]) * 24, b"d" * 32, bounds())
    with pytest.raises(TransportError):
        store.claim(b"greedy.." + b"x" * 24, b"d" * 32, bounds())
    assert store.claim(b"another." + b"x" * 24, b"d" * 32, bounds()).verdict is FIRST
    store.purge(forget=NOW, limit=10)
    assert store.claim(b"greedy.." + b"x" * 24, b"d" * 32, bounds(NOW + HOUR)).verdict is FIRST


def test_an_answer_that_does_not_fit_in_memory_is_kept_as_too_long(key, digest):
    store = MemoryReplayStore(max_bytes=2 * USE_BYTES, share=1)
    store.settle(key, store.claim(key, digest, bounds()).attempt, b"x" * (USE_BYTES + 1))
    assert store.claim(key, digest, bounds()) == Claim(SAME, b"")
    assert store.claim(os.urandom(32), digest, bounds()).verdict is FIRST


def test_a_postgresql_that_stops_answering_fails_every_call_in_time(postgresql_url):
    with relay_to(postgresql_url) as (url, silent):
        store = TableReplayStore(psycopg_url(url), table=f"t{uuid4().hex}", wait_s=0.5)
        store.claim(b"k" * 32, b"d" * 32, bounds())
        silent.set()
        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(store.claim, os.urandom(32), b"d" * 32, bounds()) for _ in range(4)]
            codes = {getattr(call.exception(timeout=20), "code", None) for call in calls}
        assert codes == {"replay.unavailable"}
        silent.clear()
        assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is RUNNING  # over a connection of its own
        store.close()


def test_a_request_behind_a_locked_table_does_not_wait_for_all_before_it(postgresql_url):
    table = f"t{uuid4().hex}"
    store = TableReplayStore(psycopg_url(postgresql_url), table=table, wait_s=0.5)
    with psycopg.connect(postgresql_url) as locking, ThreadPoolExecutor(20) as pool:
        locking.execute(f"LOCK TABLE {table}".encode())
        before = time.monotonic()
        calls = [pool.submit(store.claim, os.urandom(32), b"d" * 32, bounds()) for _ in range(20)]
        codes = {getattr(call.exception(timeout=20), "code", None) for call in calls}
        assert (codes, time.monotonic() - before < 5) == ({"replay.unavailable"}, True)  # 20 in a row take 8 seconds
    assert store.claim(b"k" * 32, b"d" * 32, bounds()).verdict is FIRST
    store.close()
