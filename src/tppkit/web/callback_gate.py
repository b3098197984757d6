"""Receive callbacks and answer them, for ASGI and WSGI alike: which senders are accepted, what is stored, and the status of the answer.

gate = CallbackGate(Inbox(receiver, store), handler=handle)
answer = gate.receive(received, source)

A status has one of three meanings, and no reason is sent. 200: the callback is stored or handled. 400, 403, 408, 411 and 413: it is
rejected, and its repetition will be too. 503: it was not received, and should be sent again. What the service makes of them is not
documented (assumption callback-answers).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tppkit._clock import Clock, utc_now
from tppkit._encoding import shown
from tppkit.callbacks import (
    AsyncInbox,
    CallbackKind,
    Inbox,
    Outcome,
    Receipt,
    ReceivedCallback,
    VerifiedCallback,
)
from tppkit.callbacks.handlers import own_cancellation, require_over
from tppkit.callbacks.inbox import Handler, Transaction
from tppkit.callbacks.inbox_async import AsyncHandler, AsyncTransaction
from tppkit.errors import CallbackRejected, ConfigurationError, FormatError, TppkitError, TransportError
from tppkit.protocol.legacy import LoginRequest
from tppkit.web.callback_requests import CallbackPeers, read_target, require_length
from tppkit.web.sources import Answer, Source

_LOG = logging.getLogger("tppkit.web")
Keep = Callable[[Receipt], object]
Login = Callable[[VerifiedCallback], LoginRequest]
AsyncLogin = Callable[[VerifiedCallback], LoginRequest | Awaitable[LoginRequest]]


def _answer(status: int, body: bytes = b"") -> Answer:
    fixed = (("content-length", str(len(body))), ("cache-control", "no-store"))
    return Answer(status, (*fixed, ("content-type", "application/json")) if body else fixed, body)


_ACKNOWLEDGED, _REJECTED, _AGAIN = _answer(200), _answer(400), _answer(503)
_BY_CODE = {
    "transport.timeout": _answer(408),
    "transport.busy": _AGAIN,
    "callback.peer": _answer(403),
    "callback.too-large": _answer(413),
    "message.too-large": _answer(413),
    "message.no-length": _answer(411),
}


@dataclass(frozen=True, slots=True)
class RefusedCallback:
    """A request that was not acknowledged, for the log and never for the sender.

    Attributes:
        error: the whole reason; the exception of the handler if that failed.
        status: the status of the answer.
        at: the time of the answer, aware UTC.
        peer: the address of the connection, or None.
        received: the request, for `explain_callback`; None if its body was not read.
    """

    error: Exception
    status: int
    at: datetime
    peer: str | None
    received: ReceivedCallback | None = field(default=None, repr=False)


OnRefusal = Callable[[RefusedCallback], object]


def log_refused_callback(refused: RefusedCallback) -> None:
    """Write a refusal to the logger `tppkit.web`: WARNING for faults of the sender, ERROR with the traceback for our own."""
    failed, error = refused.status >= 500, refused.error
    _LOG.log(
        logging.ERROR if failed else logging.WARNING, "callback from %s: %d: %s",
        refused.peer, refused.status, error if isinstance(error, TppkitError) else f"{error} [{type(error).__name__}]",
        exc_info=error if failed else None,
    )  # fmt: skip


class _Gate:
    """What both gates do before and after the inbox."""

    def __init__(
        self, inbox: Inbox | AsyncInbox, *, login: object, peers: CallbackPeers | None, on_refusal: OnRefusal, now: Clock
    ) -> None:  # fmt: skip
        self.receiver, self.now = inbox.receiver, now
        self._answers_login, self._peers, self._on_refusal = login is not None, peers, on_refusal
        scanned = [address.url for address in self.receiver.book.addresses if address.kind is CallbackKind.LOGIN]
        if scanned and login is None:
            raise ConfigurationError(
                "callback.no-login",
                f"login GETs come to {shown(scanned[0])}, and the gate has no login= to answer them",
            )

    def find(self, source: Source) -> str | None:
        """The target of a request to one of the receiver's addresses; None for any other request."""
        target = read_target(source)
        return None if target is None or self.receiver.book.find(target) is None else target

    def require_head(self, source: Source) -> None:
        """Check what is known before the body is read.

        Raises:
            CallbackRejected: `callback.peer`.
            FormatError: `message.no-length`, `message.too-large`, `message.malformed`.
        """
        if self._peers is not None:
            self._peers.require(source)
        require_length(source, max_bytes=self.receiver.max_body)

    def check(self, receipt: Receipt) -> None:
        """Log a callback that is acknowledged although it has a fault (assumption same-version).

        Raises:
            CallbackRejected: `callback.method`, a login GET came to an address of kind `other`, and the gate has no `login`.
        """
        if receipt.outcome is Outcome.LOGIN and not self._answers_login:
            raise CallbackRejected("callback.method", "a login GET came to a gate without login=")
        if receipt.outcome is Outcome.VERSION_CONFLICT:
            _LOG.warning(
                "callback %s: its record came before with the same ver and other content, so it is acknowledged and not"
                " applied [%s]",
                receipt.callback.request_id, "callback.version-conflict",
            )  # fmt: skip
        elif receipt.outcome is Outcome.UNREADABLE:
            _LOG.warning(
                "callback %s: acknowledged, and kept as failed until it is released or discarded: %s",
                receipt.callback.request_id, receipt.fault,
            )  # fmt: skip

    def refuse(
        self, error: Exception, source: Source, received: ReceivedCallback | None = None, *, again: bool = False
    ) -> Answer:
        """Call `on_refusal` for a request that is not acknowledged, and return the answer to it.

        Args:
            error: the reason. Errors of the store, of settings and of no class of ours are answered 503.
            source: the request as the server hands it over.
            received: the request, if its body was read.
            again: answer 503 whatever the error is, because the request is not at fault.
        """
        answer = _AGAIN
        if not again and isinstance(error, CallbackRejected | FormatError | TransportError):
            answer = _BY_CODE.get(error.code, _REJECTED)
        try:
            require_over(
                self._on_refusal(RefusedCallback(error, answer.status, self.now(), source.address(), received))
            )
        except Exception:  # noqa: BLE001  # the application's own: logged, and the answer stays
            _LOG.exception("on_refusal failed for a callback that was answered %d: %s", answer.status, error)
        return answer


