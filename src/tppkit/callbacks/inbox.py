"""Receive each callback once: verify, remember, have its effect, acknowledge.

Steps, in this order, for every request:

1. sizes, headers, rules, signature and event: `verify_callback`;
2. the time window, both sides, where one is set;
3. the store: has this requestid come to this address before, and with the same signed bytes?
4. the version of the transaction: a stale one is acknowledged and has no effect;
5. the effect.

Nothing is remembered of what fails before step 3: else anybody could use up requestids. There are three ways from 3 on. `accept`
stores the callback, the request is answered, and `work` has the effect later. `handle` has the effect at once, `handle_all` those of
several with one commit. `once` marks the callback in a transaction of the caller's, who has the effect there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tppkit._clock import as_utc, shift
from tppkit.callbacks.admission import Admission, Retention, Retries, TimeWindow
from tppkit.callbacks.message import ReceivedCallback
from tppkit.callbacks.stores.entry import Entry, Failure, Outcome
from tppkit.callbacks.stores.store import AsyncStore, Retry, Store
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import CallbackRejected, ConfigurationError

# The second argument is the store's connection or session, None where it has no transaction to share.
Handler = Callable[[VerifiedCallback, Any], object]
AsyncHandler = Callable[[VerifiedCallback, Any], Awaitable[object]]

Admitted = tuple[VerifiedCallback, Entry]

DEFAULT_LEASE = timedelta(minutes=1)
MAX_BATCH = 1000


class Receipt(NamedTuple):
    """What became of a received callback.

    Attributes:
        outcome: STORED, APPLIED, REPEATED, STALE, BUSY; from `handle_all` also FAILED.
        callback: what was proven about it.
    """

    outcome: Outcome
    callback: VerifiedCallback

    @property
    def acknowledged(self) -> bool:
        """Whether to answer 200; else answer 503, so that the service repeats it: nobody has had its effect yet."""
        return self.outcome not in (Outcome.BUSY, Outcome.FAILED)


class Worked(NamedTuple):
    """What a worker did with a stored callback.

    Attributes:
        entry: the callback as it was stored.
        outcome: APPLIED, STALE, FAILED, or BUSY where another worker has it since its lease ended.
    """

    entry: Entry
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """What an inbox goes by.

    Attributes:
        environment: `live`, `test`, …: what the receiver's requestids and transaction ids belong to.
        window: how far the time that a callback belongs to may be from the present; None: no time is looked at.
        lease: how long a worker may take for what it has claimed, before another may claim it.
        retention: how long the inbox remembers.
        retries: when failed callbacks are tried again.

    Raises:
        ConfigurationError: `inbox.setting`.
    """

    environment: str = "live"
    window: TimeWindow | None = None
    lease: timedelta = DEFAULT_LEASE
    retention: Retention = Retention()  # noqa: RUF009  # frozen
    retries: Retries = Retries()  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        if not self.environment or not self.environment.isprintable() or len(self.environment) > 64:
            raise ConfigurationError("inbox.setting", "an environment is 1 to 64 printable characters")
        if self.lease <= timedelta(0):
            raise ConfigurationError("inbox.setting", f"a lease of {self.lease} is not above zero")


class Inbox:
    """Receives callbacks into a store.

    Every method raises InboxError (`inbox.unavailable`) when the store fails: then answer 503 and acknowledge nothing.

    Args:
        receiver: the receiver's addresses and keys.
        store: where callbacks are remembered; how firmly, its `promise` says.
        settings: what it goes by.
    """

    def __init__(
        self, receiver: CallbackReceiver, store: Store, *, settings: InboxSettings = InboxSettings()
    ) -> None:  # frozen
        self.receiver = receiver
        self._store, self._settings = store, settings
        self._admission = Admission(receiver, environment=settings.environment, window=settings.window)

    def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """Verify a callback and store it for `work`: STORED or REPEATED.

        Args:
            received: the request, exactly as it came.
            at: the time it was received, aware.

        Raises:
            CallbackRejected: see `verify_callback`; `callback.time-past`, `callback.time-future`,
                `callback.request-id-reused`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`.
        """
        callback, entry = self._admission.admit(received, at=at)
        return Receipt(self._admission.require_same(self._store.add([entry])[0], entry), callback)

    def handle(self, received: ReceivedCallback, handler: Handler, *, at: datetime) -> Receipt:
        """Verify a callback and have its effect now: APPLIED, REPEATED, STALE or BUSY.

        The handler is called for APPLIED only. What it writes by its second argument is committed together with the mark that
        the callback is done, where the store's promise is exactly-once. What it raises is kept as the callback's failure (its
        kind and code) and raised on.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and the store's connection.
            at: the time it was received, aware.

        Raises:
            CallbackRejected: as by `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`, `inbox.handler-committed`.
        """
        callback, entry = self._admission.admit(received, at=at)
        at = callback.received_at
        outcome = self._store.run(
            entry, lambda _, connection: handler(callback, connection),
            at=at, until=shift(at, self._settings.lease), retry=_retry(self._settings, at),
        )  # fmt: skip
        return Receipt(self._admission.require_same(outcome, entry), callback)

    def handle_all(
        self, received: Sequence[ReceivedCallback], handler: Handler, *, at: datetime
    ) -> list[Receipt | CallbackRejected]:
        """Verify several callbacks that were received together and have their effects, with one commit.

        Where the store's promise is exactly-once each effect has a savepoint of its own: a handler that raises undoes its own
        writes and no others, and its callback is FAILED.

        Args:
            received: the requests, exactly as they came; at most 1,000.
            handler: called with each callback and the store's connection.
            at: the time they were received, aware.

        Returns:
            For each request its receipt, or why it is refused.

        Raises:
            InboxError: `inbox.unavailable`; then nothing of all this happened.
            ConfigurationError: `time.naive`, `inbox.setting`.
        """
        admitted = _admit_all(self._admission, received, at=at)
        entries = [one[1] for one in admitted if not isinstance(one, CallbackRejected)]
        callbacks = {id(one[1]): one[0] for one in admitted if not isinstance(one, CallbackRejected)}
        at = as_utc(at)
        outcomes = self._store.run_all(
            entries, lambda entry, connection: handler(callbacks[id(entry)], connection),
            at=at, until=shift(at, self._settings.lease), retry=_retry(self._settings, at),
        )  # fmt: skip
        return _receipts_of(self._admission, admitted, outcomes)

    def once(self, received: ReceivedCallback, *, at: datetime, within: Any) -> Receipt:
        """Verify a callback and mark it done in the caller's own transaction: APPLIED, REPEATED, STALE or BUSY.

        Only APPLIED says that the caller shall have the effect, in the same transaction, and then commit. What is rolled back was
        never received. Until the commit, a second delivery waits in PostgreSQL.

        Args:
            received: the request, exactly as it came.
            at: the time it was received, aware.
            within: the caller's connection or session, of the store's kind, in a transaction.

        Raises:
            CallbackRejected: as by `accept`.
            InboxError: `inbox.unavailable`; its cause is the driver's error.
            ConfigurationError: `time.naive`; `inbox.no-transaction`, the store has none.
        """
        once = _transactional(self._store)
        callback, entry = self._admission.admit(received, at=at)
        outcome = once(entry, at=callback.received_at, within=within)
        return Receipt(self._admission.require_same(outcome, entry), callback)

    def work(self, handler: Handler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Have the effects of stored callbacks that are due, oldest first.

        The handlers of one call run in one transaction, each within a savepoint, where the store's promise is exactly-once; one that
        raises leaves no writes, and its callback is tried again later.

        Args:
            handler: called with the callback and the store's connection.
            at: now, aware.
            limit: how many at most, up to 1,000; within the lease all of them should be done.

        Raises:
            InboxError: `inbox.unavailable`; what was claimed is claimed again when the lease ends.
            ConfigurationError: `time.naive`, `inbox.setting`.
        """
        at = as_utc(at)
        taken = self._store.take(at=at, until=shift(at, self._settings.lease), limit=_bounded(limit))
        outcomes = self._store.resume(
            taken, lambda entry, connection: handler(self._admission.restore(entry), connection),
            at=at, retry=_retry(self._settings, at),
        )  # fmt: skip
        return [Worked(one.entry, outcome) for one, outcome in zip(taken, outcomes, strict=True)]

    def failed(self, *, limit: int = 100) -> list[Failure]:
        """Callbacks whose last attempt failed, oldest first."""
        return self._store.failed(limit=_bounded(limit))

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Let a failed callback be taken again now; false when it is no longer failed."""
        return self._store.release(failure.entry.key, at=as_utc(at))

    def purge(self, *, at: datetime) -> int:
        """Forget what the retention no longer asks for, in batches; says how many rows. Call it now and then."""
        lifetimes, forgotten = self._settings.retention.at(at), 0
        while batch := self._store.purge(lifetimes, limit=MAX_BATCH):
            forgotten += batch
        return forgotten


class AsyncInbox:
    """The same over a store that is awaited; `verify_callback` itself runs in the event loop, for about 0.1 ms.

    Args:
        receiver: the receiver's addresses and keys.
        store: where callbacks are remembered.
        settings: what it goes by.
    """

    def __init__(
        self, receiver: CallbackReceiver, store: AsyncStore, *, settings: InboxSettings = InboxSettings()
    ) -> None:  # frozen
        self.receiver = receiver
        self._store, self._settings = store, settings
        self._admission = Admission(receiver, environment=settings.environment, window=settings.window)

    async def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """See `Inbox.accept`."""
        callback, entry = self._admission.admit(received, at=at)
        return Receipt(self._admission.require_same((await self._store.add([entry]))[0], entry), callback)

    async def handle(self, received: ReceivedCallback, handler: AsyncHandler, *, at: datetime) -> Receipt:
        """See `Inbox.handle`."""
        callback, entry = self._admission.admit(received, at=at)
        at = callback.received_at
        outcome = await self._store.run(
            entry, lambda _, connection: handler(callback, connection),
            at=at, until=shift(at, self._settings.lease), retry=_retry(self._settings, at),
        )  # fmt: skip
        return Receipt(self._admission.require_same(outcome, entry), callback)

    async def handle_all(
        self, received: Sequence[ReceivedCallback], handler: AsyncHandler, *, at: datetime
    ) -> list[Receipt | CallbackRejected]:
        """See `Inbox.handle_all`."""
        admitted = _admit_all(self._admission, received, at=at)
        entries = [one[1] for one in admitted if not isinstance(one, CallbackRejected)]
        callbacks = {id(one[1]): one[0] for one in admitted if not isinstance(one, CallbackRejected)}
        at = as_utc(at)
        outcomes = await self._store.run_all(
            entries, lambda entry, connection: handler(callbacks[id(entry)], connection),
            at=at, until=shift(at, self._settings.lease), retry=_retry(self._settings, at),
        )  # fmt: skip
        return _receipts_of(self._admission, admitted, outcomes)

    async def once(self, received: ReceivedCallback, *, at: datetime, within: Any) -> Receipt:
        """See `Inbox.once`."""
        once = _transactional(self._store)
        callback, entry = self._admission.admit(received, at=at)
        outcome = await once(entry, at=callback.received_at, within=within)
        return Receipt(self._admission.require_same(outcome, entry), callback)

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """See `Inbox.work`."""
        at = as_utc(at)
        taken = await self._store.take(at=at, until=shift(at, self._settings.lease), limit=_bounded(limit))

        async def effect(entry: Entry, connection: Any) -> None:
            await handler(self._admission.restore(entry), connection)

        outcomes = await self._store.resume(taken, effect, at=at, retry=_retry(self._settings, at))
        return [Worked(one.entry, outcome) for one, outcome in zip(taken, outcomes, strict=True)]

    async def failed(self, *, limit: int = 100) -> list[Failure]:
        """See `Inbox.failed`."""
        return await self._store.failed(limit=_bounded(limit))

    async def release(self, failure: Failure, *, at: datetime) -> bool:
        """See `Inbox.release`."""
        return await self._store.release(failure.entry.key, at=as_utc(at))

    async def purge(self, *, at: datetime) -> int:
        """See `Inbox.purge`."""
        lifetimes, forgotten = self._settings.retention.at(at), 0
        while batch := await self._store.purge(lifetimes, limit=MAX_BATCH):
            forgotten += batch
        return forgotten


def _admit_all(
    admission: Admission, received: Sequence[ReceivedCallback], *, at: datetime
) -> list[Admitted | CallbackRejected]:
    """What was proven about each request, or why it is refused."""
    _bounded(len(received))
    admitted: list[Admitted | CallbackRejected] = []
    for one in received:
        try:
            admitted.append(admission.admit(one, at=at))
        except CallbackRejected as e:
            admitted.append(e)
    return admitted


def _receipts_of(
    admission: Admission, admitted: Sequence[Admitted | CallbackRejected], outcomes: Iterable[Outcome]
) -> list[Receipt | CallbackRejected]:
    """Receipts of what was admitted, refusals where they were."""
    left = iter(outcomes)
    receipts: list[Receipt | CallbackRejected] = []
    for one in admitted:
        if isinstance(one, CallbackRejected):
            receipts.append(one)
            continue
        try:
            receipts.append(Receipt(admission.require_same(next(left), one[1]), one[0]))
        except CallbackRejected as e:
            receipts.append(e)
    return receipts


def _retry(settings: InboxSettings, at: datetime) -> Retry:
    return lambda attempt: settings.retries.due_at(attempt, at=at)


def _transactional(store: Store | AsyncStore) -> Callable[..., Any]:
    once = getattr(store, "once", None)
    if once is None:
        raise ConfigurationError(
            "inbox.no-transaction", f"{type(store).__name__} has no transaction that a caller's writes could be part of"
        )
    return once  # type: ignore[no-any-return]


def _bounded(limit: int) -> int:
    if not 1 <= limit <= MAX_BATCH:
        raise ConfigurationError("inbox.setting", f"a limit of {limit} is not 1 to {MAX_BATCH}")
    return limit
