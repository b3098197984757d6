"""Events: changes that fall due at a time, such as the execution of a payment. They run in the order of their time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from tppkit._clock import Clock
from tppkit.errors import TransportError
from tppkit.sandbox.database import Database

_TICK_S = 1.0
_BATCH = 20  # times in one transaction, so that it stays short
_LOGGER = logging.getLogger("tppkit.sandbox.events")

T = TypeVar("T")


def run_contained(db: Connection, name: str, run: Callable[[], object]) -> bool:
    """Run one event of several. If it fails, roll it back, log the error and return False, so that the others can run.

    Args:
        db: the transaction.
        name: name of the event, for the log.
        run: runs the event.

    Raises:
        SQLAlchemyError: the database fails, not this event.
    """
    try:
        with db.begin_nested():
            run()
    except Exception as e:  # an error of this event must not stop the others
        if isinstance(e, SQLAlchemyError) and not isinstance(e, DataError | IntegrityError):
            raise
        _LOGGER.exception("%s cannot be carried out", name)
        return False
    return True


class EventSource(Protocol):
    """A source of events, for example a cell."""

    @property
    def next_event(self) -> Callable[[Connection], datetime | None]:
        """Returns when its next event is due, or None."""

    @property
    def run_due(self) -> Callable[[Connection, datetime], None]:
        """Runs everything that is due at a time, as of the time it was due."""


class Events:
    """Runs events when they are due. The time of the next event is kept in memory, so that checks before it are cheap.

    Args:
        database: stores the events.
        now: the virtual clock.
        sources: the sources of the events.
        then: called after each commit, which may have added deliveries.

    Example:
        await events.catch_up()                   # before anything is read or decided
        await events.write(lambda db: approve_payment(db, payment, ...))
    """

    def __init__(
        self, database: Database, now: Clock, sources: Sequence[EventSource], *, then: Callable[[], object] = lambda: None
    ) -> None:  # fmt: skip
        self._database = database
        self._now = now
        self._sources = sources
        self._then = then
        self._running = asyncio.Lock()
        self._next = database.run_at_start(self.next_time)

    def schedule(self, at: datetime | None) -> None:
        """Record the time of a committed event. A time that is too early is harmless."""
        self._then()
        if at is not None and (self._next is None or at < self._next):
            self._next = at

    async def catch_up(self) -> None:
        """Run everything that is due, and return when it is committed.

        Raises:
            TransportError: `database.unavailable`.
        """
        if not self._is_due() and not self._running.locked():
            return
        async with self._running:
            while self._is_due():
                due = self._next
                try:
                    await self._database.write(self._run_batch, then=self.schedule)
                except BaseException:
                    self.schedule(due)
                    raise

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Run what is due, then a job that may add events.

        Raises:
            TransportError: `database.unavailable`; and what the job raises.
        """
        await self.catch_up()
        result, _ = await self._database.write(
            lambda db: (job(db), self.next_time(db)), then=lambda done: self.schedule(done[1])
        )
        return result

    async def watch(self) -> None:
        """Run events that fall due between requests, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                await self.catch_up()
            except Exception as e:  # each request reports it too, and the next turn tries again
                _LOGGER.warning("events are delayed: %s", e, exc_info=not isinstance(e, TransportError))

    def _is_due(self) -> bool:
        return self._next is not None and self._next <= self._now()

    def _run_batch(self, db: Connection) -> datetime | None:
        self._next = None  # this job may not see events that are scheduled later
        for _ in range(_BATCH):
            at, source = self._earliest(db)
            if at is None or source is None or at > self._now():
                return at
            source.run_due(db, at)
        return self.next_time(db)

    def next_time(self, db: Connection) -> datetime | None:
        """Return when the next event is due, or None."""
        return self._earliest(db)[0]

    def _earliest(self, db: Connection) -> tuple[datetime | None, EventSource | None]:
        times = [(at, source) for source in self._sources if (at := source.next_event(db)) is not None]
        return min(times, key=lambda one: one[0]) if times else (None, None)
