"""An event loop in a thread: a start that fails, and a server that does not stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tppkit.errors import TransportError
from tppkit.sandbox.thread import in_thread


def test_a_server_that_returns_before_it_is_ready_is_an_error():
    async def serve(on_ready: Callable[[], None]) -> None: ...

    with pytest.raises(TransportError, match="before it was ready"), in_thread(serve, stop=lambda: None):
        pass


def test_a_server_that_does_not_stop_is_an_error(monkeypatch):
    monkeypatch.setattr("tppkit.sandbox.thread._STOP_TIMEOUT_S", 0.01)

    async def serve(on_ready: Callable[[], None]) -> None:
        on_ready()
        await asyncio.sleep(0.5)

    with pytest.raises(TransportError, match="not stopped"), in_thread(serve, stop=lambda: None):
        pass
