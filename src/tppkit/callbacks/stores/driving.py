"""Carries out programs: generators that yield steps and receive what came of them, and so do no I/O themselves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tppkit.callbacks.stores.entry import Entry
from tppkit.callbacks.stores.store import AsyncEffect, Effect
from tppkit.errors import ConfigurationError, InboxError, TppkitError

S = TypeVar("S")
T = TypeVar("T")


class EffectFailed(Exception):
    """A handler raised; kept apart from what the store itself raises.

    Attributes:
        error: what the handler raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

    @property
    def reason(self) -> str:
        """The error's kind and stable code: messages may hold what a store must not keep."""
        name = type(self.error).__qualname__[:100]
        return f"{name} [{self.error.code}]" if isinstance(self.error, TppkitError) else name


class TransactionEnded(EffectFailed):
    """A handler ended the transaction that it was called in: nothing can be undone or written there any more.

    Attributes:
        entry: whose handler it was.
    """

    def __init__(self, error: Exception, entry: Entry) -> None:
        super().__init__(error)
        self.entry = entry


class Called(Generic[T]):
    """An effect that knows whether it was called.

    Args:
        effect: what is called.

    Attributes:
        was_called: whether it was.
    """

    def __init__(self, effect: Callable[[Entry, Any], T]) -> None:
        self._effect, self.was_called = effect, False

    def __call__(self, entry: Entry, connection: Any) -> T:
        """Call it."""
        self.was_called = True
        return self._effect(entry, connection)


def is_of_several(error: Exception) -> bool:
    """Whether a store failed by a commit that operations of several threads shared: nobody knows by whose."""
    return isinstance(error, InboxError) and isinstance(error.__cause__, InboxError)


def cause_and_state(error: InboxError) -> tuple[BaseException | None, str]:
    """The driver's error that a store failed by, and its SQLSTATE, empty where it has none."""
    cause = getattr(error.__cause__, "orig", error.__cause__)  # SQLAlchemy wraps the driver's
    return cause, getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""


def drive(program: Generator[S, Any, T], perform: Callable[[S], object]) -> T:
    """Carry a program out; what fails is thrown into it."""
    result: object = None
    error: BaseException | None = None
    while True:
        try:
            step = program.throw(error) if error else program.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        result = error = None
        try:
            result = perform(step)
        except BaseException as e:  # noqa: BLE001  # thrown on in the next turn
            error = e


async def drive_async(program: Generator[S, Any, T], perform: Callable[[S], Awaitable[object]]) -> T:
    """The same where every step is awaited."""
    result: object = None
    error: BaseException | None = None
    while True:
        try:
            step = program.throw(error) if error else program.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        result = error = None
        try:
            result = await perform(step)
        except BaseException as e:  # noqa: BLE001  # thrown on in the next turn
            error = e


def have_effect(effect: Effect, entry: Entry, connection: Any) -> None:
    """Call an effect that is over when it returns.

    Raises:
        ConfigurationError: `callback.function`, it gave what would have to be awaited or iterated, so nothing of it was run.
    """
    require_over(effect(entry, connection))


async def have_effect_async(effect: AsyncEffect, entry: Entry, connection: Any) -> None:
    """Call an effect and await it.

    Raises:
        ConfigurationError: `callback.function`, it gave nothing to be awaited, or ended as cancelled by itself.
    """
    with own_cancellation("a handler", asyncio.current_task()):
        result = effect(entry, connection)
        if not inspect.isawaitable(result):
            raise ConfigurationError(
                "callback.function", "a handler gave nothing to be awaited: AsyncInbox takes coroutine functions"
            )
        require_over(await result)


@contextmanager
def own_cancellation(name: str, task: asyncio.Task[Any] | None) -> Iterator[None]:
    """Take a function's own CancelledError for its failure: it is no Exception, so it would end whoever awaits the function.

    Args:
        name: of the function.
        task: in which it runs; None: in none.

    Raises:
        ConfigurationError: `callback.function`, it ended as cancelled though nobody cancels the task.
    """
    try:
        yield
    except asyncio.CancelledError as e:
        if task is not None and task.cancelling():
            raise
        raise ConfigurationError(
            "callback.function", f"{name} ended as cancelled: was a task cancelled that it awaits?"
        ) from e


def require_over(result: object) -> None:
    """Refuse what a function gave where nobody would run it any more.

    Raises:
        ConfigurationError: `callback.function`.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # it was never started, and is told of here
        raise ConfigurationError(
            "callback.function",
            f"a function gave a {type(result).__name__}, which nobody would run: a coroutine function belongs to AsyncInbox",
        )
