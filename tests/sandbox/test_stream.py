"""A report that is sent row by row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tppkit.sandbox.stream import Stream


@pytest.mark.parametrize("client_leaves", [True, False])
def test_no_row_is_read_for_a_client_that_has_left(client_leaves):
    read, sent, closed = list[int](), list[Any](), asyncio.Event()

    async def rows() -> AsyncGenerator[bytes, None]:
        try:
            for number in range(100):
                read.append(number)
                yield b"row"
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def receive() -> Any:
        while not client_leaves or len(sent) < 3:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        sent.append(event)

    async def run() -> None:
        await (await Stream.open(rows(), deadline_s=10)).send(receive, send)

    asyncio.run(run())
    assert closed.is_set()
    assert sent[-1]["more_body"] is client_leaves
    assert (len(read) < 10) is client_leaves
