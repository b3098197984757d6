"""Receive each callback once: verify, remember, take effect, acknowledge.

Steps, in this order, for every request:

1. sizes, headers, rules and signature; then the event. An unreadable body is kept as failed, because the callback is genuine;
2. the time window, if one is set. A login GET ends here: no handler gets it, and it is not stored;
3. the store: did this requestid come to this address before, and with the same signed bytes?
4. the version of the transaction: a stale one is acknowledged without effect, as is other content of the same version;
5. the effect.

Nothing is remembered of a request that fails before step 3: else strangers could use up requestids.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tppkit.callbacks.entries import Admitted, CallbackEntries
from tppkit.callbacks.handlers import require_over
from tppkit.callbacks.inbox_settings import DEFAULTS, InboxSettings
from tppkit.callbacks.message import ReceivedCallback
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import CallbackRejected
from tppkit.inbox import Entry, Failure, Outcome, Worked

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

# The second argument is SQLAlchemy's connection, or what the caller's transaction has.
Handler = Callable[[VerifiedCallback, Any], object]
Count = Callable[[str, str], object]
Transaction = Callable[[], AbstractContextManager[Any]]
_UNREADABLE = "CallbackRejected [callback.unreadable]"


class Unhandled(StrEnum):
    """Why no handler gets a callback.

    Attributes:
        LOGIN: a login GET: it is not stored. Answer it with a `LoginRequest`.
        UNREADABLE: its signature is valid, but its content cannot be read. Kept as failed until it is released or discarded.
    """

    LOGIN = "login"
    UNREADABLE = "unreadable"


class Receipt(NamedTuple):
    """The result for a received callback.

    Attributes:
        outcome: STORED, APPLIED, REPEATED, STALE, VERSION_CONFLICT or BUSY; LOGIN or UNREADABLE of `Unhandled`.
        callback: what was proven.
        fault: why it is UNREADABLE, else None.
    """

    outcome: Outcome | Unhandled
    callback: VerifiedCallback
    fault: CallbackRejected | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether to answer 200; else answer 503, so that the service repeats it: it did not take effect yet."""
        return self.outcome is not Outcome.BUSY


