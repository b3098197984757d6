"""Transactions of the sandbox: durable when they return, isolated, and bounded in time."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, insert, select

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


def run(path: Path, main: Callable[[Database], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        database = Database(f"sqlite:///{path}", TABLES)
        try:
            return await main(database)
        finally:
            await database.close()

    return asyncio.run(whole())


def numbers(path: Path) -> int:
    with sqlite3.connect(path) as plain:
        return int(plain.execute("select count(*) from numbers").fetchone()[0])


def test_a_write_is_durable_when_it_returns(tmp_path: Path) -> None:
    async def main(database: Database) -> tuple[int, int]:
        await database.write(add(1))
        return numbers(tmp_path / "d"), await database.read(count)

    assert run(tmp_path / "d", main) == (1, 1)


def test_jobs_that_wait_are_committed_together(tmp_path: Path) -> None:
    async def main(database: Database) -> int:
        commits: list[int] = []
        await asyncio.gather(
            *[database.write(add(n), then=lambda _: commits.append(numbers(tmp_path / "d"))) for n in range(65)]
        )
        return len(set(commits))

    assert run(tmp_path / "d", main) <= 3


def test_a_write_does_not_wait_for_long_reads(tmp_path: Path) -> None:
    async def main(database: Database) -> list[int]:
        over = threading.Event()
        reads = [asyncio.create_task(database.read(lambda db: over.wait(10))) for _ in range(2 * THREADS)]
        try:
            async with asyncio.timeout(5):
                return await asyncio.gather(*(database.write(add(number)) for number in range(2)))
        finally:
            over.set()
            await asyncio.gather(*reads)

    assert run(tmp_path / "d", main) == [0, 1]


def test_a_job_that_fails_is_undone_alone(tmp_path: Path) -> None:
    def fails(db: Connection) -> None:
        add(2)(db)
        raise LocalProtocolError("product.invalid", "no")

    async def main(database: Database) -> list[Any]:
        return await asyncio.gather(
            database.write(add(1)),
            database.write(fails),
            database.write(add(1)),
            database.write(add(3)),
            return_exceptions=True,
        )

    good, failed, twice, other = run(tmp_path / "d", main)
    assert (good, failed.code, twice.code, other) == (1, "product.invalid", "database.unavailable", 3)
    assert numbers(tmp_path / "d") == 2


def test_an_error_after_the_commit_is_raised_and_the_batch_continues(tmp_path: Path) -> None:
    def fails(number: int) -> None:
        raise ValueError(number)

    async def main(database: Database) -> list[Any]:
        async with asyncio.timeout(10):
            writing = database.write(add(1), then=fails), database.write(add(2))
            return await asyncio.gather(*writing, return_exceptions=True)

    failed, other = run(tmp_path / "d", main)
    assert (repr(failed), other, numbers(tmp_path / "d")) == ("ValueError(1)", 2, 2)


@pytest.mark.parametrize("last", [2, 4], ids=["the last job", "a job before others"])
def test_a_full_disk_in_the_middle_of_a_job_fails_everything_that_would_be_committed_with_it(
    last: int, tmp_path: Path
) -> None:
    def fill(db: Connection) -> None:
        add(2)(db)
        db.exec_driver_sql("PRAGMA max_page_count=1")  # of this connection
        db.execute(ADD, [{"number": number} for number in range(1000, 9000)])

    async def main(database: Database) -> list[Any]:
        jobs = [add(1), fill, add(3), add(4)][:last]
        done = await asyncio.gather(*map(database.write, jobs), return_exceptions=True)
        await database.write(lambda db: db.exec_driver_sql("PRAGMA max_page_count=100000"))
        await database.write(add(5))
        return done

    done = run(tmp_path / "d", main)
    assert [getattr(one, "code", one) for one in done] == ["database.unavailable"] * last
    assert numbers(tmp_path / "d") == 1


def test_a_locked_database_is_refused_and_does_not_block_the_loop(tmp_path: Path) -> None:
    async def main(database: Database) -> tuple[str, int, int]:
        await database.write(lambda db: None)
        other = sqlite3.connect(tmp_path / "d", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(database.write(add(1)))
        turns = 0
        while not writing.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(TransportError) as refused:
            await writing
        other.execute("ROLLBACK")
        other.close()
        await database.write(add(2))
        return refused.value.code, turns, numbers(tmp_path / "d")

    code, turns, kept = run(tmp_path / "d", main)
    assert (code, kept) == ("database.unavailable", 1)
    assert turns > 5


def test_a_cancelled_caller_stops_neither_the_commit_nor_its_callback(tmp_path: Path) -> None:
    async def main(database: Database) -> list[int]:
        followed: list[int] = []
        writing = asyncio.create_task(database.write(add(1), then=followed.append))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await database.write(add(2))
        return followed

    assert run(tmp_path / "d", main) == [1]
    assert numbers(tmp_path / "d") == 2


def test_a_table_of_another_shape_is_refused_at_start(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d") as plain:
        plain.execute("create table numbers (other text)")
    with pytest.raises(ConfigurationError) as refused:
        Database(f"sqlite:///{tmp_path / 'd'}", TABLES)
    assert refused.value.code == "database.unusable"


def test_the_file_is_private(tmp_path: Path) -> None:
    run(tmp_path / "d", lambda database: database.write(add(1)))
    assert (tmp_path / "d").stat().st_mode & 0o077 == 0
