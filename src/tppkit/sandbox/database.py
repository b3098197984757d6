"""The sandbox's database: one transaction for each request, and commits that requests share.

On SQLite, queued jobs run one after another on the event loop; COMMIT runs in a thread, and so does BEGIN if it has to wait. While a
commit waits for the disk, the next jobs queue up and are committed together. If one of them fails, all run again, each in a savepoint.
While the disk is fast, a single job is committed on the loop. On other databases each job has its own transaction in a thread, and the
database server groups the commits.

    payment = await database.write(lambda db: add_payment(db, model))      # returns when it is durable
    payment = await database.read(lambda db: find_payment(db, payment_id))
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, MetaData, Select, event, select
from sqlalchemy.exc import SQLAlchemyError

from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, TransportError
from tppkit.sql.engine import make_engine, use_wal

BUSY_TIMEOUT_S = 2.0  # how long a request waits for another process's lock
WAIT_S = 5.0  # how long a statement, or connecting, waits for PostgreSQL
MAX_BATCH = 64
THREADS = 4
READERS = 2  # threads of `read`, which may take long: commits do not wait for them
MAX_STREAMS = 8  # with the threads' and the writer's, fewer than the engine's pool of 15 connections

# A thread adds 0.1 ms, so a single job is committed on the loop if the last commit was faster than this.
_SHORT_S = 0.001
_BY_DRIVER = "tppkit_by_driver"  # option of a connection: the driver begins and ends its transactions
_END = object()
_FAILURES = (
    SQLAlchemyError,
    sqlite3.Error,
)  # BEGIN and COMMIT are sent through the driver, which raises its own errors

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    job: Callable[[Connection], Any]
    then: Callable[[Any], object] | None
    result: asyncio.Future[Any]


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
            self._is_sqlite = self._engine.dialect.name == "sqlite"
            if self._is_sqlite:
                _begin_by_sqlalchemy(self._engine)
                use_wal(self._engine, wait_s=WAIT_S)
            self._snapshots = self._engine  # for jobs that only read
            if not self._is_sqlite:  # otherwise each statement would have its own snapshot
                self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._reading = _open_for_loop(self._engine) if self._is_sqlite else None  # the connection of `read_soon`
            with self._engine.begin() as connection:  # one commit: each waits for the disk
                for metadata in tables:
                    metadata.create_all(connection)
                for table in [table for metadata in tables for table in metadata.sorted_tables]:
                    _require_columns(connection, table.name, select(table).limit(1))
        except (*_FAILURES, OSError) as e:
            raise ConfigurationError(
                "database.unusable", f"the sandbox's database cannot be opened: {type(e).__name__}"
            ) from e
        self._threads = ThreadPoolExecutor(THREADS, "tppkit-database")
        self._readers = ThreadPoolExecutor(READERS, "tppkit-reading")
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._writing: Connection | None = None  # the writer's connection
        self._commit_s = 0.0  # duration of the last commit
        self._tasks: set[asyncio.Task[Any]] = set()
        self._streams = 0

    async def write(self, job: Callable[[Connection], T], *, then: Callable[[T], object] | None = None) -> T:
        """Run a job in a transaction, and return its result when that is durable.

        Args:
            job: should take about a millisecond, and may run twice. If it raises, its changes are rolled back and the error is raised.
            then: called with the result after the commit, also if the caller has been cancelled. Its errors are raised.

        Raises:
            TransportError: `database.unavailable`; the job's changes are rolled back.
        """
        if not self._is_sqlite:
            # The task continues if the caller is cancelled.
            task = asyncio.create_task(self._write_alone(job, then))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return await asyncio.shield(task)
        waiting = _Waiting(job, then, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_queued())
        return cast("T", await waiting.result)

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads and may take long, in a thread, on one snapshot.

        Raises:
            TransportError: `database.unavailable`.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._transaction, job, self._snapshots)

    async def read_soon(self, job: Callable[[Connection], T]) -> T:
        """Run a short job (about a millisecond) that only reads, on one snapshot.

        On SQLite it runs on the event loop, because a thread costs more than the job.

        Raises:
            TransportError: `database.unavailable`.
        """
        if self._reading is None:
            return await self._in_thread(self._transaction, job, self._snapshots)
        try:
            raw = _driver(self._reading)
            raw.execute("BEGIN")
            try:
                return job(self._reading)
            finally:
                raw.rollback()  # has no effect if no transaction is open
        except _FAILURES:  # a lock: a thread can wait for it
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
        except _FAILURES as e:
            raise _unavailable(e) from e

    def run_at_start(self, job: Callable[[Connection], T]) -> T:
        """Run a job in a transaction, and block until it is committed; only for the time before the event loop serves.

        Raises:
            TransportError: `database.unavailable`.
        """
        return self._transaction(job, self._engine)

    async def close(self) -> None:
        """Finish queued jobs, and close every connection."""
        while self._writer is not None:
            await asyncio.wait([self._writer])
        await self._in_thread(self._close_writing)
        if self._reading is not None:
            self._reading.close()
        self._readers.shutdown()
        self._threads.shutdown()
        self._engine.dispose()

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args, **kwargs))

    def _transaction(self, job: Callable[[Connection], T], engine: Engine) -> T:
        try:
            with engine.begin() as connection:
                return job(connection)
        except _FAILURES as e:
            raise _unavailable(e) from e

    async def _write_alone(self, job: Callable[[Connection], T], then: Callable[[T], object] | None) -> T:
        result = await self._in_thread(self._transaction, job, self._engine)
        if then is not None:
            then(result)
        return result

    async def _write_queued(self) -> None:
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
                try:
                    done = await self._write_batch(batch)
                except Exception as e:  # noqa: BLE001  # no caller may wait forever
                    for one in batch:
                        _resolve(one, error=_unavailable(e))
                else:
                    for one, result in done:
                        _resolve(one, result=result)
        finally:
            self._writer = None

    async def _write_batch(self, batch: list[_Waiting]) -> list[tuple[_Waiting, Any]]:
        """Run and commit the jobs, and return the results of those that succeeded.

        A savepoint costs as much as a small job. So the jobs first run without savepoints; if one fails, all run again with them.
        """
        connection = await self._begin()
        try:
            try:
                done = [(one, one.job(connection)) for one in batch]
            except Exception:  # noqa: BLE001  # raised again by the job that it belongs to
                _driver(connection).rollback()
                connection = await self._begin()
                done = _run_in_savepoints(connection, batch)
            if len(batch) == 1 and self._commit_s < _SHORT_S:
                self._commit(connection)
            else:
                await self._in_thread(self._commit, connection)
        except BaseException:
            await self._in_thread(self._close_writing)
            raise
        return done

    async def _begin(self) -> Connection:
        """Begin a transaction at once, or in a thread if another process has the lock."""
        if self._writing is None:
            self._writing = await self._in_thread(_open_for_loop, self._engine)
        writing = self._writing
        begin = partial(_driver(writing).execute, "BEGIN IMMEDIATE")
        try:
            begin()
        except _FAILURES:
            _set_busy_timeout(writing, BUSY_TIMEOUT_S)
            try:
                await self._in_thread(begin)
            finally:
                _set_busy_timeout(writing, 0.0)
        return writing

    def _commit(self, connection: Connection) -> None:
        began = monotonic()
        _driver(connection).commit()
        self._commit_s = monotonic() - began

    def _close_writing(self) -> None:
        """Close the connection, which rolls back what is not committed."""
        connection, self._writing = self._writing, None
        with suppress(*_FAILURES):
            if connection is not None:
                _set_busy_timeout(connection, BUSY_TIMEOUT_S)  # readers get this connection from the pool
                connection.close()


def _run_in_savepoints(connection: Connection, batch: list[_Waiting]) -> list[tuple[_Waiting, Any]]:
    done = []
    for one in batch:
        try:
            with connection.begin_nested():
                done.append((one, one.job(connection)))
        except SQLAlchemyError as e:
            if not _is_open(connection):
                raise
            _resolve(one, error=_unavailable(e))
        except Exception as e:  # noqa: BLE001  # an error of the job, raised in its caller
            _resolve(one, error=e)
    return done


def _is_open(connection: Connection) -> bool:
    """Whether SQLite's transaction is open. A full disk ends it, and the driver then reports no error at the commit."""
    return bool(_driver(connection).in_transaction)


