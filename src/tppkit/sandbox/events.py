"""What happens at a time by itself and is written, such as the execution of a payment: done when it is due, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from tppkit._clock import Clock
from tppkit.errors import TransportError
from tppkit.sandbox.database import Database

_TICK_S = 1.0
_BATCH = 20  # times in one transaction, so that it stays short
_LOGGER = logging.getLogger("tppkit.sandbox.events")

T = TypeVar("T")


class Source(Protocol):
    """Something with events of its own, for example a cell."""

    @property
    def next_event(self) -> Callable[[Connection], datetime | None]:
        """Finds when its next event is due."""

    @property
    def settle(self) -> Callable[[Connection, datetime], None]:
        """Lets everything happen that is due at a time, at the time it was due."""


class Events:
    """Knows when the next event is due, so that asking costs nothing until then.

    Args:
        database: keeps the events.
        now: the virtual clock.
        sources: have the events.
        then: called after each commit, in which something to deliver may have been added.

    Example:
        await events.settle()                     # before anything is read or decided
        await events.write(lambda db: approve_payment(db, payment, ...))
    """

    def __init__(
        self, database: Database, now: Clock, sources: Sequence[Source], *, then: Callable[[], object] = lambda: None
    ) -> None:
        self._database = database
        self._now = now
        self._sources = sources
        self._then = then
        self._running = asyncio.Lock()
        self._next = database.run_at_start(self._next_time)

    def schedule(self, at: datetime | None) -> None:
        """There is an event at a time, committed already; too early a time does no harm."""
        self._then()
        if at is not None and (self._next is None or at < self._next):
            self._next = at

    async def settle(self) -> None:
        """Return when everything that is due has happened.

        Raises:
            TransportError: `database.unavailable`.
        """
        if not self._is_due() and not self._running.locked():
            return
        async with self._running:
            while self._is_due():
                due = self._next
                try:
                    await self._database.write(self._happen, then=self.schedule)
                except BaseException:
                    self.schedule(due)
                    raise

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Let what is due happen, then run a job that may make events.

        Raises:
            TransportError: `database.unavailable`; and what the job raises.
        """
        await self.settle()
        result, _ = await self._database.write(
            lambda db: (job(db), self._next_time(db)), then=lambda done: self.schedule(done[1])
        )
        return result

    async def watch(self) -> None:
        """Let events happen while nobody asks, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self.settle()
            except Exception as e:  # which each request reports by itself; the next turn tries again
                _LOGGER.warning("events wait: %s", e, exc_info=not isinstance(e, TransportError))

    def _is_due(self) -> bool:
        return self._next is not None and self._next <= self._now()

    def _happen(self, db: Connection) -> datetime | None:
        self._next = None  # what is scheduled from here on may not be seen by this job
        for _ in range(_BATCH):
            at, source = self._earliest(db)
            if at is None or source is None or at > self._now():
                return at
            source.settle(db, at)
        return self._next_time(db)

    def _next_time(self, db: Connection) -> datetime | None:
        return self._earliest(db)[0]

    def _earliest(self, db: Connection) -> tuple[datetime | None, Source | None]:
        times = [(at, source) for source in self._sources if (at := source.next_event(db)) is not None]
        return min(times, key=lambda one: one[0]) if times else (None, None)
