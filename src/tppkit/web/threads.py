"""Run blocking calls beside an event loop."""

from __future__ import annotations

import threading
from asyncio import CancelledError, wrap_future
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from tppkit.errors import TransportError

T = TypeVar("T")

THREADS = 64


class DaemonThreads:
    """Runs each call in a daemon thread: `asyncio.to_thread` has few threads, and the process would wait for them at its end.

    Args:
        limit: how many calls at a time.

    Example:
        threads = DaemonThreads(64)
        answer = await threads.run(partial(gate.receive, received, source))
    """

    def __init__(self, limit: int) -> None:
        self._free = threading.Semaphore(limit)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in the current context. If the task is cancelled, the call continues.

        Raises:
            TransportError: `transport.busy`, the limit is reached.
            RuntimeError: the system cannot start a thread.
        """
        if not self._free.acquire(blocking=False):
            raise TransportError("transport.busy", "the maximum number of calls is in progress; does one of them hang?")
        answer = Future[T]()
        answer.set_running_or_notify_cancel()  # the call continues if its task is cancelled
        context = copy_context()

        def work() -> None:
            try:
                resolve = partial(answer.set_result, context.run(call))
            except (StopIteration, CancelledError) as e:  # a future cannot pass them on
                error = RuntimeError(f"a call in a thread raised {type(e).__name__}")
                error.__cause__ = e
                resolve = partial(answer.set_exception, error)
            except BaseException as e:  # noqa: BLE001  # raised where it is awaited
                resolve = partial(answer.set_exception, e)
            finally:
                self._free.release()
            resolve()

        try:
            threading.Thread(target=work, name="tppkit-web", daemon=True).start()
        except RuntimeError:
            self._free.release()
            raise
        return await wrap_future(answer)