def _resolve(one: _Waiting, *, result: Any = None, error: Exception | None = None) -> None:
    if error is None and one.then is not None:
        try:
            one.then(result)
        except Exception as e:  # noqa: BLE001  # raised in the caller; the rest of the batch is resolved
            error = e
    if one.result.done():  # the caller was cancelled
        return
    if error is not None:
        one.result.set_exception(error)
    else:
        one.result.set_result(result)


def _require_columns(connection: Connection, name: str, read: Select[Any]) -> None:
    """Check that a table is the one of this version; with another, every request would fail."""
    try:
        connection.execute(read)
    except SQLAlchemyError as e:
        raise ConfigurationError(
            "database.unusable",
            f"the database has another table {name}, or one of another version: give a new one",
        ) from e


def _open_for_loop(engine: Engine) -> Connection:
    """Open a SQLite connection for the event loop.

    Its transactions go through the driver, because SQLAlchemy takes as long to begin and end one as a job's statement takes.
    """
    connection = engine.connect().execution_options(**{_BY_DRIVER: True})
    _set_busy_timeout(connection, 0.0)  # the loop must not wait
    connection.begin()
    return connection


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _set_busy_timeout(connection: Connection, timeout_s: float) -> None:
    _driver(connection).execute(f"PRAGMA busy_timeout={int(timeout_s * 1000)}")


def _unavailable(error: Exception) -> TransportError:
    return TransportError("database.unavailable", f"the sandbox's database does not answer: {type(error).__name__}")


def _begin_by_sqlalchemy(engine: Engine) -> None:
    """Begin each transaction at its start; SQLite's driver would begin it before the first write."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(_BY_DRIVER):
            _driver(connection).execute("BEGIN")
