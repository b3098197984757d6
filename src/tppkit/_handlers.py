"""Functions of the application: their types, and checks of what they return and raise."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tppkit.errors import ConfigurationError
from tppkit.metrics import Count

Result = TypeVar("Result")


def call_count(count: Count | None, log: logging.Logger, outcome: str, code: str, seconds: float) -> None:
    """Call `count`, and log an exception that it raises.

    Args:
        count: the function of the application, or None.
        log: the logger.
        outcome: see `Count`.
        code: see `Count`.
        seconds: see `Count`.
    """
    if count is None:
        return
    try:
        require_finished(count(outcome, code, seconds))
    except (Exception, asyncio.CancelledError):  # the application's own: what was counted stays as it is
        log.exception("count failed for %s %s", outcome, code)


def require_run(*, awaited: bool, **functions: object) -> None:
    """Reject a function whose call runs nothing and raises nothing, so that its effect would be missing.

    Raises:
        ConfigurationError: `callback.function`.
    """
    wrong: list[Callable[[Any], bool]] = [inspect.isgeneratorfunction, inspect.isasyncgenfunction]
    if not awaited:
        wrong.append(inspect.iscoroutinefunction)
    for name, function in functions.items():
        # A callable object is of the kind of its __call__.
        if any(is_wrong(one) for is_wrong in wrong for one in (function, getattr(function, "__call__", None))):  # noqa: B004
            advice = "" if name == "count" else ": use AsyncCallbackGate for coroutine functions"
            raise ConfigurationError(
                "callback.function", f"{name} is a generator, or a coroutine function that is not awaited{advice}"
            )


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
