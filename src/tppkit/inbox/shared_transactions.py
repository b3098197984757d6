"""SQLite transactions that the tasks of an event loop share, because SQLite has one writer and each commit waits for the disk.

Tasks take turns, and each turn is a savepoint of the transaction. BEGIN, which waits for other processes, and COMMIT run in a thread.
The turns that are requested in the meantime are committed together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import await_only

from tppkit.inbox.database import Database, EffectFailed, Savepoint
from tppkit.inbox.entry import InboxError

T = TypeVar("T")

# The turns in which a task was started, one for each inbox; its child tasks inherit them.
_TURNS = ContextVar[tuple[Savepoint, ...]]("tppkit_inbox_turns", default=())
_EVENTS = ("before_cursor_execute", "rollback", "commit")


class _Group:
    """The turns of one transaction.

    Attributes:
        opened: gives the connection, when the transaction has begun.
        db: the same connection; None before.
        committed: done when the transaction is committed.
        turn: the present turn.
        turns: the number of turns that have begun.
        is_lost: a handler, or a full disk, ended the transaction, or a turn could not be rolled back. Nothing more is committed.
    """

    opened: asyncio.Task[Connection]
    committed: asyncio.Task[None]
    db: Connection | None = None
    turn: Savepoint | None = None
    turns = 0
    is_lost = False

    def require_turn(self, *_: object) -> None:
        """Reject statements of a task that a handler left running: they would take effect with another entry.

        A thread that did not inherit the task's context is not recognised.
        """
        if (turns := _TURNS.get()) and self.turn not in turns:
            raise InboxError("inbox.unavailable", "a task uses the connection of a handler that has ended")


class SharedDatabase(Database):
    """A SQLite database for the tasks of one event loop, called in SQLAlchemy's `greenlet_spawn`. Each transaction is a turn.

    Args:
        engine: of SQLite.
        wait_s: how long a task waits for its turn, and then for the commit, in seconds.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _thread: ThreadPoolExecutor  # of its own, because the threads of the application may all be busy
    _turn: asyncio.Lock
    _group: _Group | None = None
    _owner: asyncio.Task[object] | None = None

    def __init__(self, engine: Engine, *, wait_s: float) -> None:
        super().__init__(engine)
        self._wait_s = wait_s

    @contextmanager
    def transaction(self, **_: Any) -> Iterator[Connection]:
        """Take a turn. It is rolled back if the body raises; otherwise it is committed, with other turns, when this returns.

        Args:
            _: not used: each turn is guarded, and one that only reads is committed with the others.

        Raises:
            InboxError: `inbox.unavailable`, also if another turn ended the transaction, if this task already has the turn, or if it
                waits too long for one, or for the commit, which may still happen.
            EffectFailed: see `Savepoint`; or the commit violates a deferred constraint, and the transaction has no other turn.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._turn, self._group, self._owner = loop, asyncio.Lock(), None, None
            self._thread = ThreadPoolExecutor(1, "tppkit-inbox")
        task = asyncio.current_task()
        if self._owner is task:
            raise InboxError("inbox.unavailable", "a handler uses the inbox that called it, and would wait for itself")
        group, db = await_only(self._bounded(self._take_turn()))
        self._owner = task
        turn = group.turn = Savepoint(db)
        before = _TURNS.set((*_TURNS.get(), turn))
        try:
            group.turns += 1
            with self.typed_errors(), turn:
                yield db
        finally:
            group.is_lost = group.is_lost or turn.is_lost
            group.turn = self._owner = None
            self._turn.release()
            _TURNS.reset(before)
        await_only(self._bounded(asyncio.shield(group.committed)))  # a cancelled task must not cancel it for others

    @contextmanager
    def of_caller(self, within: Any) -> Iterator[Any]:
        """See `Database.of_caller`; the connection of a turn is accepted only during the turn, see `_Group.require_turn`."""
        if self._group is not None and within is self._group.db:
            self._group.require_turn()
        with super().of_caller(within) as db:
            yield db

    async def _bounded(self, step: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._wait_s):
                return await step
        except TimeoutError as e:
            message = (
                f"other tasks or processes have kept the database for {self._wait_s:g} seconds; does a handler hang?"
            )
            raise InboxError("inbox.unavailable", message) from e

    async def _take_turn(self) -> tuple[_Group, Connection]:
        while True:
            await self._turn.acquire()
            try:
                group = self._group or self._begin()
                db = await asyncio.shield(group.opened)
            except BaseException:
                self._turn.release()
                raise
            if not group.is_lost:
                return group, db
            self._turn.release()
            await asyncio.wait([group.committed])  # then another transaction can begin

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _begin(self) -> _Group:
        self._group, whole = _Group(), super().transaction()
        group = self._group
        group.opened = asyncio.create_task(self._open(group, whole))
        group.committed = asyncio.create_task(self._end(group, whole))
        # asyncio logs errors that no task retrieves, and all waiting tasks may be cancelled.
        group.committed.add_done_callback(lambda done: done.cancelled() or done.exception())
        return group

    async def _open(self, group: _Group, whole: AbstractContextManager[Connection]) -> Connection:
        db = await self._in_thread(whole.__enter__)
        for name in _EVENTS:
            event.listen(db, name, group.require_turn)
        group.db = db
        return db

    async def _end(self, group: _Group, whole: AbstractContextManager[Connection]) -> None:
        _TURNS.set(())
        try:
            await group.opened
        except BaseException:
            self._group = None
            raise
        try:
            await self._turn.acquire()  # after all turns requested so far
        except BaseException as e:  # the event loop ends, and no other task would end the transaction
            group.is_lost, self._group = True, None
            whole.__exit__(type(e), e, None)
            raise
        self._group = None
        error: Exception | None = _lost() if group.is_lost else None
        try:
            await self._in_thread(partial(whole.__exit__, type(error) if error else None, error, None))
        except EffectFailed as e:
            error = e if group.turns == 1 else _lost()
        finally:
            self._turn.release()
        if error is not None:
            raise error


def _lost() -> InboxError:
    return InboxError("inbox.unavailable", "the transaction, which other entries shared, could not be committed")
