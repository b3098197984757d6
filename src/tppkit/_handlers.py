"""A check of what functions of the application return."""

from __future__ import annotations

import inspect

from tppkit.errors import ConfigurationError


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