class CallbackGate(_Gate):
    """Receives callbacks into an inbox and answers them.

    Args:
        inbox: stores the callbacks.
        handler: called once for each event before the answer, in the store's transaction (`Inbox.handle`). Without it, callbacks are
            stored for `Inbox.work` (`Inbox.accept`).
        within: opens a transaction of the application, returns its connection and commits at its end. The handler then runs in
            that transaction (`Inbox.handle_within`).
        login: builds the answer to a login GET. It is called for repetitions too, so it must have no effect of its own. Login GETs
            are not stored and reach no handler. Required if the receiver has a LOGIN address.
        keep: called with the receipt of each callback before it is acknowledged, to keep it as evidence. It is called for repetitions
            too, because the process may have died the first time. If it raises, the callback is not acknowledged.
        peers: the networks from which callbacks are accepted; without it, all.
        on_refusal: called with each refusal, in place of the default that logs it. What it raises is logged and changes no answer.
            Under ASGI it may be called on the event loop, so it must not block: use `logging.handlers.QueueHandler` for slow logs, and
            call `explain_callback` elsewhere.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`, a function would not run because it is a coroutine function or a generator;
            `callback.no-login`.

    Example:
        app = CallbackMiddleware(app, gate=CallbackGate(Inbox(receiver, store), handler=handle))
    """

    def __init__(
        self, inbox: Inbox, *, handler: Handler | None = None, within: Transaction | None = None, login: Login | None = None,
        keep: Keep | None = None, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
        now: Clock = utc_now,
    ) -> None:  # fmt: skip
        super().__init__(inbox, login=login, peers=peers, on_refusal=on_refusal, now=now)
        _require_run(awaited=False, handler=handler, login=login, keep=keep, on_refusal=on_refusal)
        self._inbox, self._handler, self._within, self._login, self._keep = inbox, handler, within, login, keep

    def receive(self, received: ReceivedCallback, source: Source) -> Answer:
        """Receive a request to one of the addresses, and return the answer.

        Args:
            received: the request, exactly as it came.
            source: the request as the server hands it over.
        """
        raised: list[Exception] = []
        try:
            receipt = self._take(received, raised)
            self.check(receipt)
            if not receipt.acknowledged:
                return _AGAIN
            with _application(raised):
                if self._keep is not None:
                    require_over(self._keep(receipt))
                if receipt.outcome is Outcome.LOGIN and self._login is not None:
                    return _answer(200, self._login(receipt.callback).to_wire())
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 503 without details
            return self.refuse(e, source, received, again=e in raised)
        return _ACKNOWLEDGED

    def _take(self, received: ReceivedCallback, raised: list[Exception]) -> Receipt:
        handler = self._handler
        if handler is None:
            return self._inbox.accept(received, at=self.now())

        def effect(callback: VerifiedCallback, connection: Any) -> object:
            with _application(raised):
                return handler(callback, connection)

        if self._within is None:
            return self._inbox.handle(received, effect, at=self.now())
        return self._inbox.handle_within(received, effect, at=self.now(), within=self._within)


