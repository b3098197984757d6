"""Transactions: whether a connection is in one, and a writer for asyncio whose jobs share commits.

On SQLite, queued jobs run one after another on the event loop; COMMIT runs in a thread, and so does BEGIN if it has to wait. While a
commit waits for the disk, the next jobs queue up and are committed together. If one of them fails, all run again, each in a savepoint.
While the disk is fast, a single job is committed on the loop. On PostgreSQL each job has its own transaction in a thread, and the
server groups the commits.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError

# What a database raises here: BEGIN and COMMIT are sent through SQLite's driver, whose errors SQLAlchemy does not convert.
FAILURES = (SQLAlchemyError, sqlite3.Error)
BUSY_TIMEOUT_S = 2.0  # how long a job waits for another process's lock
MAX_BATCH = 64

# A thread adds 0.1 ms, so a single job is committed on the loop if the last commit was faster than this.
_SHORT_S = 0.001
_BEGIN = "BEGIN IMMEDIATE"  # of a transaction that may write
BEGUN = "tppkit_begun"  # option of a connection: BEGIN was sent, although sqlite3 would begin with the first write
_BY_DRIVER = "tppkit_by_driver"  # option of a connection: the driver begins and ends its transactions

T = TypeVar("T")


def transaction_fault(driver: Any, *, is_sqlite: bool, db: Connection | None = None) -> str | None:
    """Return why a rollback of the caller would not undo the next write; None if it would.

    Args:
        driver: a connection of `sqlite3`, `aiosqlite` or a driver of PostgreSQL.
        is_sqlite: whether it is one of SQLite.
        db: SQLAlchemy's connection that has it, if there is one.
    """
    autocommits = "the connection commits each statement by itself"
    if not is_sqlite:
        status = getattr(getattr(driver, "info", None), "transaction_status", 0)
        return None if status != 0 or not getattr(driver, "autocommit", False) else autocommits
    # autocommit exists from Python 3.12 on; -1: isolation_level decides.
    autocommit = getattr(driver, "autocommit", -1)
    begins_late = autocommit == -1 and driver.isolation_level is not None
    if begins_late and db is not None and db.in_nested_transaction() and not db.get_execution_options().get(BEGUN):
        # sqlite3 begins no transaction before a savepoint, and does not show whether an earlier statement has begun one.
        return "no savepoint on SQLite unless SQLAlchemy sends BEGIN, as its page about pysqlite describes"
    return None if driver.in_transaction or begins_late or autocommit is False else autocommits


def begin_at_once(engine: Engine) -> None:
    """Let SQLAlchemy begin the transactions of a new SQLite engine, also those that only read. Other engines always do."""
    if engine.dialect.name != "sqlite":
        return

    @event.listens_for(engine, "connect")
    def connect(driver: sqlite3.Connection, _: Any) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(db: Connection) -> None:
        if not db.get_execution_options().get(_BY_DRIVER):
            _driver_of(db).execute("BEGIN")


class LoopConnection:
    """A SQLite connection for an event loop: it does not wait for a lock.

    Its transactions go through the driver, because SQLAlchemy takes as long to begin and end one as a job's statement takes.

    Attributes:
        db: executes the statements.
        driver: begins and ends the transactions; its errors are `sqlite3.Error`.

    Raises:
        SQLAlchemyError: the database cannot be opened.
    """

    def __init__(self, engine: Engine) -> None:
        self.db = engine.connect().execution_options(**{_BY_DRIVER: True})
        self.driver = _driver_of(self.db)
        self._wait(0)
        self.db.begin()

    def begin_writing(self, *, wait_s: float) -> None:
        """Begin a transaction that may write, and wait so long for another process's lock; only in a thread.

        Raises:
            sqlite3.Error: the database fails, or is locked.
        """
        self._wait(wait_s)
        try:
            self.driver.execute(_BEGIN)
        finally:
            self._wait(0)

    def close(self) -> None:
        """Close the connection, which rolls back what is not committed."""
        with suppress(*FAILURES):
            self.db.detach()  # the pool's connections wait for locks
            self.db.close()

    def _wait(self, wait_s: float) -> None:
        self.driver.execute(f"PRAGMA busy_timeout={int(wait_s * 1000)}")


def _driver_of(db: Connection) -> Any:
    return db.connection.dbapi_connection


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    job: Callable[[Connection], Any]
    then: Callable[[Any], object] | None
    result: asyncio.Future[Any]


class Writer:
    """Runs jobs in transactions, for one event loop.

    Args:
        engine: of SQLite or PostgreSQL, see `begin_at_once`.
        threads: run what has to wait.
        failure: returns the error to raise for one of `FAILURES`.
    """

    def __init__(self, engine: Engine, threads: ThreadPoolExecutor, failure: Callable[[Exception], Exception]) -> None:
        self._engine, self._threads, self._failure = engine, threads, failure
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._queue: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._connection: LoopConnection | None = None
        self._commit_s = 0.0  # duration of the last commit
        self._tasks: set[asyncio.Task[Any]] = set()

    async def write(self, job: Callable[[Connection], T], *, then: Callable[[T], object] | None = None) -> T:
        """Run a job in a transaction, and return its result when that is durable.

        Args:
            job: should take about a millisecond, and may run twice. If it raises, its changes are rolled back and the error is raised.
            then: called with the result after the commit, also if the caller has been cancelled. Its errors are raised.

        Raises:
            Exception: the error of `failure`; the job's changes are rolled back.
        """
        if not self._is_sqlite:
            # The task continues if the caller is cancelled.
            task = asyncio.create_task(self._write_alone(job, then))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return await asyncio.shield(task)
        waiting = _Waiting(job, then, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._task is None:
            self._task = asyncio.create_task(self._write_queued())
        return cast("T", await waiting.result)

    async def settle(self) -> None:
        """Wait until no job is queued or runs, also of those whose callers were cancelled."""
        while tasks := [*self._tasks, *([] if self._task is None else [self._task])]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Finish queued jobs, and close the connection."""
        await self.settle()
        await self._in_thread(self._close)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _write_alone(self, job: Callable[[Connection], T], then: Callable[[T], object] | None) -> T:
        result = await self._in_thread(partial(run, self._engine, job, self._failure))
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
                        _resolve(one, error=self._failure(e))
                else:
                    for one, result in done:
                        _resolve(one, result=result)
        finally:
            self._task = None

    async def _write_batch(self, batch: list[_Waiting]) -> list[tuple[_Waiting, Any]]:
        """Run and commit the jobs, and return the results of those that succeeded.

        A savepoint costs as much as a small job. So the jobs first run without savepoints; if one fails, all run again with them.
        """
        connection = await self._begin()
        try:
            try:
                done = [(one, one.job(connection.db)) for one in batch]
            except Exception:  # noqa: BLE001  # raised again by the job that it belongs to
                connection.driver.rollback()
                await self._begin()
                done = self._run_in_savepoints(connection, batch)
            if len(batch) == 1 and self._commit_s < _SHORT_S:
                self._commit(connection)
            else:
                await self._in_thread(partial(self._commit, connection))
        except BaseException:
            await self._in_thread(self._close)
            raise
        return done

    def _run_in_savepoints(self, connection: LoopConnection, batch: list[_Waiting]) -> list[tuple[_Waiting, Any]]:
        done = []
        for one in batch:
            try:
                with connection.db.begin_nested():
                    done.append((one, one.job(connection.db)))
            except SQLAlchemyError as e:
                if not connection.driver.in_transaction:  # a full disk ends it, and COMMIT would then report no error
                    raise
                _resolve(one, error=self._failure(e))
            except Exception as e:  # noqa: BLE001  # an error of the job, raised in its caller
                _resolve(one, error=e)
        return done

    async def _begin(self) -> LoopConnection:
        """Begin a transaction at once, or in a thread if another process has the lock."""
        if self._connection is None:
            self._connection = await self._in_thread(partial(LoopConnection, self._engine))
        connection = self._connection
        try:
            connection.driver.execute(_BEGIN)
        except FAILURES:
            await self._in_thread(partial(connection.begin_writing, wait_s=BUSY_TIMEOUT_S))
        return connection

    def _commit(self, connection: LoopConnection) -> None:
        began = monotonic()
        connection.driver.commit()
        self._commit_s = monotonic() - began

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def run(engine: Engine, job: Callable[[Connection], T], failure: Callable[[Exception], Exception]) -> T:
    """Run a job in a transaction, and commit it.

    Raises:
        Exception: the job's error; or that of `failure` for one of `FAILURES`.
    """
    try:
        with engine.begin() as db:
            return job(db)
    except FAILURES as e:
        raise failure(e) from e


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
