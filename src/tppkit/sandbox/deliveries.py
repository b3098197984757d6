"""The outbox for callbacks and webhooks: deliveries are repeated until they are acknowledged or given up.

A delivery is added in the transaction of its cause. Each attempt is made outside of transactions, and its result is written in a
separate transaction; if the process dies in between, the attempt is repeated. A delivery of a stream has no due time until all with
lower versions are acknowledged or given up. Times are those of the virtual clock, timeouts those of the machine's clock.

    add_delivery(db, sender="callbacks", address=url, body=body, at=at, stream=payment_id, ver=1)
    deliveries.wake()                            # after the commit: the first attempt is made at once
    await deliveries.run_due()                   # everything due has been attempted once
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

from tppkit._clock import Clock, shift
from tppkit.errors import TransportError
from tppkit.sandbox.database import Database
from tppkit.sandbox.delivery_tables import (
    ACKNOWLEDGED,
    GIVEN_UP,
    HELD,
    WAITING,
    Attempt,
    Delivery,
    Result,
    due_deliveries,
    next_due,
    settle_delivery,
)
from tppkit.sandbox.faults import Faults

AT_ONCE = 32  # concurrent attempts
DUE_AT_ONCE = 2 * AT_ONCE  # due ones in memory
AT_ONCE_TO_ONE = 8  # concurrent attempts to one receiver, so that a slow receiver does not delay others
_TICK_S = 1.0
_RETRY_S = 1.0
_HELD_S = 86_400.0  # how long a reordered delivery waits for the next one of its stream
_LOGGER = logging.getLogger("tppkit.sandbox.deliveries")


class Schedule(NamedTuple):
    """The times of the attempts of a delivery.

    Attributes:
        gaps_s: seconds from each failure to the next attempt; the number of attempts is one more, unless there is `last_s`.
        timeout_s: how long an attempt may take, on the machine's clock; the sender decides what it covers.
        last_s: repeat the last gap until this time after the first attempt, also across restarts of the sandbox; None: no attempts
            after the gaps.
        retry_timeout_s: `timeout_s` of all attempts except the first, if it differs.
    """

    gaps_s: tuple[float, ...]
    timeout_s: float
    last_s: float | None = None
    retry_timeout_s: float | None = None

    def timeout_after(self, attempts: int) -> float:
        """Return the timeout of the next attempt after this number of attempts."""
        return self.timeout_s if not attempts or self.retry_timeout_s is None else self.retry_timeout_s

    def next_at(self, attempts: int, *, first_at: datetime, at: datetime) -> datetime | None:
        """Return the time of the next attempt after this number of attempts, the last of which failed at `at`; None: give up."""
        if attempts > len(self.gaps_s) and (self.last_s is None or not self.gaps_s):
            return None
        due = shift(at, timedelta(seconds=self.gaps_s[min(attempts, len(self.gaps_s)) - 1]))
        return None if self.is_over(first_at, due) else due

    def is_over(self, first_at: datetime, at: datetime) -> bool:
        """Whether a time is too late for another attempt."""
        return self.last_s is not None and at - first_at > timedelta(seconds=self.last_s)


class Sender(Protocol):
    """Sends the deliveries of an interface."""

    @property
    def schedule(self) -> Schedule:
        """The schedule of its deliveries."""

    @property
    def faults(self) -> Collection[str]:
        """The names of the faults that can apply to its deliveries."""

    async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
        """Sign and send a delivery once; called again for each attempt, and cancelled when the sandbox stops."""


class Deliveries:
    """The outbox of all interfaces.

    Args:
        database: stores the deliveries, with `TABLES`.
        now: the virtual clock.
        senders: the senders by their names.
        faults: the requested faults, which attempts use up.

    Example:
        deliveries = Deliveries(database, clock.now, {"callbacks": sender}, Faults())
    """

    def __init__(self, database: Database, now: Clock, senders: Mapping[str, Sender], faults: Faults) -> None:
        self._database = database
        self._now = now
        self._senders = senders
        self._faults = faults
        self._running: dict[int, tuple[Delivery, asyncio.Task[None]]] = {}
        self._page: list[Delivery] = []  # due, but not started, because a limit of concurrent attempts is reached
        self._may_be_due = True  # the database may have more due deliveries, for receivers that are not busy
        # Lock: a delivery read as due must not finish before it is registered as running.
        self._changed = asyncio.Condition()
        self._awake = asyncio.Event()
        self._failure: Exception | None = None
        self._is_stopped = False

    def wake(self) -> None:
        """Look for due deliveries at once, after a commit that may have added some."""
        self._may_be_due = True
        self._awake.set()

    async def run_due(self) -> None:
        """Attempt all deliveries that are due at the present virtual time once.

        Raises:
            TransportError: `database.unavailable`; also if a result cannot be written, which is retried.
        """
        until = self._now()
        async with self._changed:
            self._may_be_due = True
            await self._start(until)
            while await self._is_due(until):
                if self._running:  # otherwise one was added between two reads
                    await self._changed.wait()
                if self._failure is not None:
                    raise self._failure
                await self._start(until)

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Cancel the running attempts, which are repeated later if their deliveries are still there, and start none in the body."""
        async with self._changed:  # nothing is being started
            self._is_stopped = True
        try:
            await self._cancel()
            yield
        finally:
            self._is_stopped, self._page, self._failure = False, [], None
            self.wake()

    async def watch(self) -> None:
        """Attempt due deliveries until cancelled; cancelled attempts are repeated at the next start."""
        try:
            while True:
                try:
                    async with asyncio.timeout(_TICK_S):  # not wait_for: before Python 3.12 it can lose a cancellation
                        await self._awake.wait()
                except TimeoutError:
                    self._may_be_due = True
                self._awake.clear()
                try:
                    async with self._changed:
                        await self._start(self._now())
                except Exception as e:  # the next turn tries again
                    _LOGGER.warning("deliveries are delayed: %s", e, exc_info=not isinstance(e, TransportError))
        finally:
            await self._cancel()

    async def _cancel(self) -> None:
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, until: datetime) -> None:
        """Start as many due attempts as the limits allow."""
        if self._is_stopped:
            return
        self._may_be_due |= not self._running
        while True:
            busy_counts = Counter(one.receiver for one, _ in self._running.values())
            waiting = []
            for one in self._page:
                if len(self._running) < AT_ONCE and busy_counts[one.receiver] < AT_ONCE_TO_ONE:
                    busy_counts[one.receiver] += 1
                    self._running[one.id] = one, asyncio.create_task(self._attempt(one))
                else:
                    waiting.append(one)
            self._page = waiting
            if len(self._running) == AT_ONCE or not self._may_be_due:
                break
            self._may_be_due = False
            busy = [receiver for receiver, count in busy_counts.items() if count >= AT_ONCE_TO_ONE]
            due = await self._database.read(partial(due_deliveries, until=until, busy=busy, limit=DUE_AT_ONCE))
            known = self._running.keys() | {one.id for one in waiting}
            self._page += [one for one in due if one.id not in known]
            self._may_be_due |= len(self._page) > len(waiting)

    async def _is_due(self, until: datetime) -> bool:
        """Return whether a delivery that is due at the time has no result yet."""
        begun = [one for one, _ in self._running.values()]
        if any(one.due_at <= until for one in begun + self._page if one.due_at):
            return True
        due_at = await self._database.read_soon(next_due)
        return due_at is not None and due_at <= until

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            result = await self._attempt_or_fault(delivery)
            job = partial(settle_delivery, delivery=delivery, result=result, at=self._now())
            while True:
                try:
                    await self._database.write(job)
                    self._failure = None
                    return
                except Exception as e:  # noqa: BLE001  # retry the write, and do not send again
                    _LOGGER.warning("the result of a delivery cannot be written yet: %s", e)
                    self._failure = e
                    async with self._changed:
                        self._changed.notify_all()
                    await asyncio.sleep(_RETRY_S)
        finally:
            async with self._changed:
                del self._running[delivery.id]
                self._may_be_due |= all(one.receiver != delivery.receiver for one in self._page)
                self._changed.notify_all()
            self._awake.set()

    async def _attempt_or_fault(self, delivery: Delivery) -> Result:
        """Make an attempt, or apply a requested fault."""
        sender = self._senders.get(delivery.sender)
        if sender is None:  # the database is of another version
            return Result((Attempt(False, "its sender no longer exists"),), GIVEN_UP, None)
        if delivery.first_at is not None and sender.schedule.is_over(delivery.first_at, self._now()):
            return Result((Attempt(False, "given up: the time for attempts is over"),), GIVEN_UP, None)
        if self._faults.take("drop", sender=delivery.sender):
            return Result((Attempt(False, "dropped by a fault"),), GIVEN_UP, None)
        if delay := self._faults.take("delay", sender=delivery.sender):
            text = f"put off by {delay.delay_s:g} s by a fault"
            return Result((Attempt(False, text),), WAITING, shift(self._now(), timedelta(seconds=delay.delay_s)))
        # If the second delivery were held too, the order would not change.
        is_first = delivery.stream is not None and delivery.ver == 1
        if is_first and delivery.state == WAITING and self._faults.take("reorder", sender=delivery.sender):
            until = shift(self._now(), timedelta(seconds=_HELD_S))
            return Result((Attempt(False, "held by a fault until the next one of its stream is sent"),), HELD, until)
        attempt = await _send(sender, delivery)
        if attempt.ok:
            again = (await _send(sender, delivery),) if self._faults.take("duplicate", sender=delivery.sender) else ()
            return Result((attempt, *again), ACKNOWLEDGED, None, 1 + len(again))
        made, at = delivery.attempts + 1, self._now()
        due = sender.schedule.next_at(made, first_at=delivery.first_at or at, at=at)
        return Result((attempt,), GIVEN_UP if due is None else WAITING, due, 1)


async def _send(sender: Sender, delivery: Delivery) -> Attempt:
    try:
        return await sender.send(delivery, sender.schedule.timeout_after(delivery.attempts))
    except Exception as e:  # a failing sender must not stop other deliveries
        _LOGGER.exception("the sender %s fails", delivery.sender)
        return Attempt(False, f"the sender fails: {type(e).__name__}")
