"""Carries out programs: generators that yield steps and receive what came of them, and so do no I/O themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from tppkit.errors import TppkitError

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
