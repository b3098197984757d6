"""Receive each callback once: verify, remember, have its effect, acknowledge.

Steps, in this order, for every request:

1. sizes, headers, rules and signature; then the event. An unreadable body is kept as failed, because the callback is genuine;
2. the time window, both sides, where one is set. A login GET ends here: no handler gets it, and it is not stored;
3. the store: has this requestid come to this address before, and with the same signed bytes?
4. the version of the transaction: a stale one is acknowledged and has no effect, nor has a second content of one version;
5. the effect.

Nothing is remembered of what fails before step 3: else anybody could use up requestids. There are three ways from 3 on. `accept`
stores the callback, the request is answered, and `work` has the effect later. `handle` has the effect at once, `handle_all` those of
several with one commit. `once` marks the callback in a transaction of the caller's, who has the effect there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
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
from tppkit.callbacks.stores.store import Effect, Renewing, Store
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import CallbackRejected, InboxError

# The second argument is the store's connection or session, None where it has no transaction to share.
Handler = Callable[[VerifiedCallback, Any], object]
Transaction = Callable[[], AbstractContextManager[Any]]


class Inbox:
    """Receives callbacks into a store.

    Every method raises InboxError (`inbox.unavailable`) when the store fails: then answer 503 and acknowledge nothing.

    Args:
        receiver: the receiver's addresses and keys.
        store: where callbacks are remembered; how firmly, its `promise` says.
        settings: what it goes by.
        clock: monotonic seconds, by which a lease that a long call claims later begins later than the call's `at`.

    Raises:
        ConfigurationError: `inbox.setting`, the store is one for `AsyncInbox`, or none.
    """

    def __init__(
        self,
        receiver: CallbackReceiver,
        store: Store,
        *,
        settings: InboxSettings = DEFAULTS,
        clock: Clock = time.monotonic,
    ) -> None:
        require_store(store, awaited=False)
        self.receiver, self._store, self._settings = receiver, store, settings
        self._at_once, self._clock = handled_at_once(store), clock
        self._admission = Admission(receiver, environment=settings.environment, window=settings.window)

    def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """Verify a callback and store it for `work`: STORED or REPEATED, LOGIN for a login GET, or UNREADABLE.

        Args:
            received: the request, exactly as it came.
            at: the time it was received, aware.

        Raises:
            CallbackRejected: as `verify_callback`, but for a body that cannot be read; `callback.time-past`, `callback.time-future`,
                `callback.time-unknown`, `callback.request-id-reused`.
            InboxError: `inbox.unavailable`; `inbox.time`, the window's function failed.
            ConfigurationError: `time.naive`.
        """
        admitted = self._admission.admit(received, at=at)
        if (receipt := self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        return Receipt(self._admission.require_same(self._store.add([entry])[0], entry), callback)

    def handle(self, received: ReceivedCallback, handler: Handler, *, at: datetime) -> Receipt:
        """Verify a callback and have its effect now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY, LOGIN or UNREADABLE.

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
            ConfigurationError: `time.naive`, `callback.function`, `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        admitted = self._admission.admit(received, at=at)
        if (receipt := self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        at = callback.received_at
        outcome = self._store.run(
            entry, lambda _, connection: handler(callback, connection),
            at=at, until=shift(at, self._settings.lease), retry=retry_after(self._settings, at),
        )  # fmt: skip
        return Receipt(self._admission.require_same(outcome, entry), callback)

    def handle_all(
        self, received: Sequence[ReceivedCallback], handler: Handler, *, at: datetime
    ) -> list[Receipt | CallbackRejected]:
        """Verify several callbacks that were received together and have their effects, with one commit.

        Where the store's promise is exactly-once each effect has a savepoint of its own: a handler that raises undoes its own
        writes and no others, and its callback is FAILED. When a handler's writes make the commit itself fail (a deferred constraint),
        all are undone and each is handled again in a transaction of its own.

        Args:
            received: the requests, exactly as they came; at most 1,000, none for no receipts.
            handler: called with each callback and the store's connection.
            at: the time they were received, aware.

        Returns:
            For each request its receipt, or why it is refused, in the order given. Those that the store failed before are BUSY, and those
            that somebody else has in PostgreSQL, or whose record somebody has.

        Raises:
            InboxError: `inbox.unavailable`; acknowledge none of them. What was under way may still be committed, and is then REPEATED.
            ConfigurationError: `time.naive`, `inbox.setting`; `inbox.handler-committed`, a handler ended the transaction of all, and is
                told by `failed`, unless its own commit made it done: acknowledge none of them.
        """
        admitted = [self._set_aside_one(one) for one in admit_all(self._admission, received, at=at)]
        entries = [one.entry for one in admitted if isinstance(one, Admitted)]
        callbacks = {id(one.entry): one.callback for one in admitted if isinstance(one, Admitted)}
        outcomes = self._run_all(
            entries, lambda entry, connection: handler(callbacks[id(entry)], connection), as_utc(at)
        )
        return receipts_of(self._admission, admitted, outcomes)

    def _set_aside(self, admitted: Admitted) -> Receipt | None:
        """Return the receipt for what no handler may get; an unreadable callback is kept as failed."""
        callback, entry, fault = admitted
        if callback.method == "GET":
            return Receipt(Outcome.LOGIN, callback)
        if fault is None:
            return None

        def fail(entry: Entry, connection: Any) -> None:
            raise fault

        at, outcome = callback.received_at, Outcome.UNREADABLE
        # Added first: if the store fails in between, `run` may not have recorded the failure.
        self._admission.require_same((self._store.add([entry]))[0], entry)
        with suppress(CallbackRejected):
            until = shift(at, self._settings.lease)
            outcome = self._store.run(entry, fail, at=at, until=until, retry=lambda attempt: None)
        return Receipt(Outcome.REPEATED if outcome is Outcome.REPEATED else Outcome.UNREADABLE, callback, fault)

    def _set_aside_one(self, one: Admitted | CallbackRejected) -> Admitted | Receipt | CallbackRejected:
        try:
            return one if isinstance(one, CallbackRejected) else self._set_aside(one) or one
        except CallbackRejected as e:
            return e

    def _run_all(self, entries: Sequence[Entry], effect: Effect, at: datetime) -> list[Outcome]:
        leases, outcomes = Leases(self._settings.lease, at, self._clock), list[Outcome]()
        retry = retry_after(self._settings, at)
        try:
            for first in range(0, len(entries), self._at_once):
                some = entries[first : first + self._at_once]
                outcomes += self._store.run_all(some, effect, at=at, until=leases.end(), retry=retry)
        except InboxError:
            if not outcomes:  # else what is done is told, and the rest is BUSY
                raise
        return outcomes

    def once(self, received: ReceivedCallback, *, at: datetime, within: Any) -> Receipt:
        """Verify a callback and mark it done in the caller's own transaction: as by `handle`.

        Only APPLIED says that the caller shall have the effect, in the same transaction, and then commit. What is rolled back was
        never received. Until the commit, a second delivery waits in PostgreSQL.
        After an error of its own the caller must roll back: PostgreSQL answers COMMIT with a silent rollback. `handle_within` sees to it.
        An unreadable callback is raised; to keep it, end the transaction and pass the request to `accept`.

        Args:
            received: the request, exactly as it came.
            at: the time it was received, aware.
            within: the caller's connection or session, of the store's kind, in a transaction.

        Raises:
            CallbackRejected: as by `accept`; `callback.unreadable`.
            InboxError: `inbox.unavailable`; its cause is the driver's error.
            ConfigurationError: `time.naive`; `inbox.no-transaction`, the store or the connection has none.
        """
        store = transactional(self._store)
        callback, entry, fault = self._admission.admit(received, at=at)
        if callback.method == "GET":
            return Receipt(Outcome.LOGIN, callback)
        if fault is not None:
            raise fault
        outcome = store.once(entry, at=callback.received_at, within=within)
        return Receipt(self._admission.require_same(outcome, entry), callback)

    def handle_within(
        self, received: ReceivedCallback, handler: Handler, *, at: datetime, within: Transaction
    ) -> Receipt:
        """Verify a callback, then mark it done and have its effect in a transaction of the caller's: as by `once`.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and the transaction's connection, for APPLIED only.
            at: the time it was received, aware.
            within: opens the transaction, gives its connection or session, of the store's kind, and commits at its end, or
                rolls back what is raised; a request that is refused opens none.

        Raises:
            CallbackRejected: as by `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`; `inbox.no-transaction`, the store or the connection has none; `callback.function`,
                `inbox.handler-committed`, `inbox.handler-aborted`: nothing may be committed.
        """
        admitted = self._admission.admit(received, at=at)
        if (receipt := self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        store = transactional(self._store)
        with within() as connection:
            outcome = store.run_within(
                entry, lambda _, connection: handler(callback, connection), at=callback.received_at, within=connection
            )
            return Receipt(self._admission.require_same(outcome, entry), callback)

    def work(self, handler: Handler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Have the effects of stored callbacks that are due, oldest first.

        The handlers of one call run in one transaction, each within a savepoint, where the store's promise is exactly-once; one that
        raises leaves no writes, and its callback is tried again later. What an earlier worker had when it died is run alone, a
        transaction each, and failed (`lease-ended`) after `Retries.attempts`.

        Args:
            handler: called with the callback and the store's connection.
            at: now, aware.
            limit: how many at most, up to 1,000. Within half the lease all of them should be done; where the store's promise is not
                exactly-once, each within nine tenths of it.

        Raises:
            InboxError: `inbox.unavailable`, before anything is known to be committed; what was under way may still be. What is not
                is due again soon where the store is in SQL and can still be reached, else when the lease ends.
            ConfigurationError: `time.naive`, `inbox.setting`; `inbox.handler-committed`, a handler ended the transaction of all: it is
                told by `failed`, unless what it committed made it done, and the others are due at once.
        """
        at = as_utc(at)
        leases, worked, left = Leases(self._settings.lease, at, self._clock), list[Worked](), bounded(limit)
        try:
            while left and (taken := self._store.take(at=at, until=leases.end(), limit=left)):
                for first in range(0, len(taken), self._at_once):
                    if first and leases.is_used() and isinstance(self._store, Renewing):
                        self._store.renew(taken[first:], until=leases.end())
                    worked += self._resume(taken[first : first + self._at_once], handler, at)
                left = limit - len(worked)
        except InboxError:
            if not worked:  # else what is done is told; a failure that lasts meets the next call
                raise
        return worked

    def _resume(self, taken: Sequence[Taken], handler: Handler, at: datetime) -> list[Worked]:
        taken = [self._admission.with_order(one) for one in taken]
        outcomes = self._store.resume(
            taken, lambda entry, connection: handler(self._admission.restore(entry), connection),
            at=at, retry=retry_after(self._settings, at),
        )  # fmt: skip
        return [Worked(one.entry, outcome) for one, outcome in zip(taken, outcomes, strict=False)]

    def failed(self, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """Callbacks whose last attempt failed, in the order in which they were received.

        Args:
            limit: how many at most, up to 1,000.
            after: the last one of the page before, for the next page; it may have been released or discarded meanwhile.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.setting`.
        """
        return self._store.failed(limit=bounded(limit), after=after)

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Let a failed callback be taken again now; false when it is no longer failed."""
        return self._store.release(failure.entry.key, at=as_utc(at))

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Put a failed callback away without effect; false when it is failed no more, or has been tried again since.

        It counts as done: URL, body and signature are forgotten at once, and its repetition is acknowledged. The version of its
        record is not used up.
        """
        return self._store.discard(failure, at=as_utc(at))

    def purge(self, *, at: datetime) -> int:
        """Forget what the retention no longer asks for, in batches; says how many rows. Call it now and then."""
        lifetimes, before, forgotten = self._settings.retention.at(at), self._settings.retention.failed_before(at), 0
        while before and self._store.discard_failed(before=before, at=as_utc(at), limit=MAX_BATCH):
            pass
        while batch := self._store.purge(lifetimes, limit=MAX_BATCH):
            forgotten += batch
        return forgotten