class Inbox:
    """Receives callbacks into a store.

    Every method raises InboxError (`inbox.unavailable`) if the store fails: then answer 503 and acknowledge nothing.

    Args:
        receiver: the addresses and keys.
        store: an `InboxStore`, or for tests a `MemoryStore`.
        settings: retention, retries and others.

    Example:
        store = InboxStore("sqlite:///tpp.sqlite")
        store.create_tables()
        receipt = Inbox(receiver, store).handle(received, handler, at=utc_now())
    """

    def __init__(self, receiver: CallbackReceiver, store: InboxStore, *, settings: InboxSettings = DEFAULTS) -> None:
        self.receiver, self._store, self._settings = receiver, store, settings
        self._entries = CallbackEntries(receiver, environment=settings.environment, window=settings.window)

    @property
    def store(self) -> InboxStore:
        """The store."""
        return self._store

    def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """Verify a callback and store it for `work`: STORED, REPEATED, LOGIN or UNREADABLE.

        Args:
            received: the request, exactly as it came.
            at: the time of receipt, aware.

        Raises:
            CallbackRejected: see `verify_callback`, except for a body that cannot be read; `callback.time-past`,
                `callback.time-future`, `callback.time-unknown`, `callback.request-id-reused`.
            InboxError: `inbox.unavailable`; `inbox.time`, the function of the window failed.
            ConfigurationError: `time.naive`.
        """
        admitted = self._entries.admit(received, at=at)
        return self._set_aside(admitted) or _receipt(self._store.accept(admitted.entry), admitted)

    def handle(self, received: ReceivedCallback, handler: Handler, *, at: datetime) -> Receipt:
        """Verify a callback and handle it now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY, LOGIN or UNREADABLE.

        The handler is called for APPLIED only. What it writes by its second argument is committed together with the mark that the
        callback is done. What it raises is kept as the failure of the callback (class and code), and raised.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and SQLAlchemy's connection.
            at: the time of receipt, aware.

        Raises:
            CallbackRejected: see `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`, `callback.function`, `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        admitted = self._entries.admit(received, at=at)
        if (receipt := self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        outcome = self._store.handle(
            entry,
            lambda _, db: require_over(handler(callback, db)),
            at=callback.received_at,
            retries=self._settings.retries,
        )
        return _receipt(outcome, admitted)

    def once(self, received: ReceivedCallback, *, at: datetime, within: Any) -> Receipt:
        """Verify a callback and mark it as done in the transaction of the caller.

        Only after APPLIED the caller writes the effect, in the same transaction, and commits. What is rolled back was not received.
        Until the commit, a second delivery waits. After an error of its own the caller must roll back: PostgreSQL answers COMMIT with a
        silent rollback then. An unreadable callback is raised; to keep it, end the transaction and pass the request to `accept`.

        Args:
            received: the request, exactly as it came.
            at: the time of receipt, aware.
            within: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`, in a transaction.

        Raises:
            CallbackRejected: see `accept`; `callback.unreadable`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`; `inbox.no-transaction`.
        """
        admitted = self._entries.admit(received, at=at)
        callback, entry, fault = admitted
        if callback.method == "GET":
            return Receipt(Unhandled.LOGIN, callback)
        if fault is not None:
            raise fault
        return _receipt(self._store.handle_within(entry, None, at=callback.received_at, within=within), admitted)

    def handle_within(
        self, received: ReceivedCallback, handler: Handler, *, at: datetime, within: Transaction
    ) -> Receipt:
        """Verify a callback, then handle it in a transaction of the caller.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and what `within` gives, for APPLIED only.
            at: the time of receipt, aware.
            within: opens the transaction, gives its connection or session (see `once`), and commits at the end, or rolls back whatever
                is raised. It is not called for a request that is rejected.

        Raises:
            CallbackRejected: see `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`; `inbox.no-transaction`, `callback.function`, `inbox.handler-committed`,
                `inbox.handler-aborted`: nothing may be committed.
        """
        admitted = self._entries.admit(received, at=at)
        if (receipt := self._set_aside(admitted)) is not None:
            return receipt
        callback, entry, _ = admitted
        with within() as connection:
            outcome = self._store.handle_within(
                entry, lambda _, db: require_over(handler(callback, db)), at=callback.received_at, within=connection
            )
            return _receipt(outcome, admitted)

    def work(self, handler: Handler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due, oldest first, each in a transaction of its own.

        A handler that raises leaves no writes, and its callback is tried again later (`Retries`). If a worker dies, the callback that
        it had is due again when the lease ends; one that ends its process each time is failed as `lease-ended`.

        Args:
            handler: called with the callback and SQLAlchemy's connection.
            at: now, aware.
            limit: how many at most, up to 1,000.

        Raises:
            InboxError: `inbox.unavailable`, before anything was done.
            ConfigurationError: `time.naive`, `inbox.setting`.
        """
        return self._store.work(
            self._entries.source, self.worker(handler), at=at, limit=limit, lease=self._settings.lease,
            retries=self._settings.retries, prepare=self._entries.prepare,
        )  # fmt: skip

    def worker(self, handler: Handler, *, count: Count | None = None) -> EntryHandler:
        """Return a handler of entries, for `tppkit inbox work --handler`, from a handler of callbacks.

        Args:
            handler: called with the callback and SQLAlchemy's connection.
            count: called with outcome and code of each entry that was worked, for metrics.
        """
        return EntryHandler(self._entries, handler, settings=self._settings, count=count)

    def callback_of(self, entry: Entry) -> VerifiedCallback:
        """Return the callback of a stored entry, for example of a failure.

        Raises:
            InboxError: `inbox.address`, the receiver no longer has the address.
            CallbackRejected: `callback.unreadable`.
        """
        return self._entries.restore(entry)

    def failed(self, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """Return callbacks whose last attempt failed, in the order of their receipt.

        Args:
            limit: how many at most, up to 1,000.
            after: the last one of the page before; it may have been released or discarded meanwhile.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.setting`.
        """
        return self._store.failed(self._entries.source, limit=limit, after=after)

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Make a failed callback due now; False if it is no longer failed."""
        return self._store.release(failure, at=at)

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Mark a failed callback as done without effect; False if it is no longer failed, or was tried again since.

        URL, body and signature are deleted at once, and its repetition is acknowledged. The version of its record is not used up.
        """
        return self._store.discard(failure, at=at)

    def purge(self, *, at: datetime) -> int:
        """Forget what the retention no longer asks for; returns how many rows. Call it now and then."""
        return self._store.purge(self._entries.source, at=at, retention=self._settings.retention)

    def _set_aside(self, admitted: Admitted) -> Receipt | None:
        """Return the receipt for what no handler may get; an unreadable callback is kept as failed."""
        callback, entry, fault = admitted
        if callback.method == "GET":
            return Receipt(Unhandled.LOGIN, callback)
        if fault is None:
            return None
        outcome = self._store.accept(entry, fault=_UNREADABLE)
        if outcome is Outcome.FAILED:
            return Receipt(Unhandled.UNREADABLE, callback, fault)
        return _receipt(outcome, admitted)


class EntryHandler:
    """Handles entries by a handler of callbacks.

    Args:
        entries: turns entries into callbacks.
        handler: the handler.
        settings: of the inbox.
        count: counts what was worked.
    """

    def __init__(
        self, entries: CallbackEntries, handler: Handler, *, settings: InboxSettings, count: Count | None
    ) -> None:
        self._entries, self._handler, self.count = entries, handler, count
        self.source, self.prepare = entries.source, entries.prepare
        self.lease, self.retries = settings.lease, settings.retries

    def __call__(self, entry: Entry, connection: Any) -> None:
        """Handle an entry."""
        require_over(self._handler(self._entries.restore(entry), connection))


def _receipt(outcome: Outcome, admitted: Admitted) -> Receipt:
    """Return the receipt.

    Raises:
        CallbackRejected: `callback.request-id-reused`.
    """
    if outcome is Outcome.CONFLICT:
        raise CallbackRejected(
            "callback.request-id-reused",
            f"the requestid {admitted.entry.name} came before to the same address with other signed bytes",
        )
    return Receipt(outcome, admitted.callback, admitted.fault)
