"""Functions of the application: a result that is still to be awaited or iterated is no effect."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tppkit.errors import ConfigurationError


@contextmanager
def own_cancellation(name: str, task: asyncio.Task[Any] | None) -> Iterator[None]:
    """Treat a CancelledError that a function raises by itself as its failure: it is no Exception, so it would end the caller too.

    Args:
        name: of the function.
        task: runs the function; None: no task.

    Raises:
        ConfigurationError: `callback.function`, the function ended as cancelled although the task is not being cancelled.
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
    """Reject the result of a function if it would have to be awaited or iterated, which nothing does.

    Raises:
        ConfigurationError: `callback.function`.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()  # it was never started
        raise ConfigurationError(
            "callback.function",
            f"a function returned a {type(result).__name__}, which would never run: a coroutine function belongs to AsyncInbox",
        )
