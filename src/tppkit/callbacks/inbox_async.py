"""The inbox over a store that is awaited."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from typing import Any

from tppkit._clock import as_utc, shift
from tppkit.callbacks.admission import (
    MAX_BATCH,
    Admission,
    Admitted,
    Clock,
    Leases,
    Receipt,
    Worked,
    admit_all,
    bounded,
    handled_at_once,
    receipts_of,
    require_store,
    retry_after,
    transactional,
)
from tppkit.callbacks.inbox_settings import DEFAULTS, InboxSettings
from tppkit.callbacks.message import ReceivedCallback
from tppkit.callbacks.stores.entry import Entry, Failure, Outcome, Taken
from tppkit.callbacks.stores.store import AsyncEffect, AsyncRenewing, AsyncStore
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import CallbackRejected, InboxError

AsyncHandler = Callable[[VerifiedCallback, Any], Awaitable[object]]
AsyncTransaction = Callable[[], AbstractAsyncContextManager[Any]]


class AsyncInbox:
    """The same over a store that is awaited; `verify_callback` itself runs in the event loop, for about 0.1 ms.

    Args:
        receiver: the receiver's addresses and keys.
        store: where callbacks are remembered.
        settings: what it goes by.
        clock: monotonic seconds, by which a lease that a long call claims later begins later than the call's `at`.

    Raises:
        ConfigurationError: `inbox.setting`, the store is one for `Inbox`, or none.
    """

    def __init__(
        self,
        receiver: CallbackReceiver,
        store: AsyncStore,
        *,
        settings: InboxSettings = DEFAULTS,
        clock: Clock = time.monotonic,
    ) -> None:
        require_store(store, awaited=True)
        self.receiver, self._store, self._settings = receiver, store, settings
        self._at_once, self._clock = handled_at_once(store), clock
        self._admission = Admission(receiver, environment=settings.environment, window=settings.window)

    async def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """See `Inbox.accept`."""
        admitted = self._admission.admit(received, at=at)
        if (receipt := await self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        return Receipt(self._admission.require_same((await self._store.add([entry]))[0], entry), callback)

    async def handle(self, received: ReceivedCallback, handler: AsyncHandler, *, at: datetime) -> Receipt:
        """See `Inbox.handle`."""
        admitted = self._admission.admit(received, at=at)
        if (receipt := await self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        at = callback.received_at
        outcome = await self._store.run(
            entry, lambda _, connection: handler(callback, connection),
            at=at, until=shift(at, self._settings.lease), retry=retry_after(self._settings, at),
        )  # fmt: skip
        return Receipt(self._admission.require_same(outcome, entry), callback)

    async def handle_all(
        self, received: Sequence[ReceivedCallback], handler: AsyncHandler, *, at: datetime
    ) -> list[Receipt | CallbackRejected]:
        """See `Inbox.handle_all`."""
        admitted = [await self._set_aside_one(one) for one in admit_all(self._admission, received, at=at)]
        entries = [one.entry for one in admitted if isinstance(one, Admitted)]
        callbacks = {id(one.entry): one.callback for one in admitted if isinstance(one, Admitted)}
        outcomes = await self._run_all(
            entries, lambda entry, connection: handler(callbacks[id(entry)], connection), as_utc(at)
        )
        return receipts_of(self._admission, admitted, outcomes)

    async def _set_aside(self, admitted: Admitted) -> Receipt | None:
        """Return the receipt for what no handler may get; an unreadable callback is kept as failed."""
        callback, entry, fault = admitted
        if callback.method == "GET":
            return Receipt(Outcome.LOGIN, callback)
        if fault is None:
            return None

        async def fail(entry: Entry, connection: Any) -> None:
            raise fault

        at, outcome = callback.received_at, Outcome.UNREADABLE
        # Added first: if the store fails in between, `run` may not have recorded the failure.
        self._admission.require_same((await self._store.add([entry]))[0], entry)
        with suppress(CallbackRejected):
            until = shift(at, self._settings.lease)
            outcome = await self._store.run(entry, fail, at=at, until=until, retry=lambda attempt: None)
        return Receipt(Outcome.REPEATED if outcome is Outcome.REPEATED else Outcome.UNREADABLE, callback, fault)

    async def _set_aside_one(self, one: Admitted | CallbackRejected) -> Admitted | Receipt | CallbackRejected:
        try:
            return one if isinstance(one, CallbackRejected) else await self._set_aside(one) or one
        except CallbackRejected as e:
            return e

    async def _run_all(self, entries: Sequence[Entry], effect: AsyncEffect, at: datetime) -> list[Outcome]:
        leases, outcomes = Leases(self._settings.lease, at, self._clock), list[Outcome]()
        retry = retry_after(self._settings, at)
        try:
            for first in range(0, len(entries), self._at_once):
                some = entries[first : first + self._at_once]
                outcomes += await self._store.run_all(some, effect, at=at, until=leases.end(), retry=retry)
        except InboxError:
            if not outcomes:  # else what is done is told, and the rest is BUSY
                raise
        return outcomes

    async def once(self, received: ReceivedCallback, *, at: datetime, within: Any) -> Receipt:
        """See `Inbox.once`."""
        store = transactional(self._store)
        callback, entry, fault = self._admission.admit(received, at=at)
        if callback.method == "GET":
            return Receipt(Outcome.LOGIN, callback)
        if fault is not None:
            raise fault
        outcome = await store.once(entry, at=callback.received_at, within=within)
        return Receipt(self._admission.require_same(outcome, entry), callback)

    async def handle_within(
        self, received: ReceivedCallback, handler: AsyncHandler, *, at: datetime, within: AsyncTransaction
    ) -> Receipt:
        """See `Inbox.handle_within`."""
        admitted = self._admission.admit(received, at=at)
        if (receipt := await self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        store = transactional(self._store)
        async with within() as connection:
            outcome = await store.run_within(
                entry, lambda _, connection: handler(callback, connection), at=callback.received_at, within=connection
            )
            return Receipt(self._admission.require_same(outcome, entry), callback)

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """See `Inbox.work`."""
        at = as_utc(at)
        leases, worked, left = Leases(self._settings.lease, at, self._clock), list[Worked](), bounded(limit)
        try:
            while left and (taken := await self._store.take(at=at, until=leases.end(), limit=left)):
                for first in range(0, len(taken), self._at_once):
                    if first and leases.is_used() and isinstance(self._store, AsyncRenewing):
                        await self._store.renew(taken[first:], until=leases.end())
                    worked += await self._resume(taken[first : first + self._at_once], handler, at)
                left = limit - len(worked)
        except InboxError:
            if not worked:
                raise
        return worked

    async def _resume(self, taken: Sequence[Taken], handler: AsyncHandler, at: datetime) -> list[Worked]:
        taken = [self._admission.with_order(one) for one in taken]
        outcomes = await self._store.resume(
            taken, lambda entry, connection: handler(self._admission.restore(entry), connection),
            at=at, retry=retry_after(self._settings, at),
        )  # fmt: skip
        return [Worked(one.entry, outcome) for one, outcome in zip(taken, outcomes, strict=False)]

    async def failed(self, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """See `Inbox.failed`."""
        return await self._store.failed(limit=bounded(limit), after=after)

    async def release(self, failure: Failure, *, at: datetime) -> bool:
        """See `Inbox.release`."""
        return await self._store.release(failure.entry.key, at=as_utc(at))

    async def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Inbox.discard`."""
        return await self._store.discard(failure, at=as_utc(at))

    async def purge(self, *, at: datetime) -> int:
        """See `Inbox.purge`."""
        lifetimes, before, forgotten = self._settings.retention.at(at), self._settings.retention.failed_before(at), 0
        while before and await self._store.discard_failed(before=before, at=as_utc(at), limit=MAX_BATCH):
            pass
        while batch := await self._store.purge(lifetimes, limit=MAX_BATCH):
            forgotten += batch
        return forgotten
