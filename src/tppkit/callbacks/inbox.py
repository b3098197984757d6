"""Receive each callback once: verify, store, handle, acknowledge.

Each request passes these steps in order:

1. Check sizes, headers, rules and signature, then read the event. If the body cannot be read, the callback is genuine and is
   stored as failed.
2. Check the time window, if one is set. A login GET ends here: it is not stored and not handled.
3. Look up requestid and address in the store, and compare the signed bytes with those of an earlier delivery.
4. Compare the version of the transaction. A stale version, or other content of the same version, is acknowledged without effect.
5. Call the handler.

A request that fails before step 3 leaves no row in the store, so attackers cannot use up requestids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tppkit._encoding import shown
from tppkit.callbacks.addresses import CallbackAddress, CallbackKind
from tppkit.callbacks.entries import CallbackEntries, IncomingCallback
from tppkit.callbacks.settings import DEFAULTS, InboxSettings
from tppkit.callbacks.signature import CallbackRejected
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.inbox import Entry, Failure, Outcome, Worked, Worker
from tppkit.inbox.tasks import Tasks
from tppkit.message import Message
from tppkit.metrics import Count
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

T = TypeVar("T")
Event = TypeVar("Event")
Result = TypeVar("Result")
# The last argument is SQLAlchemy's connection, or the connection of the caller's transaction.
CallbackHandler = Callable[[VerifiedCallback, Any], Result]
EventHandler = Callable[[Event, VerifiedCallback, Any], Result]
Handler = CallbackHandler[object]
OpenTransaction = Callable[[], AbstractContextManager[Any]]
AsyncHandler = CallbackHandler[Awaitable[object]]
AsyncTransaction = Callable[[], AbstractAsyncContextManager[Any]]


class Unhandled(StrEnum):
    """Why a callback is not passed to a handler.

    Attributes:
        LOGIN: a login GET, which is not stored. Answer it with a `LoginRequest`.
        UNREADABLE: the signature is valid, but the body cannot be read. The callback stays failed until it is released or discarded.
    """

    LOGIN = "login"
    UNREADABLE = "unreadable"


class Receipt(NamedTuple):
    """The result for a received callback.

    Attributes:
        outcome: STORED, APPLIED, REPEATED, STALE, VERSION_CONFLICT or BUSY; LOGIN or UNREADABLE of `Unhandled`.
        callback: the verified callback.
        fault: why it is UNREADABLE, else None.

    Example:
        receipt = inbox.handle(received, handler, at=utc_now())
        status = 200 if receipt.acknowledged else 503
    """

    outcome: Outcome | Unhandled
    callback: VerifiedCallback
    fault: CallbackRejected | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether to answer 200. If False, answer 503 so that the service repeats the callback, which has had no effect yet."""
        return self.outcome is not Outcome.BUSY


