"""The inbox for asyncio: runs `Inbox` in SQLAlchemy's `greenlet_spawn`, as `run_sync` does, so that its statements are awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tppkit._extras import missing_extra
from tppkit.callbacks.handlers import awaited
from tppkit.callbacks.inbox import Inbox, Receipt, manager_of
from tppkit.callbacks.inbox_settings import DEFAULTS, InboxSettings
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.inbox import Worked
from tppkit.message import Message

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

# The second argument is SQLAlchemy's AsyncConnection, or the connection of the caller's transaction.
AsyncHandler = Callable[[VerifiedCallback, Any], Awaitable[object]]
AsyncTransaction = Callable[[], AbstractAsyncContextManager[Any]]
T = TypeVar("T")


class Tasks:
    """Runs methods that use a store so that their statements, and functions of the application, are awaited.

    Args:
        store: of an address, or on an engine for asyncio.

    Attributes:
        store: the store as tasks use it.

    Raises:
        ConfigurationError: `extra.missing`; `inbox.setting`, the store would block the event loop.
    """

    def __init__(self, store: InboxStore) -> None:
        try:
            from sqlalchemy import util
            from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
        except ImportError as e:
            raise missing_extra("sqlalchemy", e) from e
        if isinstance(store, AsyncEngine):
            advice = 'give InboxStore("postgresql+psycopg://host/name"), whose statements do not block the event loop'
            raise ConfigurationError("inbox.setting", f"an AsyncEngine is not a store: {advice}")
        self.store = store.for_tasks()
        self._spawn, self._await = util.greenlet_spawn, util.await_only
        self._wrap: Callable[[Any], Any] = lambda connection: connection
        if self.store.engine.dialect.is_async:
            engine = AsyncEngine(self.store.engine)
            self._wrap = lambda connection: AsyncConnection(engine, sync_connection=connection)

    async def run(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a synchronous method that uses the store, awaiting its statements."""
        result: T = await self._spawn(method, *args, **kwargs)
        return result

    def awaiting(self, name: str, function: Callable[..., Awaitable[T]]) -> Callable[..., T]:
        """Return a plain function that awaits a coroutine function, to be called inside `run`.

        Args:
            name: name of the function, for the message of `callback.function`.
            function: the coroutine function.
        """

        def run(*args: Any) -> T:
            result: T = self._await(awaited(name, function, *args))
            return result

        return run

    def effect(self, handler: Callable[[Any, Any], Awaitable[object]]) -> Callable[[Any, Any], object]:
        """Return a plain handler that awaits a coroutine function and passes it an awaitable connection."""
        handle = self.awaiting("a handler", handler)
        return lambda event, connection: handle(event, self._wrap(connection))


class AsyncInbox(Tasks):
    """Receives callbacks into a store on an engine for asyncio, or into SQLite, whose commits its tasks share.

    Args:
        receiver: the addresses and keys.
        store: an `InboxStore("postgresql+psycopg://host/name")` or `InboxStore(async_engine)`, whose handlers get an `AsyncConnection`;
            or `InboxStore("sqlite:///tpp.sqlite")`, whose handlers get SQLAlchemy's `Connection`.
        settings: retention, retries and others.

    Attributes:
        inbox: the synchronous inbox; pass its other methods to `run`.

    Raises:
        ConfigurationError: `extra.missing`.

    Example:
        inbox = AsyncInbox(receiver, InboxStore("postgresql+psycopg://host/name"))
        receipt = await inbox.handle(received, handler, at=utc_now())
        failures = await inbox.run(inbox.inbox.failed, limit=10)
    """

    def __init__(self, receiver: CallbackReceiver, store: InboxStore, *, settings: InboxSettings = DEFAULTS) -> None:
        super().__init__(store)
        self.receiver, self.inbox = receiver, Inbox(receiver, self.store, settings=settings)

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
        handle = self.awaiting("a handler", handler)
        return await self.run(self.inbox.handle_within, received, handle, at=at, within=partial(self._opened, within))

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored callbacks that are due; see `Inbox.work`."""
        return await self.run(self.inbox.work, self.effect(handler), at=at, limit=limit)

    @contextmanager
    def _opened(self, within: AsyncTransaction) -> Iterator[Any]:
        manager = manager_of(within, AbstractAsyncContextManager)
        with ExitStack() as stack:
            connection = self._await(manager.__aenter__())
            stack.push(lambda *error: self._await(manager.__aexit__(*error)))
            yield connection
