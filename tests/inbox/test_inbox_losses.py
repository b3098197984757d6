"""Files, locks, full disks, forks and interrupts lose nothing and double nothing."""

from __future__ import annotations

import inspect
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from inbox_cases import AT, DAY, SOURCE, apply, effects, entry, open_store

from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError, Outcome, Worker
from tppkit.inbox.store import InboxStore

KINDS = ("sqlite", "postgresql")


@pytest.fixture
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store("sqlite", tmp_path, request, wait_s=0.5)


def test_a_file_that_another_program_locks_is_unavailable_and_received_later(sqlite_store, tmp_path):
    with closing(sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for call in (lambda: sqlite_store.accept(entry("a")), lambda: sqlite_store.handle(entry("b"), apply, at=AT)):
            with pytest.raises(InboxError, match="database is locked"):
                call()
        assert sqlite_store.failed(SOURCE) == []  # an operator can look
        other.execute("ROLLBACK")
    assert sqlite_store.handle(entry("b"), apply, at=AT) is Outcome.APPLIED


@pytest.mark.parametrize("way", ["handle", "work"])
def test_a_full_disk_loses_and_doubles_nothing(sqlite_store, tmp_path, way):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fills(one: Any, db: Any) -> None:
        apply(one, db)
        db.exec_driver_sql("INSERT INTO store_effects (line) VALUES (?)", ("x" * 200_000,))
        size = (tmp_path / "inbox.sqlite-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, before[1]))

    sqlite_store.accept(entry("a"))
    try:
        if way == "handle":
            with pytest.raises(InboxError, match=r"disk I/O error|full"):
                sqlite_store.handle(entry("a"), fills, at=AT)
        else:
            sqlite_store.work(Worker(SOURCE, fills), at=AT)  # its failure is small enough to be kept
            with pytest.raises(InboxError, match=r"disk I/O error|full"):
                sqlite_store.accept(entry("b", content=b"x" * 50_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sqlite_store.handle(entry("a"), apply, at=AT + DAY) is Outcome.APPLIED
    assert effects(sqlite_store) == ["a"]


def test_nothing_is_acknowledged_into_a_file_that_was_removed(sqlite_store, tmp_path):
    sqlite_store.handle(entry("a"), apply, at=AT)
    (tmp_path / "inbox.sqlite").unlink()
    for _ in range(2):
        with pytest.raises(InboxError, match="moved, replaced or deleted"):
            sqlite_store.accept(entry("b"))
    assert not (tmp_path / "inbox.sqlite").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_worker_loses_nothing_when_its_parent_ends(kind, request, tmp_path):
    """The parent closes the connections that the child would inherit; the last process to close a SQLite file deletes its log."""
    store = open_store(kind, tmp_path, request)
    store.handle(entry("parent"), apply, at=AT)
    middle = os.fork()
    if middle == 0:
        parent = os.getpid()
        if os.fork() == 0:
            code = 1
            try:
                while os.getppid() == parent:
                    time.sleep(0.01)
                for n in range(3):
                    assert store.handle(entry(f"child{n}"), apply, at=AT) is Outcome.APPLIED
                    if kind == "sqlite":  # another process reads, and is the last to close the file
                        os.system(
                            f"{sys.executable} -c \"import sqlite3; sqlite3.connect('{tmp_path}/inbox.sqlite').close()\""
                        )
                code = 0
            finally:
                (tmp_path / "code").write_text(str(code))
                os._exit(code)
        os._exit(0)
    os.waitpid(middle, 0)
    deadline = time.monotonic() + 30
    while not (tmp_path / "code").exists() or not (tmp_path / "code").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (tmp_path / "code").read_text() == "0"
    assert store.handle(entry("parent"), apply, at=AT) is Outcome.REPEATED
    assert effects(store) == ["parent", "child0", "child1", "child2"]


_FILES = ("inbox/store.py", "inbox/database.py", "sqlalchemy/engine/base.py")


@contextmanager
def interrupted(number: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread at a place by its number; gives where it was, nothing if there were fewer.

    Signals are handled where a function of Python begins and where one of C has returned.
    """
    left, where = number, list[str]()

    def look(frame: FrameType, happened: str, called: Any) -> None:
        nonlocal left
        begins = happened == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if (begins or happened == "c_return") and frame.f_code.co_filename.endswith(_FILES):
            left -= 1
            if left == 0:
                where.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield where
    except KeyboardInterrupt:
        assert where
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("fails", [False, True], ids=["handler works", "handler fails"])
def test_an_interrupt_anywhere_loses_and_doubles_nothing(fails, sqlite_store):
    def half(one: Any, db: Any) -> None:
        apply(one, db)
        if fails:
            raise ValueError

    number = 0
    for number in range(1, 3000):
        one = entry(f"k{number}")
        with interrupted(number) as where:
            try:
                sqlite_store.handle(one, half, at=AT)
            except (
                ValueError,
                ConfigurationError,
                AssertionError,
            ):  # the last by SQLAlchemy, half way through a commit
                assert fails or where
        again = sqlite_store.handle(one, apply, at=AT)
        assert again is Outcome.APPLIED or (not fails and again is Outcome.REPEATED), where
        if not where:
            break
    assert 30 < number < 2990
    assert len(effects(sqlite_store)) == len(set(effects(sqlite_store))) == number


def test_an_interrupt_in_a_handler_leaves_no_writes(store):
    def interrupts(one: Any, db: Any) -> None:
        apply(one, db)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.handle(entry("a"), interrupts, at=AT)
    assert (store.failed(SOURCE), effects(store)) == ([], [])
    assert store.handle(entry("a"), apply, at=AT) is Outcome.APPLIED