class Inbox:
    """Receives callbacks into a store.

    Every method raises InboxError (`inbox.unavailable`) if the store fails. Then answer 503, so that the service repeats the callback.

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
        self.receiver, self.store, self._settings = receiver, store, settings
        self._entries = CallbackEntries(receiver, environment=settings.environment, window=settings.window)

    def accept(self, received: Message, *, at: datetime) -> Receipt:
        """Verify a callback and store it for `work`: STORED, REPEATED, LOGIN or UNREADABLE.

        Args:
            received: the request, exactly as it came.
            at: the time of receipt, aware.

        Raises:
            CallbackRejected: see `verify_callback`, except for a body that cannot be read; `callback.time-past`,
                `callback.time-future`, `callback.time-unknown`, `callback.request-id-reused`.
            InboxError: `inbox.unavailable`; `inbox.time`, the `time_of` of the window failed.
            ConfigurationError: `time.naive`.
        """
        incoming = self._entries.verify(received, at=at)
        return _unhandled(self.store, incoming) or _receipt_of(self.store.accept(incoming.entry), incoming)

    def handle(self, received: Message, handler: Handler, *, at: datetime) -> Receipt:
        """Verify a callback and handle it now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY, LOGIN or UNREADABLE.

        The handler is called for APPLIED only. What it writes with the connection is committed together with the callback's done
        flag. If the handler raises, the exception's class and code are stored as the callback's failure, and it is raised again.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and SQLAlchemy's connection.
            at: the time of receipt, aware.

        Raises:
            CallbackRejected: see `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`, `callback.function`, `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        incoming = self._entries.verify(received, at=at)
        if (receipt := _unhandled(self.store, incoming)) is not None:
            return receipt
        callback, entry, _ = incoming
        outcome = self.store.handle(
            entry, lambda _, db: handler(callback, db), at=callback.received_at, retries=self._settings.retries
        )
        return _receipt_of(outcome, incoming)

    def once(self, received: Message, *, at: datetime, within: Any) -> Receipt:
        """Verify a callback and set its done flag in the transaction of the caller.

        If the outcome is APPLIED, write the effect in the same transaction and commit; a second delivery waits until then. If the
        transaction is rolled back, the callback counts as not received. After an SQL error, roll back: PostgreSQL answers a COMMIT
        with a silent rollback. To keep an unreadable callback, end the transaction and pass the request to `accept`.

        Args:
            received: the request, exactly as it came.
            at: the time of receipt, aware.
            within: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`, in a transaction.

        Raises:
            CallbackRejected: see `accept`; `callback.unreadable`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`; `inbox.no-transaction`.
        """
        incoming = self._entries.verify(received, at=at)
        callback, entry, fault = incoming
        if callback.method == "GET":
            return Receipt(Unhandled.LOGIN, callback)
        if fault is not None:
            raise fault
        return _receipt_of(self.store.handle_within(entry, None, at=callback.received_at, within=within), incoming)

    def handle_within(self, received: Message, handler: Handler, *, at: datetime, within: OpenTransaction) -> Receipt:
        """Verify a callback, then handle it in a transaction of the caller.

        Args:
            received: the request, exactly as it came.
            handler: called with the callback and the connection of `within`, for APPLIED only.
            at: the time of receipt, aware.
            within: returns a context manager that opens a transaction and yields its connection or session (see `once`). It commits
                at the end, and rolls back after any exception, which it must not suppress. Not called for a rejected request.

        Raises:
            CallbackRejected: see `accept`.
            InboxError: `inbox.unavailable`.
            ConfigurationError: `time.naive`; `inbox.no-transaction`, `callback.function`, `inbox.handler-committed`,
                `inbox.handler-aborted`. Then the transaction must not be committed.
        """
        incoming = self._entries.verify(received, at=at)
        if (receipt := _unhandled(self.store, incoming)) is not None:
            return receipt
        callback, entry, _ = incoming
        outcome: Outcome | None = None
        with manager_of(within, AbstractContextManager) as connection:
            outcome = self.store.handle_within(
                entry, lambda _, db: handler(callback, db), at=callback.received_at, within=connection
            )
        if outcome is None:
            raise ConfigurationError("inbox.no-transaction", "the context manager of `within` suppressed an exception")
        return _receipt_of(outcome, incoming)

    def work(self, handler: Handler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due, oldest first, each in its own transaction.

        If a handler raises, its writes are rolled back and the callback is retried later (`Retries`). If a worker dies, its callback
        is due again when the lease ends. A callback that ends its worker each time fails as `lease-ended`.

        Args:
            handler: called with the callback and SQLAlchemy's connection.
            at: now, aware.
            limit: how many at most, up to 1,000.

        Raises:
            InboxError: `inbox.unavailable`, before any callback was handled.
            ConfigurationError: `time.naive`, `inbox.setting`.
        """
        return self.store.work(self.worker(handler), at=at, limit=limit)

    def worker(self, handler: Handler, *, count: Count | None = None) -> Worker:
        """Wrap a handler of callbacks as a handler of entries, for `tppkit inbox work --handler`.

        Args:
            handler: called with the callback and SQLAlchemy's connection.
            count: called with outcome and code of each handled entry, and the seconds that it took.
        """
        entries, settings = self._entries, self._settings
        return Worker(
            entries.source, lambda entry, db: handler(entries.restore(entry), db), lease=settings.lease, retries=settings.retries,
            prepare=entries.prepare, count=count,
        )  # fmt: skip

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
            after: the last failure of the previous page; it may have been released or discarded in the meantime.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.setting`.
        """
        return self.store.failed(self._entries.source, limit=limit, after=after)

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Make a failed callback due now, with new attempts; False if it is no longer failed, or its attempts or due time have changed."""
        return self.store.release(failure, at=at)

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Set the done flag of a failed callback without effect; False if it is no longer failed, or its attempts or due time have changed.

        URL, body and signature are deleted at once, and a repetition is acknowledged. A callback with the same version of the record
        can still take effect.
        """
        return self.store.discard(failure, at=at)

    def purge(self, *, at: datetime) -> int:
        """Delete rows whose retention has ended and return their number. Call it regularly."""
        return self.store.purge(self._entries.source, at=at, retention=self._settings.retention)


class AsyncInbox(Tasks):
    """Receives callbacks into a store, without blocking the event loop.

    Handlers get SQLAlchemy's `Connection` for SQLite, whose statements run on the event loop; for PostgreSQL a `TaskConnection`, whose
    statements are awaited.

    Args:
        receiver: the addresses and keys.
        store: for example `InboxStore("postgresql+psycopg://host/name")`.
        settings: retention, retries and others.

    Attributes:
        inbox: the synchronous inbox; pass its other methods to `run`.

    Raises:
        ConfigurationError: `extra.missing`; `inbox.setting`, it is not a store.

    Example:
        inbox = AsyncInbox(receiver, InboxStore("postgresql+psycopg://host/name"))
        receipt = await inbox.handle(received, handler, at=utc_now())
        failures = await inbox.run(inbox.inbox.failed, limit=10)
    """

    def __init__(self, receiver: CallbackReceiver, store: InboxStore, *, settings: InboxSettings = DEFAULTS) -> None:
        super().__init__(store)
        self.receiver, self.inbox = receiver, Inbox(receiver, store, settings=settings)
        self._entries = self.inbox._entries

    async def accept(self, received: Message, *, at: datetime) -> Receipt:
        """Verify a callback and store it; see `Inbox.accept`."""
        return await self.run(self.inbox.accept, received, at=at)

    async def handle(self, received: Message, handler: AsyncHandler, *, at: datetime) -> Receipt:
        """Verify a callback and handle it now; see `Inbox.handle`."""
        return await self.run(self.inbox.handle, received, self.effect(handler), at=at)

    async def handle_within(
        self, received: Message, handler: AsyncHandler, *, at: datetime, within: AsyncTransaction
    ) -> Receipt:
        """Verify a callback, then handle it in a transaction of the caller; see `Inbox.handle_within`."""
        incoming = self._entries.verify(received, at=at)
        callback, entry, fault = incoming
        if callback.method == "GET" or fault is not None:
            receipt = await self.run(_unhandled, self.store, incoming)
            if receipt is not None:
                return receipt
        outcome: Outcome | None = None
        async with manager_of(within, AbstractAsyncContextManager) as connection:
            outcome = await self.apply_within(
                entry, lambda _, db: handler(callback, db), at=callback.received_at, within=connection
            )
        if outcome is None:
            raise ConfigurationError("inbox.no-transaction", "the context manager of `within` suppressed an exception")
        return _receipt_of(outcome, incoming)

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due; see `Inbox.work`."""
        return await self.run(self.inbox.work, self.effect(handler), at=at, limit=limit)


