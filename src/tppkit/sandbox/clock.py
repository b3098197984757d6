"""The sandbox's virtual time: the machine's clock plus an offset that is stored in the database, and the events that fall due.

Events are changes at a time, such as the execution of a payment. They run in the order of their time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, insert, select, update
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from tppkit._clock import Clock, format_time, from_microseconds, to_microseconds, utc_now
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.sandbox.control import Control
from tppkit.sandbox.database import Database

MAX_ADVANCE = timedelta(days=3660)
_STEP = timedelta(seconds=1)  # events that are due within a second run in one step, as with a running clock
_TICK_S = 1.0
_BATCH = 20  # times in one transaction, so that it stays short
_LOGGER = logging.getLogger("tppkit.sandbox.events")

T = TypeVar("T")

TABLES = MetaData()
_CLOCK = Table(
    "clock", TABLES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("offset", BigInteger, nullable=False), Column("latest", BigInteger, nullable=False),
)  # fmt: skip
_READ = select(_CLOCK.c.offset, _CLOCK.c.latest).with_for_update()  # locked, so that concurrent steps add up
_BEGIN = insert(_CLOCK)
_WRITE = update(_CLOCK)


class SandboxClock:
    """A clock that can be advanced and never moves back.

    It applies to states, limits and windows. Certificates, seals, revocation lists and TLS are verified at real time. If the machine's
    clock is set back, the virtual clock continues from its latest time; after a restart, from the latest stored time.

    Args:
        database: stores the offset.
        latest: the latest virtual time in the database.
        base: the machine's clock.
    """

    def __init__(self, database: Database, *, latest: datetime, base: Clock = utc_now) -> None:
        self._database = database
        self._base = base
        self._lock = threading.Lock()
        row = database.run_at_start(_row)
        self._offset = timedelta(microseconds=row.offset)
        self._latest = max(latest, from_microseconds(row.latest))
        self._is_frozen = False

    def now(self) -> datetime:
        """Return the virtual time, aware UTC."""
        with self._lock:
            return self._present()

    def freeze(self, is_frozen: bool = True) -> None:
        """Stop the clock, which can still be advanced; or let it run again, from the time that it would have had without the stop."""
        with self._lock:
            self._present()
            self._is_frozen = is_frozen

    def start_over(self) -> None:
        """Show real time again, after the row in the database was deleted."""
        with self._lock:
            self._offset, self._latest, self._is_frozen = timedelta(), from_microseconds(0), False

    async def advance(self, by: timedelta) -> datetime:
        """Move time forward and return the new virtual time.

        Raises:
            ConfigurationError: `clock.backwards`, also for more than ten years in all.
            TransportError: `database.unavailable`.
        """
        if by < timedelta():
            raise _out_of_range(by)
        await self._database.write(lambda db: self._store(db, by), then=self._moved)
        return self.now()

    def _store(self, db: Connection, by: timedelta) -> timedelta:
        """Store the new offset. The clock itself moves after the commit, so that it does not move if the commit fails."""
        stored = timedelta(microseconds=_row(db).offset)
        present = self.now()
        offset = max(stored, self._offset) + by
        if offset > MAX_ADVANCE:
            raise _out_of_range(by)
        db.execute(_WRITE, {"offset": offset // timedelta(microseconds=1), "latest": to_microseconds(present + by)})
        return offset

    def _moved(self, offset: timedelta) -> None:
        with self._lock:
            moved_to = max(offset, self._offset)
            if self._is_frozen:
                self._latest += moved_to - self._offset
            self._offset = moved_to

    async def advance_through(self, by: timedelta, catch_up: Callable[[], Awaitable[datetime | None]]) -> None:
        """Move time forward from one due time to the next, so that everything happens at its own time.

        Args:
            by: how far in total.
            catch_up: runs all due events, and returns the next due time, or None.

        Raises:
            ConfigurationError: `clock.backwards`, before time has moved.
            TransportError: `database.unavailable`; then time stays where it is.
        """
        if self._offset + by > MAX_ADVANCE:
            raise _out_of_range(by)
        due = await catch_up()
        while by:
            step = by if due is None else min(by, max(_STEP, due - self.now()))
            await self.advance(step)
            by -= step
            due = await catch_up()

    def control(self, catch_up: Callable[[], Awaitable[datetime | None]]) -> tuple[Control, ...]:
        """The calls about the clock.

        `GET /clock`, `POST /clock/advance` with `{"seconds": 300}`, and `POST /clock/next`; see `advance_through`. `POST /clock/freeze`
        stops the clock, and lets it run again with `{"frozen": false}`.
        """
        moving = asyncio.Lock()

        async def show(parameters: Mapping[str, str], body: Any) -> Any:
            return {"now": format_time(self.now()), "frozen": self._is_frozen}

        async def advance(parameters: Mapping[str, str], body: Any) -> Any:
            by = _seconds(body)
            async with moving:
                await self.advance_through(by, catch_up)
            return await show(parameters, body)

        async def advance_to_next(parameters: Mapping[str, str], body: Any) -> Any:
            async with moving:
                due = await catch_up()
                if due is not None:
                    await self.advance_through(max(timedelta(), due - self.now()), catch_up)
            return await show(parameters, body)

        async def freeze(parameters: Mapping[str, str], body: Any) -> Any:
            is_frozen = True if body is None else body.get("frozen", True) if isinstance(body, dict) else None
            if not isinstance(is_frozen, bool):
                raise FormatError("model.invalid", 'the body is not {"frozen": true} or {"frozen": false}')
            self.freeze(is_frozen)
            return await show(parameters, body)

        return (
            Control("GET", "/clock", show),
            Control("POST", "/clock/freeze", freeze),
            Control("POST", "/clock/advance", advance),
            Control("POST", "/clock/next", advance_to_next),
        )

    def _present(self) -> datetime:
        if self._is_frozen:
            return self._latest
        present = self._base() + self._offset
        if present < self._latest:
            self._offset += self._latest - present
            present = self._latest
        self._latest = present
        return present


def _row(db: Connection) -> Any:
    row = db.execute(_READ).one_or_none()
    if row is None:
        db.execute(_BEGIN, {"id": 1, "offset": 0, "latest": 0})
        row = db.execute(_READ).one()
    return row


def _seconds(body: Any) -> timedelta:
    seconds = body.get("seconds") if isinstance(body, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 10**9:
        raise FormatError("model.invalid", 'the body is not {"seconds": number}')
    return timedelta(seconds=seconds)


def _out_of_range(by: timedelta) -> ConfigurationError:
    return ConfigurationError(
        "clock.backwards", f"the clock cannot be advanced by {by}: the time must be positive and below ten years"
    )


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
        then: called after each commit that may have added deliveries.
        gate: entered by `watch` for each turn.

    Example:
        await events.catch_up()                   # before anything is read or decided
        await events.write(lambda db: approve_payment(db, payment, ...))
    """

    def __init__(
        self, database: Database, now: Clock, sources: Sequence[EventSource], *, then: Callable[[], object] = lambda: None,
        gate: AbstractAsyncContextManager[object] | None = None,
    ) -> None:  # fmt: skip
        self._database = database
        self._now = now
        self._sources = sources
        self._then = then
        self._gate = nullcontext() if gate is None else gate
        self._running = asyncio.Lock()
        self._next = database.run_at_start(self.next_time)

    def schedule(self, at: datetime | None, *, delivers: bool = True) -> None:
        """Record the time of a committed event. A time that is too early is harmless.

        Args:
            at: when it is due; None if the commit has no event.
            delivers: whether the commit may have added deliveries.
        """
        if delivers:
            self._then()
        if at is not None and (self._next is None or at < self._next):
            self._next = at

    def start_over(self) -> None:
        """Forget what was due, after all events were deleted."""
        self._next = None

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
                async with self._gate:
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
