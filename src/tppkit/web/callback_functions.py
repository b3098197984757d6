"""The application's functions behind a gate: called or awaited, and never left undone.

A coroutine function that is called without being awaited does nothing and raises nothing; its callback would be acknowledged.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tppkit.callbacks.stores.driving import own_cancellation, require_over
from tppkit.errors import ConfigurationError

T = TypeVar("T")

_NOT_RUN = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def require_function(name: str, function: object, *, awaited: bool) -> None:
    """Refuse what cannot be called, or would not run: a generator, or a coroutine function where nothing awaits it.

    Args:
        name: of the setting.
        function: the setting.
        awaited: the gate awaits what the function gives.

    Raises:
        ConfigurationError: `callback.function`.
    """
    if not callable(function):
        raise ConfigurationError("callback.function", f"{name} is a {type(function).__name__} and no function")
    if would_not_run(function, awaited=awaited):
        raise ConfigurationError(
            "callback.function",
            f"{name} is a coroutine or generator function, which nobody would run: a coroutine function belongs to AsyncCallbackGate",
        )


def require_functions(*, awaited: bool, **functions: object) -> None:
    """`require_function` for each setting that is given.

    Args:
        awaited: the gate awaits what they give.
        functions: settings by name; None: not given.

    Raises:
        ConfigurationError: `callback.function`.
    """
    for name, function in functions.items():
        if function is not None:
            require_function(name, function, awaited=awaited)


def require_kind(name: str, value: object, *kinds: type) -> None:
    """Refuse a setting of another kind.

    Args:
        name: of the setting.
        value: the setting.
        kinds: what it may be.

    Raises:
        ConfigurationError: `web.setting`.
    """
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigurationError("web.setting", f"{name} is a {type(value).__name__} and no {wanted}")


def would_not_run(function: Callable[..., object] | None, *, awaited: bool) -> bool:
    """Whether a function is a generator, or a coroutine function where nothing awaits it.

    Args:
        function: a setting, or None.
        awaited: what it gives is awaited.
    """
    wrong = _NOT_RUN if awaited else (*_NOT_RUN, inspect.iscoroutinefunction)
    # An object that can be called is what its __call__ is.
    return any(is_wrong(one) for is_wrong in wrong for one in (function, getattr(function, "__call__", None)))  # noqa: B004


class OwnFunctions:
    """Calls the application's functions, and remembers what they raised.

    Attributes:
        error: what was raised last.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None

    def call(self, function: Callable[..., T], *given: object) -> T:
        """Call one.

        Raises:
            ConfigurationError: `callback.function`, it gave something to be awaited or iterated, or ended as cancelled.
        """
        with self._remembering(function):
            result = function(*given)
            require_over(result)
        return result

    async def await_one(self, function: Callable[..., Any], *given: object, optional: bool = False) -> Any:
        """Call one, and await what it gives.

        Args:
            function: the application's.
            given: its arguments.
            optional: it may also give its result at once.

        Raises:
            ConfigurationError: `callback.function`, it gave something to be iterated, or nothing to be awaited, or ended as
                cancelled though nobody cancels the request.
        """
        with self._remembering(function, task=asyncio.current_task()):
            result = function(*given)
            if inspect.isawaitable(result):
                result = await result
            elif not optional:
                raise ConfigurationError(
                    "callback.function",
                    f"{_name_of(function)} gave nothing to be awaited: give AsyncCallbackGate a coroutine function",
                )
            require_over(result)
        return result

    @contextmanager
    def _remembering(self, function: object, *, task: asyncio.Task[Any] | None = None) -> Iterator[None]:
        try:
            with own_cancellation(_name_of(function), task):
                yield
        except Exception as e:
            self.error = e
            raise


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
