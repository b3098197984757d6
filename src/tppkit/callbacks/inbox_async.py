"""The inbox for asyncio: the same inbox, run by SQLAlchemy's `greenlet_spawn`, as `run_sync` does, so that its statements are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tppkit._extras import missing_extra
from tppkit.callbacks.handlers import own_cancellation, require_over
from tppkit.callbacks.inbox import Inbox, Receipt
from tppkit.callbacks.inbox_settings import DEFAULTS, InboxSettings
from tppkit.callbacks.message import ReceivedCallback
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.inbox import Worked

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

# The second argument is SQLAlchemy's AsyncConnection, or what the caller's transaction has.
AsyncHandler = Callable[[VerifiedCallback, Any], Awaitable[object]]
AsyncTransaction = Callable[[], AbstractAsyncContextManager[Any]]
T = TypeVar("T")


class AsyncInbox:
    """Receives callbacks into a store on an engine for asyncio, or into SQLite, whose commits its tasks share.

    Args:
        receiver: the addresses and keys.
        store: an `InboxStore(async_engine)`, or `InboxStore("sqlite:///tpp.sqlite")`, whose handlers get SQLAlchemy's `Connection`.
        settings: retention, retries and others.

    Attributes:
        inbox: the inbox for threads; give its other methods to `run`.

    Raises:
        ConfigurationError: `extra.missing`.

    Example:
        inbox = AsyncInbox(receiver, InboxStore(create_async_engine("postgresql+psycopg://host/name")))
        receipt = await inbox.handle(received, handler, at=utc_now())
        failures = await inbox.run(inbox.inbox.failed, limit=10)
    """

    def __init__(self, receiver: CallbackReceiver, store: InboxStore, *, settings: InboxSettings = DEFAULTS) -> None:
        try:
            from sqlalchemy import util
            from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
        except ImportError as e:
            raise missing_extra("sqlalchemy", e) from e
        self.receiver, self.inbox = receiver, Inbox(receiver, store.for_tasks(), settings=settings)
        self._spawn, self._await = util.greenlet_spawn, util.await_only
        self._wrap: Callable[[Any], Any] = lambda connection: connection
        if store.engine.dialect.is_async:
            engine = AsyncEngine(store.engine)
            self._wrap = lambda connection: AsyncConnection(engine, sync_connection=connection)

    async def accept(self, received: ReceivedCallback, *, at: datetime) -> Receipt:
        """Verify a callback and store it; see `Inbox.accept`."""
        return await self.run(self.inbox.accept, received, at=at)

    async def handle(self, received: ReceivedCallback, handler: AsyncHandler, *, at: datetime) -> Receipt:
        """Verify a callback and handle it now; see `Inbox.handle`."""
        return await self.run(self.inbox.handle, received, self._effect(handler, self._wrap), at=at)

    async def handle_within(
        self, received: ReceivedCallback, handler: AsyncHandler, *, at: datetime, within: AsyncTransaction
    ) -> Receipt:
        """Verify a callback, then handle it in a transaction of the caller; see `Inbox.handle_within`."""
        effect = self._effect(handler, lambda connection: connection)
        return await self.run(self.inbox.handle_within, received, effect, at=at, within=partial(self._opened, within))

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due; see `Inbox.work`."""
        return await self.run(self.inbox.work, self._effect(handler, self._wrap), at=at, limit=limit)

    async def run(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a method of `inbox`, awaiting its statements."""
        result: T = await self._spawn(method, *args, **kwargs)
        return result

    def _effect(self, handler: AsyncHandler, wrap: Callable[[Any], Any]) -> Callable[[VerifiedCallback, Any], object]:
        async def have(callback: VerifiedCallback, connection: Any) -> None:
            with own_cancellation("a handler", asyncio.current_task()):
                result = handler(callback, wrap(connection))
                if not isinstance(result, Awaitable):
                    raise ConfigurationError(
                        "callback.function",
                        "a handler returned nothing to be awaited: AsyncInbox takes coroutine functions",
                    )
                require_over(await result)

        return lambda callback, connection: self._await(have(callback, connection))

    @contextmanager
    def _opened(self, within: AsyncTransaction) -> Iterator[Any]:
        stack = AsyncExitStack()
        connection = self._await(stack.enter_async_context(within()))
        try:
            yield connection
        except BaseException as e:
            if not self._await(stack.__aexit__(type(e), e, e.__traceback__)):
                raise
        else:
            self._await(stack.aclose())
