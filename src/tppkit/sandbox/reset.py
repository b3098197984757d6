"""`POST /reset`: a running sandbox goes back to its start, while no request is being answered.

async with gate:                             # around everything that reads and writes the bank
    ...
async with gate.closed(wait_s=10):           # nobody is inside
    ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tppkit.errors import TransportError
from tppkit.sandbox.control import Control

_MAX_BODY_BYTES = 64 * 1024


class Gate:
    """Lets any number of tasks pass together, or holds them back while one has the bank for itself. For one event loop.

    Attributes:
        resets: how often the bank was put back to its start.

    Example:
        async with gate:
            await database.write(job)
    """

    def __init__(self) -> None:
        self._inside = 0
        self._is_open, self._is_empty = asyncio.Event(), asyncio.Event()
        self._is_open.set()
        self._is_empty.set()
        self._closing = asyncio.Lock()
        self.resets = 0

    async def __aenter__(self) -> Self:
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._inside += 1
        self._is_empty.clear()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._is_empty.set()

    @asynccontextmanager
    async def closed(self, *, wait_s: float) -> AsyncIterator[None]:
        """Wait until nobody is inside, and let nobody in while the body runs.

        Raises:
            TransportError: `sandbox.busy`, somebody is still inside after this time; then nothing was held back for longer.
        """
        async with self._closing:
            self._is_open.clear()
            try:
                await self._wait(wait_s)
                yield
            finally:
                self._is_open.set()

    async def _wait(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._is_empty.wait()
        except TimeoutError as e:
            message = "requests are still being answered, so nothing was reset: try again in a moment"
            raise TransportError("sandbox.busy", message) from e

    def hold(self, control: Control) -> Control:
        """Return the route with each of its calls inside, after the body was read."""

        async def answer(parameters: Mapping[str, str], body: Any) -> Any:
            running: Any = control.answer(parameters, body)  # a coroutine, which has not begun
            del parameters, body  # a card number, which no report of an error may show
            try:
                async with self:
                    return await running
            finally:
                running.close()

        return control._replace(answer=answer)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the application with each of its requests inside, after the body was read, and before the answer is sent.

        So a slow client holds nobody back. For applications that read bodies of up to 64 KiB, and whose answers fit into memory.
        """

        async def inside(scope: Scope, receive: Receive, send: Send) -> None:
            arrived, size, answer = list[Message](), 0, list[Message]()
            while (
                scope["type"] == "http" and size <= _MAX_BODY_BYTES
            ):  # of a longer body, the application reads the rest
                arrived.append(await receive())
                size += len(arrived[-1].get("body", b""))
                if not arrived[-1].get("more_body", False):
                    break
            arrived.reverse()

            async def next_event() -> Message:
                return arrived.pop() if arrived else await receive()

            async def keep(event: Message) -> None:
                answer.append(event)

            async with self:
                await app(scope, next_event, keep)
            for event in answer:
                await send(event)

        return inside
