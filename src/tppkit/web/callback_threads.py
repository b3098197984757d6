"""Threads of a gate's own: what hangs in them takes none of the application's, and never more than their number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from tppkit.callbacks import ReceivedCallback
from tppkit.errors import ConfigurationError, TransportError

P = ParamSpec("P")
T = TypeVar("T")

_QUEUED = 4  # calls that wait, for each thread


class CallThreads:
    """Runs blocking calls, so many at a time.

    Args:
        size: how many threads, at least one; four times as many calls may wait, those that nobody awaits any more among them.

    Raises:
        ConfigurationError: `web.setting`.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ConfigurationError("web.setting", f"{size} threads handle no callback: give one at least")
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="tppkit-callbacks")
        self._free = threading.BoundedSemaphore(size + size * _QUEUED)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread. A call that is cancelled while it waits is not begun; one that has begun goes on.

        Raises:
            TransportError: `transport.busy`, too many calls are under way.
            RuntimeError: the interpreter ends.
        """
        if not self._free.acquire(blocking=False):
            raise TransportError("transport.busy", "as many callbacks are under way as may be; does a handler hang?")
        future = Future[T]()
        try:
            self._threads.submit(self._work, future, partial(copy_context().run, partial(function, *args, **kwargs)))
        except BaseException:
            self._free.release()
            raise
        return await asyncio.wrap_future(future)

    def _work(self, future: Future[T], call: Callable[[], T]) -> None:
        # The executor's own future would leave its queue uncounted when it is cancelled: this one's place is free when it is taken out.
        try:
            settle = _settlement(future, call)
        finally:
            self._free.release()
        settle()


def _settlement(future: Future[T], call: Callable[[], T]) -> Callable[[], None]:
    if not future.set_running_or_notify_cancel():
        return lambda: None
    try:
        return partial(future.set_result, call())
    except BaseException as e:  # noqa: BLE001  # raised where it is awaited
        return partial(future.set_exception, e)


class UnderWay:
    """Which requests are being handled, for the threads of one process."""

    def __init__(self) -> None:
        self._lock, self._keys = threading.Lock(), set[tuple[object, ...]]()

    @contextmanager
    def begun(self, received: ReceivedCallback) -> Iterator[bool]:
        """Whether the same request is not being handled already; as long as the context lasts, it is.

        Args:
            received: the request; its signature may be another when it is sent again.
        """
        ids = tuple([value for name, value in received.headers if name.lower() == "requestid"])
        key = (received.method, received.target, ids, received.body)
        with self._lock:
            new = key not in self._keys
            self._keys.add(key)
        try:
            yield new
        finally:
            if new:
                with self._lock:
                    self._keys.discard(key)
