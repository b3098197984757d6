"""One shape for clients of every kind: of either library, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2

from tppkit.client import Identity, make_async_client, make_client
from tppkit.errors import TppkitError

Ask = Callable[..., Any]
Step = Callable[[Any], Any]


def run_steps(client: Any, *steps: Step) -> list[Any]:
    """The results of steps with a client, awaited where they have to be, rows as a list; then the client is closed."""
    if not hasattr(client, "__aenter__"):
        with client:
            results = (step(client) for step in steps)
            return [list(result) if inspect.isgenerator(result) else result for result in results]

    async def main() -> list[Any]:
        async with client:
            return [await _settled(step(client)) for step in steps]

    return asyncio.run(main())


async def _settled(result: Any) -> Any:
    if inspect.isasyncgen(result):
        return [row async for row in result]
    return await result if inspect.isawaitable(result) else result


def caught(step: Step) -> Step:
    """A step whose error is its result."""

    def run(client: Any) -> Any:
        try:
            result = step(client)
        except TppkitError as e:
            return e
        return awaited(result) if inspect.isawaitable(result) else result

    async def awaited(result: Any) -> Any:
        try:
            return await result
        except TppkitError as e:
            return e

    return run


@dataclass(frozen=True)
class HttpDriver:
    """Runs steps with one client of a library.

    Attributes:
        library: `httpx` or `httpx2`.
        is_async: whether steps are awaited.
    """

    library: Any
    is_async: bool

    def run(self, identity: Identity, *steps: Step, **options: Any) -> list[Any]:
        make: Any = make_async_client if self.is_async else make_client
        return run_steps(make(identity, library=self.library, **options), *steps)


HTTP_DRIVERS = {
    f"{library.__name__} {'async' if is_async else 'sync'}": HttpDriver(library, is_async)
    for library in (httpx, httpx2)
    for is_async in (False, True)
}
