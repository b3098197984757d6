"""One shape for the four clients: httpx and httpx2, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2

from tppkit.client import Identity, make_async_client, make_client

Step = Callable[[Any], Any]


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
        if not self.is_async:
            with make_client(identity, library=self.library, **options) as client:
                return [step(client) for step in steps]

        async def main() -> list[Any]:
            async with make_async_client(identity, library=self.library, **options) as client:
                results: list[Any] = []
                for step in steps:
                    result = step(client)
                    results.append(await result if inspect.isawaitable(result) else result)
                return results

        return asyncio.run(main())


HTTP_DRIVERS = {
    f"{library.__name__} {'async' if is_async else 'sync'}": HttpDriver(library, is_async)
    for library in (httpx, httpx2)
    for is_async in (False, True)
}
