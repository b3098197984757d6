"""The inbox for asyncio: runs `Inbox` in threads, and awaits its handlers on the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tppkit.callbacks.entries import CallbackEntries
from tppkit.callbacks.inbox import Inbox, Receipt, manager_of, receipt_of
from tppkit.callbacks.inbox_settings import DEFAULTS, InboxSettings
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.inbox import Outcome, Worked
from tppkit.inbox.tasks import Tasks
from tppkit.message import Message

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

# The second argument is the connection of the inbox (see `Tasks.effect`), or of the caller's transaction.
AsyncHandler = Callable[[VerifiedCallback, Any], Awaitable[object]]
AsyncTransaction = Callable[[], AbstractAsyncContextManager[Any]]


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
        self._entries = CallbackEntries(receiver, environment=settings.environment, window=settings.window)

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
            return await self.accept(received, at=at)  # no handler gets it
        outcome: Outcome | None = None
        async with manager_of(within, AbstractAsyncContextManager) as connection:
            outcome = await self.apply_within(
                entry, lambda _, db: handler(callback, db), at=callback.received_at, within=connection
            )
        if outcome is None:
            raise ConfigurationError("inbox.no-transaction", "the context manager of `within` suppressed an exception")
        return receipt_of(outcome, incoming)

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due; see `Inbox.work`."""
        return await self.run(self.inbox.work, self.effect(handler), at=at, limit=limit)
