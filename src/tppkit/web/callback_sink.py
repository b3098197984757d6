"""The application's function that gets refused callbacks: called at once, or aside, where nothing may wait for it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import NamedTuple

from tppkit.web.callback_functions import OwnFunctions, require_function
from tppkit.web.callback_refusing import OnRefusal, RefusedCallback

_LOG = logging.getLogger("tppkit.web")
_WAITING = 256  # refusals that wait behind the one that is told, each with a body of 64 KiB at most
END_S = 1.0  # how long the end of a server or process waits
_LAST_S = 0.2  # and then for what is being told, after which no more is


class _Call(NamedTuple):
    """What is told aside: the refusals of one call."""

    tell: Callable[[], None]
    number: int


class RefusalSink:
    """Tells the application's function of refusals; what it raises is logged and changes no answer.

    Args:
        on_refusal: the function.

    Raises:
        ConfigurationError: `callback.function`.
    """

    def __init__(self, on_refusal: OnRefusal) -> None:
        require_function("on_refusal", on_refusal, awaited=False)
        self._on_refusal = on_refusal
        self._begin()
        _SINKS.add(weakref.ref(self, _SINKS.discard))

    def _begin(self) -> None:
        """Nothing waits; also in a child, which has none of its parent's threads: what waited there is told there."""
        self._changed = threading.Condition()
        self._waiting = deque[_Call]()  # the first is being told, in a thread that ends when none is left
        self._untold, self._full = 0, False
        self._given_up = 0  # 1: the first is told for so long that nobody waits for it any more

    def tell(self, refused: RefusedCallback) -> None:
        """Tell of a refusal; returns when the function does."""
        try:
            OwnFunctions().call(self._on_refusal, refused)
        except Exception:  # noqa: BLE001  # the application's own function
            _LOG.exception("the sink of refused callbacks failed")

    def tell_aside(self, refused: RefusedCallback) -> None:
        """Tell of a refusal in a thread of the sink's own, one after another.

        When too many wait, that is logged once, and further ones are only counted; their number is logged when there is room again.
        What waits at the end of the process is told within a second, see `end`.

        Raises:
            RuntimeError: no thread can be started, or the interpreter ends.
        """
        with self._changed:
            if len(self._waiting) > _WAITING:
                self._untold += 1
                if not self._full:
                    self._full = True
                    # Aside too: what the sink hangs in may be a log.
                    _begin_thread(lambda: _LOG.error("refused callbacks are not told: %d wait for the sink", _WAITING))
                return
            if not self._waiting:
                _begin_thread(self._work)  # it waits for the lock
            self._tell_later_of_untold()
            self._waiting.append(_Call(partial(copy_context().run, self._tell, refused), 1))

    def _tell_later_of_untold(self) -> None:
        if self._untold:
            self._waiting.append(_Call(partial(_tell_untold, self._untold), self._untold))
            self._untold = 0

    def wait(self, timeout_s: float) -> int:
        """Wait until all that is told aside is told.

        Args:
            timeout_s: for how long.

        Returns:
            How many refusals are not told yet.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) <= self._given_up, timeout_s)
            return sum([call.number for call in islice(self._waiting, self._given_up, None)]) + self._untold

    def end(self, timeout_s: float = END_S) -> None:
        """Wait until all is told; what is left then is not told, and its number logged.

        Args:
            timeout_s: for how long; a little longer for what is being told then, and for the log, which may be what the sink hangs in.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) <= self._given_up, timeout_s)
            untold, self._untold = self._untold, 0
            while len(self._waiting) > 1:
                untold += self._waiting.pop().number
            # A daemon that is in the middle of a write when the interpreter ends can abort the process.
            self._changed.wait_for(lambda: len(self._waiting) <= self._given_up, _LAST_S)
            untold += sum([call.number for call in islice(self._waiting, self._given_up, None)])
            self._given_up = len(self._waiting)
        if untold:
            with suppress(RuntimeError):  # the interpreter ends, and begins no thread any more
                _begin_thread(lambda: _tell_ended(untold)).join(_LAST_S)
                return
            _tell_ended(untold)

    def _work(self) -> None:
        with self._changed:
            call: _Call | None = self._waiting[0]
        while call is not None:
            with suppress(BaseException):  # of a log that fails to tell of a failure: who waits is told all the same
                call.tell()
            call = self._next()

    def _next(self) -> _Call | None:
        with self._changed:
            if not self._waiting:  # the function forked, and this is the child
                return None
            self._waiting.popleft()
            self._given_up = 0
            if not self._waiting:
                self._tell_later_of_untold()
            if self._waiting:
                return self._waiting[0]
            self._full = False
            self._changed.notify_all()
            return None

    def _tell(self, refused: RefusedCallback) -> None:
        try:
            OwnFunctions().call(self._on_refusal, refused)
        except BaseException:  # noqa: BLE001  # a SystemExit would end the thread for those that wait
            _LOG.exception("the sink of refused callbacks failed")


def _tell_untold(number: int) -> None:
    _LOG.error("%d refused callbacks were not told: the sink takes too long", number)


def _tell_ended(number: int) -> None:
    _LOG.error("%d refused callbacks were not told: the server ends", number)


def _begin_thread(work: Callable[[], None]) -> threading.Thread:
    """The interpreter's end waits for no daemon, whatever it hangs in."""
    thread = threading.Thread(target=work, name="tppkit-refusals", daemon=True)
    thread.start()
    return thread


# One hook for all sinks, none of which it keeps alive. It takes no lock, which a child could inherit taken: a copy is made in one step.
_SINKS = set[weakref.ref[RefusalSink]]()


def _begin_in_child() -> None:
    for one in _SINKS.copy():
        sink = one()
        if sink is not None:
            sink._begin()


def _end() -> None:
    deadline = time.monotonic() + END_S
    for one in _SINKS.copy():
        sink = one()
        if sink is not None:
            sink.end(max(0.0, deadline - time.monotonic()))


os.register_at_fork(after_in_child=_begin_in_child)
atexit.register(_end)
