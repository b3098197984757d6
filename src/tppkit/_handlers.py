"""Functions of the application: their types, and checks of what they return and raise."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tppkit.errors import ConfigurationError

Result = TypeVar("Result")
Count = Callable[[str, str], object]  # called with an outcome and a code, for metrics


def require_finished(result: object) -> None:
    """Reject a result of a handler that must be awaited or iterated, because the caller does neither.

    Raises:
        ConfigurationError: `callback.function`.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # it was never started
        raise ConfigurationError(
            "callback.function",
            f"a function returned a {type(result).__name__}, which nothing awaits or iterates, so it would never run",
        )


@contextmanager
def own_cancellation(name: str) -> Iterator[None]:
    """Convert a CancelledError into an error of the function, unless the current task is being cancelled.

    CancelledError is not an Exception, so it would otherwise end the caller too.

    Args:
        name: name of the function, for the message.

    Raises:
        ConfigurationError: `callback.function`, the function was cancelled although the task is not being cancelled.
    """
    try:
        yield
    except asyncio.CancelledError as e:
        with suppress(RuntimeError):  # this thread has no event loop
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
        raise ConfigurationError(
            "callback.function", f"{name} ended as cancelled: was a task cancelled that it awaits?"
        ) from e


async def awaited(name: str, function: Callable[..., Awaitable[Result]], *args: Any) -> Result:
    """Call a coroutine function, and return its awaited result.

    Args:
        name: name of the function, for the message.
        function: the coroutine function.
        args: its arguments.

    Raises:
        ConfigurationError: `callback.function`, its result cannot be awaited; see `own_cancellation`.
    """
    with own_cancellation(name):
        result = function(*args)
        if not inspect.isawaitable(result):
            raise ConfigurationError(
                "callback.function", f"{name} did not return an awaitable: use a coroutine function"
            )
        return await result
