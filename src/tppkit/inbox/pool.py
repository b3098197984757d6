"""A pool of connections for threads that wait in the order of their requests."""

from __future__ import annotations

from collections import deque
from threading import Lock, RLock
from typing import Any

from sqlalchemy import QueuePool
from sqlalchemy.pool import ConnectionPoolEntry

from tppkit.errors import InboxError


class FairPool(QueuePool):
    """A pool that gives each returned connection to the thread that has waited longest.

    In a QueuePool, the thread that returns a connection can take it again before a waiting thread wakes up, so some wait in vain.

    Args:
        creator: see `QueuePool`, also for other arguments.
        pool_size: how many connections stay open.
        max_overflow: how many more there may be.
    """

    def __init__(self, creator: Any, pool_size: int = 5, max_overflow: int = 10, **kwargs: Any) -> None:
        super().__init__(creator, pool_size, max_overflow, **kwargs)
        self._free, self._waiting = pool_size + max_overflow, deque[Any]()  # held locks, one for each waiting thread
        self._mutex = (
            RLock()
        )  # a thread that holds it may collect a connection that was never closed, and then returns it

    def _do_get(self) -> ConnectionPoolEntry:
        turn = Lock()
        turn.acquire()
        with self._mutex:
            if self._free:
                self._free -= 1
                turn.release()
            else:
                self._waiting.append(turn)
        try:
            if not turn.acquire(timeout=self.timeout()):
                message = (
                    f"other threads have kept the connections for {self.timeout():g} seconds; does a handler hang?"
                )
                raise InboxError("inbox.unavailable", message)
            return super()._do_get()
        except BaseException:
            self._leave(turn)
            raise

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        self._leave()

    def _leave(self, turn: Any = None) -> None:
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
