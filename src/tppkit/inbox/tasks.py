"""The bridge from asyncio to a store: its methods run in threads, and coroutine functions that they call run on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from tppkit._handlers import awaited
from tppkit.errors import ConfigurationError
from tppkit.inbox.entries import Entry, InboxError, Outcome

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult, Executable, ScalarResult

    from tppkit.inbox.store import InboxStore

T = TypeVar("T")

_THREADS = 15  # as many as SQLAlchemy's pools have connections by default
_LOOK_S = 1.0  # how often a thread that waits for a task looks whether the event loop still runs
_HERE = threading.local()  # `call`: the call of this thread


class Tasks:
    """Runs methods that use a store in threads, so that they do not block the event loop.

    A thread is kept while it waits for a coroutine function, the database only while it has a transaction. Use it in one event loop at a
    time.

    Args:
        store: an `InboxStore`.

    Attributes:
        store: the store.

    Raises:
        ConfigurationError: `extra.missing`; `inbox.setting`, it is not a store.

    Example:
        tasks = Tasks(InboxStore("sqlite:///tpp.sqlite"))
        failures = await tasks.run(tasks.store.failed, "callback:live")
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _threads: ThreadPoolExecutor  # of its own, because the threads of the application may all be busy

    def __init__(self, store: InboxStore) -> None:
        from tppkit.inbox.store import InboxStore

        given: object = store
        if not isinstance(given, InboxStore):
            advice = 'give for example InboxStore("postgresql+psycopg://host/name")'
            raise ConfigurationError(
                "inbox.setting", f"an object of class {type(store).__name__} is not a store: {advice}"
            )
        self.store = store

    async def run(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a synchronous method that uses the store in a thread.

        If the task is cancelled, so are coroutine functions that the method awaits, and it is awaited to its end.

        Raises:
            InboxError: `inbox.unavailable`, other calls keep the threads for longer than the store's `wait_s`.
            Exception: what the method raises.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # also in a forked process, which has no threads of its parent
            self._loop = loop
            self._threads = ThreadPoolExecutor(_THREADS, "tppkit-inbox")
        call = _Call(loop)
        begun: Future[T] = self._threads.submit(copy_context().run, call.run, partial(method, *args, **kwargs))
        ended, wait_s = asyncio.wrap_future(begun), self.store.wait_s
        try:
            await asyncio.wait([ended], timeout=wait_s)
            if begun.cancel():
                message = f"other tasks have kept the database for {wait_s:g} seconds; does a handler hang?"
                raise InboxError("inbox.unavailable", message)
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            if not begun.cancel():
                call.cancel()
            while not ended.done():  # the transaction must have ended before its task does
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([ended])
            if not ended.cancelled():
                ended.exception()  # asyncio logs errors that no task retrieves
            raise
        return ended.result()

    def awaiting(self, name: str, function: Callable[..., Awaitable[T]]) -> Callable[..., T]:
        """Return a plain function that awaits a coroutine function on the event loop, to be called inside `run`.

        Args:
            name: name of the function, for the message of `callback.function`.
            function: the coroutine function.
        """
        return lambda *args: _await(name, function, *args, jobs=_Jobs())

    def effect(self, handler: Callable[[Any, Any], Awaitable[object]]) -> Callable[[Any, Any], object]:
        """Return a plain handler that awaits a coroutine function.

        Its connection is SQLAlchemy's `Connection` for SQLite, and a `TaskConnection` for PostgreSQL.
        """
        is_sqlite = self.store.database.is_sqlite

        def handle(event: Any, connection: Connection) -> object:
            jobs = _Jobs()
            if is_sqlite:
                return _await("a handler", handler, event, connection, jobs=jobs)
            given = TaskConnection(connection, jobs)
            result = _await("a handler", handler, event, given, jobs=jobs)
            given.require_awaited()
            return result

        return handle

    async def within(self, within: Any, method: Callable[[Any], T]) -> T:
        """Call a method with the synchronous form of a connection or session, for asyncio or not, and await its statements."""
        run_sync = getattr(within, "run_sync", None)
        result: T = method(within) if run_sync is None else await run_sync(method)
        return result

    async def apply_within(
        self, entry: Entry, handler: Callable[[Entry, Any], Awaitable[object]], *, at: datetime, within: Any
    ) -> Outcome:
        """Handle an entry in the transaction of the caller; see `InboxStore.handle_within`.

        Args:
            entry: the entry.
            handler: called with the entry and `within`, for APPLIED only.
            at: now, aware.
            within: a connection or session of SQLAlchemy, also one for asyncio, or a connection of `sqlite3` or `psycopg`.
        """
        outcome = await self.within(within, lambda db: self.store.handle_within(entry, None, at=at, within=db))
        if outcome is Outcome.APPLIED:
            savepoint = await self.within(within, self.store.database.begin_effect)
            error: BaseException | None = None
            try:
                await awaited("a handler", handler, entry, within)
            except BaseException as e:
                error = e
                raise
            finally:
                await self.within(within, lambda _: self.store.database.end_effect(savepoint, error))
        return outcome


class TaskConnection:
    """SQLAlchemy's `Connection` in a transaction of the inbox, for a handler that is a coroutine function.

    Its methods are awaited, and run in the thread of the transaction. Arguments and results are those of `Connection`.

    Raises:
        InboxError: `inbox.unavailable`, by each method: the handler has ended.

    Example:
        async def handler(callback, connection):
            await connection.execute(INSERT, {"id": callback.event.id})
    """

    def __init__(self, connection: Connection, jobs: _Jobs) -> None:
        self._connection, self._jobs = connection, jobs
        self._begun: list[Coroutine[Any, Any, Any]] = []

    def run_sync(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Call a function with SQLAlchemy's `Connection` and other arguments."""
        begun = self._jobs.execute(partial(function, self._connection, *args))
        self._begun.append(begun)
        return begun

    def execute(self, statement: Executable, parameters: Any = None) -> Awaitable[CursorResult[Any]]:
        """Execute a statement."""
        return self.run_sync(lambda db: db.execute(statement, parameters))

    def exec_driver_sql(self, statement: str, parameters: Any = None) -> Awaitable[CursorResult[Any]]:
        """Execute a statement in the form of the driver."""
        return self.run_sync(lambda db: db.exec_driver_sql(statement, parameters))

    def scalar(self, statement: Executable, parameters: Any = None) -> Awaitable[Any]:
        """Execute a statement, and return the first column of the first row, or None."""
        return self.run_sync(lambda db: db.scalar(statement, parameters))

    def scalars(self, statement: Executable, parameters: Any = None) -> Awaitable[ScalarResult[Any]]:
        """Execute a statement, and return the first column of its rows."""
        return self.run_sync(lambda db: db.scalars(statement, parameters))

    def require_awaited(self) -> None:
        """Reject a handler that has not awaited a statement, which was therefore not executed.

        Raises:
            ConfigurationError: `callback.function`.
        """
        for begun in self._begun:
            if getcoroutinestate(begun) == CORO_CREATED:
                begun.close()
                raise ConfigurationError(
                    "callback.function",
                    "the handler has not awaited a statement, as in `await connection.execute(...)`",
                )

    @asynccontextmanager
    async def begin_nested(self) -> AsyncIterator[None]:
        """Run the body in a savepoint."""
        savepoint = await self.run_sync(lambda db: db.begin_nested())
        try:
            yield
        except BaseException:
            await self.run_sync(lambda _: savepoint.rollback())
            raise
        await self.run_sync(lambda _: savepoint.commit())


class _Jobs:
    """What a task has executed by the thread that waits for it."""

    def __init__(self) -> None:
        self._queue, self._is_open = SimpleQueue[Callable[[], None] | None](), True

    async def execute(self, job: Callable[[], T]) -> T:
        if not self._is_open:  # the connection may have the transaction of another entry
            raise InboxError("inbox.unavailable", "a task uses the connection of a handler that has ended")
        done = Future[T]()

        def run() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(job())
                except BaseException as e:  # noqa: BLE001  # raised in the task
                    done.set_exception(e)

        self._queue.put(run)
        return await asyncio.wrap_future(done)

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run jobs until `end` is called.

        Raises:
            InboxError: `inbox.unavailable`, the event loop has stopped, so the task will not end.
        """
        while True:
            try:
                job = self._queue.get(timeout=_LOOK_S)
            except Empty:
                if not loop.is_running():  # Python waits for this thread at its exit
                    self._is_open = False
                    raise InboxError("inbox.unavailable", "the event loop stopped while a task was awaited") from None
                continue
            if job is None:
                return
            job()

    def end(self, _: object) -> None:
        self._is_open = False
        self._queue.put(None)


class _Call:
    """A call in a thread, which can wait for tasks of the event loop.

    Args:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._is_cancelled = loop, False
        self._task: asyncio.Task[Any] | None = None

    def run(self, method: Callable[[], T]) -> T:
        _HERE.call = self
        return method()

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]], jobs: _Jobs) -> T:
        """Run a coroutine function as a task, and its jobs in this thread."""
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            self._task = task = self._loop.create_task(function())
            tasks.append(task)
            task.add_done_callback(jobs.end)
            if self._is_cancelled:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError as e:
            raise InboxError("inbox.unavailable", "the event loop was closed before a task was awaited") from e
        jobs.serve(self._loop)
        return tasks[0].result()

    def cancel(self) -> None:
        """Cancel the task, or the next one."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()


def _await(name: str, function: Callable[..., Awaitable[T]], *args: Any, jobs: _Jobs) -> T:
    call: _Call = _HERE.call
    return call.wait(partial(awaited, name, function, *args), jobs)