class AsyncCallbackGate(_Gate):
    """Receives callbacks into an `AsyncInbox`: the handler is a coroutine function; `login` and `keep` may be.

    Args:
        inbox: stores the callbacks.
        handler: see `CallbackGate`.
        within: see `CallbackGate`; an asynchronous context manager.
        login: see `CallbackGate`.
        keep: see `CallbackGate`.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`; a plain function, always called on the event loop.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`, a function would not run because it is a generator, or `on_refusal` because it is a
            coroutine function; `callback.no-login`.

    Example:
        app = CallbackMiddleware(app, gate=AsyncCallbackGate(AsyncInbox(receiver, store), handler=handle))
    """

    def __init__(
        self, inbox: AsyncInbox, *, handler: AsyncHandler | None = None, within: AsyncTransaction | None = None,
        login: AsyncLogin | None = None, keep: Keep | None = None, peers: CallbackPeers | None = None,
        on_refusal: OnRefusal = log_refused_callback, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        super().__init__(inbox, login=login, peers=peers, on_refusal=on_refusal, now=now)
        _require_run(awaited=True, handler=handler, login=login, keep=keep)
        _require_run(awaited=False, on_refusal=on_refusal)
        self._inbox, self._handler, self._within, self._login, self._keep = inbox, handler, within, login, keep

    async def receive(self, received: ReceivedCallback, source: Source) -> Answer:
        """See `CallbackGate.receive`."""
        raised: list[Exception] = []
        try:
            receipt = await self._take(received, raised)
            self.check(receipt)
            if not receipt.acknowledged:
                return _AGAIN
            with _application(raised, asyncio.current_task()):
                if self._keep is not None:
                    require_over(await _result(self._keep(receipt)))
                if receipt.outcome is Outcome.LOGIN and self._login is not None:
                    return _answer(200, (await _result(self._login(receipt.callback))).to_wire())
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 503 without details
            return self.refuse(e, source, received, again=e in raised)
        return _ACKNOWLEDGED

    async def _take(self, received: ReceivedCallback, raised: list[Exception]) -> Receipt:
        handler = self._handler
        if handler is None:
            return await self._inbox.accept(received, at=self.now())

        async def effect(callback: VerifiedCallback, connection: Any) -> object:
            with _application(raised, asyncio.current_task()):
                result = handler(callback, connection)
                if not inspect.isawaitable(result):
                    raise ConfigurationError(
                        "callback.function", "handler returned nothing to await: use a coroutine function"
                    )
                return await result

        if self._within is None:
            return await self._inbox.handle(received, effect, at=self.now())
        return await self._inbox.handle_within(received, effect, at=self.now(), within=self._within)


@contextmanager
def _application(raised: list[Exception], task: asyncio.Task[Any] | None = None) -> Iterator[None]:
    """Collect what a function of the application raises: whatever its class, the request is not at fault."""
    try:
        with own_cancellation("a function of the application", task):
            yield
    except Exception as e:  # the application raises any class; raised again
        raised.append(e)
        raise


async def _result(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _require_run(*, awaited: bool, **functions: object) -> None:
    """Reject a function whose call runs nothing and raises nothing: its callbacks would be acknowledged without their effect.

    Raises:
        ConfigurationError: `callback.function`.
    """
    wrong: list[Callable[[Any], bool]] = [inspect.isgeneratorfunction, inspect.isasyncgenfunction]
    if not awaited:
        wrong.append(inspect.iscoroutinefunction)
    for name, function in functions.items():
        # An object that can be called is what its __call__ is.
        if any(is_wrong(one) for is_wrong in wrong for one in (function, getattr(function, "__call__", None))):  # noqa: B004
            raise ConfigurationError(
                "callback.function",
                f"{name} is a generator, or a coroutine function that is not awaited: use AsyncCallbackGate for coroutine functions",
            )