def handler_by_kind(
    receiver: CallbackReceiver, *, on_access: EventHandler[AccessGranted, Result] | None = None,
    on_payment: EventHandler[Transaction, Result] | None = None, on_login: EventHandler[LoginConfirmed, Result] | None = None,
    handler: CallbackHandler[Result] | None = None,
) -> CallbackHandler[Result]:  # fmt: skip
    """Return one handler that calls the handler of the callback's kind, for `Inbox`, `AsyncInbox` and their workers.

    Args:
        receiver: the addresses.
        on_access: called with the event, the callback and the connection; so are the two that follow.
        on_payment: for outcomes of payment requests.
        on_login: for confirmed logins.
        handler: called with the callback and the connection, for every kind without a handler of its own.

    Raises:
        ConfigurationError: `callback.no-handler`, an address has a kind without a handler.

    Example:
        handler = handler_by_kind(receiver, on_access=granted, on_payment=paid)
        inbox.work(handler, at=utc_now())
    """
    given = {CallbackKind.ACCESS: on_access, CallbackKind.PAYMENT: on_payment, CallbackKind.LOGIN: on_login}
    own: Mapping[str, EventHandler[Any, Result]] = {kind: one for kind, one in given.items() if one is not None}
    for address in receiver.book.addresses:
        if address.kind not in own and handler is None:
            raise _no_handler(address)

    def handle(callback: VerifiedCallback, connection: Any) -> Result:
        one = own.get(callback.address.kind)
        if one is not None:
            return one(callback.event, callback, connection)
        if handler is None:  # the callback is another receiver's
            raise _no_handler(callback.address)
        return handler(callback, connection)

    return handle


def _no_handler(address: CallbackAddress) -> ConfigurationError:
    return ConfigurationError(
        "callback.no-handler", f"{shown(address.url)} takes callbacks of kind {address.kind}, which has no handler"
    )


def manager_of(within: Callable[[], T], kind: type[Any]) -> T:
    """Return the context manager that opens a transaction of the caller.

    Raises:
        ConfigurationError: `inbox.no-transaction`, it is not one of this kind.
    """
    manager = within()
    if not isinstance(manager, kind):
        message = f"`within` returned a {type(manager).__name__}, expected an {kind.__name__}"
        raise ConfigurationError("inbox.no-transaction", message)
    return manager


def _unhandled(store: InboxStore, incoming: IncomingCallback) -> Receipt | None:
    """Return the receipt of a callback that no handler gets, else None; store an unreadable callback as failed."""
    callback, entry, fault = incoming
    if callback.method == "GET":
        return Receipt(Unhandled.LOGIN, callback)
    if fault is None:
        return None
    outcome = store.accept(entry._replace(fault=fault))
    if outcome is Outcome.FAILED:
        return Receipt(Unhandled.UNREADABLE, callback, fault)
    return _receipt_of(outcome, incoming)


def _receipt_of(outcome: Outcome, incoming: IncomingCallback) -> Receipt:
    """Return the receipt for an outcome of the store.

    Raises:
        CallbackRejected: `callback.request-id-reused`.
    """
    if outcome is Outcome.CONFLICT:
        raise CallbackRejected(
            "callback.request-id-reused",
            f"the requestid {incoming.entry.name} was received before at the same address with other signed bytes",
        )
    return Receipt(outcome, incoming.callback, incoming.fault)
