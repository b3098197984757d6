"""Answer, log and count rejected callbacks, for gates and for routes of the application."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tppkit._clock import Clock, utc_now
from tppkit._handlers import require_finished
from tppkit.callbacks import CallbackReceiver, CallbackRejected
from tppkit.callbacks.inbox import Count
from tppkit.errors import ConfigurationError, FormatError, TppkitError, TransportError, code_of
from tppkit.message import Message
from tppkit.web.callback_requests import CallbackPeers, read_target, require_head
from tppkit.web.sources import Answer, Source

LOG = logging.getLogger("tppkit.web")


def make_answer(status: int, body: bytes = b"") -> Answer:
    """Return an answer that caches must not store."""
    fixed = (("content-length", str(len(body))), ("cache-control", "no-store"))
    return Answer(status, (*fixed, ("content-type", "application/json")) if body else fixed, body)


ACKNOWLEDGED, _REJECTED, AGAIN = make_answer(200), make_answer(400), make_answer(503)
_BY_CODE = {
    "transport.timeout": make_answer(408),
    "transport.busy": AGAIN,
    "callback.peer": make_answer(403),
    "callback.too-large": make_answer(413),
    "message.too-large": make_answer(413),
    "message.no-length": make_answer(411),
}


@dataclass(frozen=True, slots=True)
class RefusedCallback:
    """A request that was not acknowledged. Do not show it to the sender.

    Attributes:
        error: the reason in full; the exception of the handler if that failed.
        status: the status of the answer.
        at: the time of the answer, aware UTC.
        peer: the address of the connection, or None.
        received: the request, for `explain_callback`; None if its body was not read.
    """

    error: Exception
    status: int
    at: datetime
    peer: str | None
    received: Message | None = field(default=None, repr=False)


OnRefusal = Callable[[RefusedCallback], object]


def log_refused_callback(refused: RefusedCallback) -> None:
    """Write a refusal to the logger `tppkit.web`: WARNING for faults of the sender, ERROR with the traceback for our own."""
    failed, error = refused.status >= 500, refused.error
    LOG.log(
        logging.ERROR if failed else logging.WARNING, "callback from %s: %d: %s",
        refused.peer, refused.status, error if isinstance(error, TppkitError) else f"{error} [{type(error).__name__}]",
        exc_info=error if failed else None,
    )  # fmt: skip


class BodyGate:
    """Checks a request before its body is read, and answers rejected requests.

    Args:
        max_body: longest body in bytes.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`; a plain function.
        count: see `CallbackGate`; a plain function.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`.
    """

    def __init__(
        self, max_body: int, *, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
        count: Count | None = None, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        self.max_body, self.now = max_body, now
        self._peers, self._on_refusal, self._count = peers, on_refusal, count
        require_run(awaited=False, on_refusal=on_refusal, count=count)

    def require_head(self, source: Source) -> None:
        """Check what is known before the body is read.

        Raises:
            CallbackRejected: `callback.peer`.
            FormatError: `message.no-length`, `message.too-large`, `message.malformed`.
        """
        require_head(source, max_bytes=self.max_body, peers=self._peers)

    def count(self, outcome: str, code: str = "") -> None:
        """Call `count`, and log an exception that it raises."""
        if self._count is not None:
            try:
                require_finished(self._count(outcome, code))
            except Exception:  # the application's own: logged, and the answer stays
                LOG.exception("count failed for %s %s", outcome, code)

    def refuse(
        self, error: Exception, source: Source, received: Message | None = None, *, again: bool = False
    ) -> Answer:
        """Call `on_refusal` for a request that is not acknowledged, and return the answer to it.

        Args:
            error: the reason. Errors of the store, of settings, and exceptions that are not TppkitErrors are answered with 503.
            source: the request as the server passes it.
            received: the request, if its body was read.
            again: always answer 503, because the request is not at fault.
        """
        answer = AGAIN
        if not again and isinstance(error, CallbackRejected | FormatError | TransportError):
            answer = _BY_CODE.get(error.code, _REJECTED)
        try:
            require_finished(
                self._on_refusal(RefusedCallback(error, answer.status, self.now(), source.address(), received))
            )
        except Exception:  # the application's own: logged, and the answer stays
            LOG.exception("on_refusal failed for a callback that was answered %d: %s", answer.status, error)
        self.count("failed" if answer is AGAIN else "refused", code_of(error))
        return answer


class RequestGate(BodyGate):
    """A `BodyGate` for the addresses of a receiver.

    Args:
        receiver: the addresses and keys.
        settings: the settings of `BodyGate`.
    """

    def __init__(self, receiver: CallbackReceiver, **settings: Any) -> None:
        super().__init__(receiver.max_body, **settings)
        self.receiver = receiver

    def find(self, source: Source) -> str | None:
        """The target of a request to one of the receiver's addresses; None for any other request."""
        target = read_target(source)
        return None if target is None or self.receiver.book.find(target) is None else target


def require_run(*, awaited: bool, **functions: object) -> None:
    """Reject a function whose call runs nothing and raises nothing: its callbacks would be acknowledged without their effect.

    Raises:
        ConfigurationError: `callback.function`.
    """
    wrong: list[Callable[[Any], bool]] = [inspect.isgeneratorfunction, inspect.isasyncgenfunction]
    if not awaited:
        wrong.append(inspect.iscoroutinefunction)
    for name, function in functions.items():
        # A callable object is of the kind of its __call__.
        if any(is_wrong(one) for is_wrong in wrong for one in (function, getattr(function, "__call__", None))):  # noqa: B004
            raise ConfigurationError(
                "callback.function",
                f"{name} is a generator, or a coroutine function that is not awaited: use AsyncCallbackGate for coroutine functions",
            )
