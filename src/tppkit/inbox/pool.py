"""A pool of connections for threads that wait in the order of their requests."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, RLock
from typing import Any

from sqlalchemy import QueuePool
from sqlalchemy.pool import ConnectionPoolEntry

from tppkit.inbox.entry import InboxError


class FairPool(QueuePool):
    """A pool with a limit, which gives each returned connection to the thread that has waited longest.

    In a QueuePool, the thread that returns a connection can take it again before a waiting thread wakes up, so some wait in vain.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = self._pool.maxsize + self._max_overflow
        # A lock for each thread, in order. The first ones have a connection; the others wait until theirs is released.
        self._turns: list[Any] = []
        self._held: dict[ConnectionPoolEntry, Any] = {}
        # Reentrant, because a connection that nobody closed may be collected, and so returned, while its thread holds this.
        self._mutex = RLock()

    def _do_get(self) -> ConnectionPoolEntry:
        turn = Lock()
        turn.acquire()
        try:
            with self._mutex:
                self._turns.append(turn)
                must_wait = len(self._turns) > self._places
            if must_wait and not turn.acquire(timeout=self.timeout()):
                message = f"no connection became free within {self.timeout():g} seconds: too many threads wait, or a handler hangs"
                raise InboxError("inbox.unavailable", message)
            record = super()._do_get()
            self._held[record] = turn
        except BaseException:
            self._end(turn)
            raise
        return record

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        turn = self._held.pop(record, None)
        try:
            super()._do_return_conn(record)
        finally:
            self._end(turn)

    def _end(self, turn: Any) -> None:
        """Remove a turn, unless it has ended before, and let those that are now among the first have a connection."""
        with self._mutex:
            if turn in self._turns:
                self._turns.remove(turn)
            for first in self._turns[: self._places]:
                with suppress(RuntimeError):  # it was released before
                    first.release()
