"""The sandbox's database: jobs that write, that read, and that stream, for one event loop.

payment = await database.write(lambda db: PAYMENTS.add(db, payment))  # returns when it is durable
payment = await database.read(lambda db: PAYMENTS.find(db, payment_id))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, cast

from sqlalchemy import Connection, MetaData, delete

from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, TransportError
from tppkit.sql.engine import create_tables, make_engine, use_wal
from tppkit.sql.transaction import FAILURES, LoopConnection, Writer, begin_at_once, run

WAIT_S = 5.0  # how long a statement, or connecting, waits for PostgreSQL
THREADS = 4
READERS = 2  # threads of `read`, which may take long: commits do not wait for them
MAX_STREAMS = 8  # with the threads' and the writer's, fewer than the engine's pool of 15 connections

_END = object()

T = TypeVar("T")


class Database:
    """Runs jobs in transactions. One database belongs to one event loop.

    Args:
        url: a SQLAlchemy URL, for example `sqlite:///sandbox.sqlite`.
        tables: the tables; created if absent.

    Raises:
        ConfigurationError: `database.unusable`, or the code of a missing extra.

    Example:
        database = Database("sqlite:///sandbox.sqlite", TABLES)
        await database.write(job)
    """

    @without_locals
    def __init__(self, url: str, *tables: MetaData) -> None:
        try:
            self._engine = make_engine(url, code="database.unusable", wait_s=WAIT_S)
            begin_at_once(self._engine)
            use_wal(self._engine, wait_s=WAIT_S)
            if (name := create_tables(self._engine, *tables)) is not None:
                raise ConfigurationError(
                    "database.unusable",
                    f"the database has another table {name}, or one of another version: give a new one",
                )
            is_sqlite = self._engine.dialect.name == "sqlite"
            self._reading = LoopConnection(self._engine) if is_sqlite else None  # the connection of `read_soon`
        except (*FAILURES, OSError) as e:
            raise ConfigurationError(
                "database.unusable", f"the sandbox's database cannot be opened: {type(e).__name__}"
            ) from e
        self._snapshots = self._engine  # for jobs that only read
        if not is_sqlite:  # otherwise each statement would have its own snapshot
            self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._threads = ThreadPoolExecutor(THREADS, "tppkit-database")
        self._readers = ThreadPoolExecutor(READERS, "tppkit-reading")
        self._writer = Writer(self._engine, self._threads, _unavailable)
        self._streams = 0
        self._clear = [delete(table) for metadata in tables for table in reversed(metadata.sorted_tables)]

    async def write(self, job: Callable[[Connection], T], *, then: Callable[[T], object] | None = None) -> T:
        """Run a job in a transaction, and return its result when that is durable.

        Args:
            job: should take about a millisecond, and may run twice. If it raises, its changes are rolled back and the error is raised.
            then: called with the result after the commit, also if the caller has been cancelled. Its errors are raised.

        Raises:
            TransportError: `database.unavailable`; the job's changes are rolled back.
        """
        return await self._writer.write(job, then=then)

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads and may take long, in a thread, on one snapshot.

        Raises:
            TransportError: `database.unavailable`.
        """
        return await self._run_in(self._readers, job)

    async def read_soon(self, job: Callable[[Connection], T]) -> T:
        """Run a short job (about a millisecond) that only reads, on one snapshot.

        On SQLite it runs on the event loop, because a thread costs more than the job.

        Raises:
            TransportError: `database.unavailable`.
        """
        if self._reading is None:
            return await self._run_in(self._threads, job)
        try:
            self._reading.driver.execute("BEGIN")
            try:
                return job(self._reading.db)
            finally:
                self._reading.driver.rollback()
        except FAILURES:  # a lock: a thread can wait for it
            return await self.read(job)

    async def stream(self, job: Callable[[Connection], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Yield the items that a job reads from one snapshot, in a thread. Close the generator with `contextlib.aclosing`.

        Args:
            job: reads items through the connection, for example rows of a statement one after another.

        Raises:
            TransportError: `database.unavailable`, also if `MAX_STREAMS` are open, because each has a connection and a snapshot.
        """
        if self._streams >= MAX_STREAMS:
            raise TransportError("database.unavailable", f"{MAX_STREAMS} reports are being sent, which is the limit")
        self._streams += 1
        # A single thread, so that a step whose caller was cancelled ends before the connection is closed.
        thread, steps = ThreadPoolExecutor(1, "tppkit-stream"), self._steps(job)
        step = partial(asyncio.get_running_loop().run_in_executor, thread)
        try:
            while (item := await step(next, steps, _END)) is not _END:
                yield cast("T", item)
        finally:
            closed = step(steps.close)
            thread.shutdown(wait=False)
            try:
                await closed
            finally:
                self._streams -= 1

    def _steps(self, job: Callable[[Connection], Iterator[T]]) -> Generator[T, None, None]:
        try:
            with self._snapshots.connect() as connection:
                yield from job(connection.execution_options(stream_results=True))
        except FAILURES as e:
            raise _unavailable(e) from e

    def run_at_start(self, job: Callable[[Connection], T]) -> T:
        """Run a job in a transaction, and block until it is committed; only for the time before the event loop serves.

        Raises:
            TransportError: `database.unavailable`.
        """
        return run(self._engine, job, _unavailable)

    def clear(self, db: Connection) -> None:
        """Delete all rows of the sandbox, in a transaction."""
        for statement in self._clear:
            db.execute(statement)

    async def settle(self) -> None:
        """Wait until no job of `write` is queued or runs, also of those whose callers were cancelled."""
        await self._writer.settle()

    async def close(self) -> None:
        """Finish queued jobs, and close every connection."""
        await self._writer.close()
        if self._reading is not None:
            self._reading.close()
        self._readers.shutdown()
        self._threads.shutdown()
        self._engine.dispose()

    async def _run_in(self, threads: ThreadPoolExecutor, job: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, run, self._snapshots, job, _unavailable)


def _unavailable(error: Exception) -> TransportError:
    return TransportError("database.unavailable", f"the sandbox's database does not answer: {type(error).__name__}")
