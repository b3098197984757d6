"""Run a server in its own event loop and thread while a block of the caller runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from tppkit.errors import TransportError

_STOP_TIMEOUT_S = 10.0


@contextmanager
def in_thread(
    serve: Callable[[Callable[[], None]], Coroutine[Any, Any, None]], *, stop: Callable[[], object]
) -> Iterator[None]:
    """Serve while the body runs; raises errors that occur before the server is ready.

    Args:
        serve: called with a function that it must call when the server is ready.
        stop: asks `serve` to return; called from this thread.

    Raises:
        TransportError: `transport.failed`, `serve` returned before it was ready; `transport.timeout`, it did not return in time.
    """
    ready: Future[None] = Future()

    def main() -> None:
        try:
            asyncio.run(serve(lambda: ready.set_result(None)))
            if not ready.done():
                raise TransportError("transport.failed", "the sandbox ended before it was ready")
        except BaseException as e:
            if ready.done():
                raise
            ready.set_exception(e)

    thread = threading.Thread(target=main, name="tppkit-sandbox", daemon=True)
    thread.start()
    ready.result()
    try:
        yield
    finally:
        stop()
        thread.join(_STOP_TIMEOUT_S)
        if thread.is_alive():
            raise TransportError("transport.timeout", f"the sandbox has not stopped after {_STOP_TIMEOUT_S:g} seconds")
