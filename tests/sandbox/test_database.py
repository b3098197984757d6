"""Transactions of the sandbox: durable when they return, isolated, and bounded in time."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, insert, select

from refusals import refused
from tppkit.errors import ConfigurationError, LocalProtocolError, TransportError
from tppkit.sandbox.database import THREADS, Database

TABLES = MetaData()
NUMBERS = Table("numbers", TABLES, Column("number", Integer, primary_key=True))
ADD = insert(NUMBERS)
COUNT = select(func.count()).select_from(NUMBERS)


def add(number: int) -> Callable[[Connection], int]:
    def job(db: Connection) -> int:
        db.execute(ADD, {"number": number})
        return number

    return job


def count(db: Connection) -> int:
    return int(db.execute(COUNT).scalar_one())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d"


@pytest.fixture
def database(path: Path, at_end: AsyncExitStack) -> Database:
    opened = Database(f"sqlite:///{path}", TABLES)
    at_end.push_async_callback(opened.close)
    return opened


def numbers(path: Path) -> int:
    with sqlite3.connect(path) as plain:
        return int(plain.execute("select count(*) from numbers").fetchone()[0])


async def test_a_write_is_durable_when_it_returns_in_a_private_file(database, path):
    await database.write(add(1))
    assert (numbers(path), await database.read(count)) == (1, 1)
    assert path.stat().st_mode & 0o077 == 0


async def test_jobs_that_wait_are_committed_together(database, path):
    commits: list[int] = []
    await asyncio.gather(*[database.write(add(n), then=lambda _: commits.append(numbers(path))) for n in range(65)])
    assert len(set(commits)) <= 3


async def test_a_write_does_not_wait_for_long_reads(database):
    over = threading.Event()
    reads = [asyncio.create_task(database.read(lambda db: over.wait(10))) for _ in range(2 * THREADS)]
    try:
        async with asyncio.timeout(5):
            assert await asyncio.gather(*(database.write(add(number)) for number in range(2))) == [0, 1]
    finally:
        over.set()
        await asyncio.gather(*reads)


async def test_a_job_that_fails_is_undone_alone(database, path):
    def fails(db: Connection) -> None:
        add(2)(db)
        raise LocalProtocolError("product.invalid", "no")

    jobs = (add(1), fails, add(1), add(3))
    good, failed, twice, other = await asyncio.gather(*map(database.write, jobs), return_exceptions=True)
    assert (good, failed.code, twice.code, other) == (1, "product.invalid", "database.unavailable", 3)
    assert numbers(path) == 2


async def test_an_error_after_the_commit_is_raised_and_the_batch_continues(database, path):
    def fails(number: int) -> None:
        raise ValueError(number)

    async with asyncio.timeout(10):
        writing = database.write(add(1), then=fails), database.write(add(2))
        failed, other = await asyncio.gather(*writing, return_exceptions=True)
    assert (repr(failed), other, numbers(path)) == ("ValueError(1)", 2, 2)


@pytest.mark.parametrize("last", [2, 4], ids=["the last job", "a job before others"])
async def test_a_full_disk_in_the_middle_of_a_job_fails_everything_that_would_be_committed_with_it(
    last, database, path
):
    def fill(db: Connection) -> None:
        add(2)(db)
        db.exec_driver_sql("PRAGMA max_page_count=1")  # of this connection
        db.execute(ADD, [{"number": number} for number in range(1000, 9000)])

    jobs = [add(1), fill, add(3), add(4)][:last]
    done = await asyncio.gather(*map(database.write, jobs), return_exceptions=True)
    await database.write(lambda db: db.exec_driver_sql("PRAGMA max_page_count=100000"))
    await database.write(add(5))
    assert [getattr(one, "code", one) for one in done] == ["database.unavailable"] * last
    assert numbers(path) == 1


async def test_a_locked_database_is_refused_and_does_not_block_the_loop(database, path):
    await database.write(lambda db: None)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(database.write(add(1)))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0.01)
        turns += 1
    with refused(TransportError, "database.unavailable"):
        await writing
    other.execute("ROLLBACK")
    other.close()
    await database.write(add(2))
    assert numbers(path) == 1
    assert turns > 2  # at most one if it were blocked


async def test_a_cancelled_caller_stops_neither_the_commit_nor_its_callback(database, path):
    followed: list[int] = []
    writing = asyncio.create_task(database.write(add(1), then=followed.append))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await database.write(add(2))
    assert (followed, numbers(path)) == ([1], 2)


def test_a_table_of_another_shape_is_refused_at_start(path):
    with sqlite3.connect(path) as plain:
        plain.execute("create table numbers (other text)")
    with refused(ConfigurationError, "database.unusable"):
        Database(f"sqlite:///{path}", TABLES)
