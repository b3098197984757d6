"""Receive requests of a service and answer them, for ASGI and WSGI alike: which senders are accepted, and the status of the answer.

A status has one of three meanings, and no reason is sent. 200: the request is stored or handled. 400, 403, 408, 411 and 413: it is
rejected, and need not be repeated; a repetition can succeed after 408, and after 400 if the body was not whole. 503: it was not
received, and should be sent again.
The document of the callbacks does not state how the service reacts to them (assumption callback-answers).
"""

from __future__ import annotations

import inspect
import logging
import re
from abc import abstractmethod
from asyncio import timeout
from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from tppkit._clock import Clock, utc_now
from tppkit._handlers import call_count, own_cancellation, require_finished, require_run
from tppkit._text import printable
from tppkit.errors import (
    ConfigurationError,
    FormatError,
    TppkitError,
    TransportError,
    VerificationError,
    code_of,
)
from tppkit.message import Answer, Message
from tppkit.metrics import Count
from tppkit.web.log import LOG, Fields, make_fields, write_line
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.sources import (
    AsgiApp,
    AsgiSource,
    Environ,
    Receive,
    Send,
    Source,
    StartResponse,
    WsgiApp,
    WsgiSource,
    give_answer,
    read_body,
    read_pieces,
    require_length,
    require_unread,
    send_answer,
)
from tppkit.web.threads import THREADS, DaemonThreads

# Not documented for these callbacks; the payment gateway waits 4 seconds for a first answer (assumption callback-answers).
TIMEOUT_S = 4.0


def make_answer(status: int, body: bytes = b"") -> Answer:
    """Return an answer that caches must not store."""
    fixed = (("content-length", str(len(body))), ("cache-control", "no-store"))
    return Answer(status, (*fixed, ("content-type", "application/json")) if body else fixed, body)


ACKNOWLEDGED, AGAIN, _REJECTED = make_answer(200), make_answer(503), make_answer(400)
_BY_CODE = {
    "transport.timeout": make_answer(408),
    "transport.busy": AGAIN,
    "callback.peer": make_answer(403),
    "callback.too-large": make_answer(413),
    "message.too-large": make_answer(413),
    "message.no-length": make_answer(411),
}
_ID_HEADER, _ID = "requestid", re.compile("[!-~]{1,255}")
_OF_REQUEST = {"callback.login-code"}  # the request is at fault, although a function of the application raises it


@dataclass(frozen=True, slots=True)
class RefusedCallback:
    """A request that was not acknowledged. Do not show it to the sender.

    Attributes:
        error: the reason in full; the exception of the handler if that failed.
        status: the status of the answer.
        at: the time of the answer, aware UTC.
        peer: the address of the connection, or None.
        received: the request, for `explain_callback`; None if its body was not read.
        fields: structured fields for a log line, without secrets: docs/how-to/metrics-and-logs.md, section Log lines.

    Example:
        CallbackGate(inbox, handler=handle, on_refusal=lambda refused: print(refused.status, refused.error))
    """

    error: Exception
    status: int
    at: datetime
    peer: str | None
    received: Message | None = field(default=None, repr=False)
    fields: Fields = field(default_factory=dict, repr=False)


OnRefusal = Callable[[RefusedCallback], object]


def log_refused_callback(refused: RefusedCallback) -> None:
    """Write a refusal to the logger `tppkit.web`: WARNING for faults of the sender, ERROR with the traceback for our own."""
    failed, error = refused.status >= 500, refused.error
    write_line(
        logging.ERROR if failed else logging.WARNING, refused.fields, "callback from %s: %d: %s", printable(str(refused.peer)),
        refused.status, error if isinstance(error, TppkitError) else f"{error} [{type(error).__name__}]",
        error=error if failed else None,
    )  # fmt: skip


class RequestGate:
    """Checks a request before its body is read, and answers rejected requests.

    Args:
        max_body: longest body in bytes.
        interface: name of the interface, for log lines.
        show: returns the path of a request without its secrets, for log lines.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`; a plain function.
        count: see `CallbackGate`; a plain function.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`.
    """

    def __init__(
        self, max_body: int, *, interface: str, show: Callable[[Source], str], peers: CallbackPeers | None = None,
        on_refusal: OnRefusal = log_refused_callback, count: Count | None = None, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        self.max_body, self.now = max_body, now
        self._interface, self._show = interface, show
        self._peers, self._on_refusal, self._count = peers, on_refusal, count
        require_run(awaited=False, on_refusal=on_refusal, count=count)

    def require_head(self, source: Source) -> None:
        """Check what is known before the body is read.

        Raises:
            VerificationError: `callback.peer`.
            FormatError: `message.no-length`, `message.too-large`, `message.malformed`.
        """
        if self._peers is not None:
            self._peers.require(source)
        require_length(source, max_bytes=self.max_body)

    def admit(self, source: Source, *, begin: float, outcome: str = "verified", code: str = "") -> None:
        """Log a request that needs no refusal (DEBUG), and count it.

        Args:
            source: the request as the server passes it.
            begin: when its work began, by `time.monotonic`.
            outcome: for `count`.
            code: for `count`.
        """
        if LOG.isEnabledFor(logging.DEBUG):
            fields = self._fields(source, code)
            write_line(logging.DEBUG, fields, "callback from %s: %s", fields["peer"], outcome)
        call_count(self._count, LOG, outcome, code, monotonic() - begin)

    def _fields(self, source: Source, code: str) -> Fields:
        ids = source.header_values(_ID_HEADER)
        return make_fields(
            interface=self._interface, method=source.method, target=self._show(source), code=code,
            peer=self._peers.client(source) if self._peers else source.address() or "",
            request_id=ids[0] if len(ids) == 1 and _ID.fullmatch(ids[0]) else "",
        )  # fmt: skip

    def refuse(
        self, error: Exception, source: Source, received: Message | None = None, *, begin: float, again: bool = False
    ) -> Answer:
        """Call `on_refusal` for a request that is not acknowledged, and return the answer to it.

        Args:
            error: the reason. Errors of the store, of settings, and exceptions that are not TppkitErrors are answered with 503.
            source: the request as the server passes it.
            received: the request, if its body was read.
            begin: when its work began, by `time.monotonic`.
            again: always answer 503, because the request is not at fault.
        """
        answer = AGAIN
        if not again and isinstance(error, VerificationError | FormatError | TransportError):
            answer = _BY_CODE.get(error.code, _REJECTED)
        code = code_of(error)
        try:
            fields = self._fields(source, code)
            refused = RefusedCallback(error, answer.status, self.now(), source.address(), received, fields)
            require_finished(self._on_refusal(refused))
        except Exception:  # noqa: BLE001  # the application's own: logged, and the answer stays
            LOG.exception("on_refusal failed for a callback that was answered %d: %s", answer.status, error)
        call_count(self._count, LOG, "failed" if answer is AGAIN else "refused", code, monotonic() - begin)
        return answer


class Taken(NamedTuple):
    """A request that needs no refusal.

    Attributes:
        outcome: for `count`.
        answer: the answer to the service.
        code: for `count`, or empty.
        warning: code and text of what is wrong although the answer is 200, for the log; or None.
    """

    outcome: str
    answer: Answer = ACKNOWLEDGED
    code: str = ""
    warning: tuple[str, str] | None = None


@contextmanager
def application(raised: list[Exception]) -> Iterator[None]:
    """Collect the exceptions of a function of the application, for which the request is not at fault."""
    try:
        with own_cancellation("a function of the application"):
            yield
    except Exception as e:  # the application raises any class; raised again
        raised.append(e)
        raise


class ReceivingGate(RequestGate):
    """Receives requests to addresses of its own; a subclass defines what it finds and takes.

    `_take` is a generator: it yields the results of functions that are coroutine functions on asyncio, and gets them awaited.
    """

    @abstractmethod
    def find(self, source: Source) -> str | None:
        """Return the target of a request to one of the addresses; None for any other request."""

    @abstractmethod
    def _take(self, received: Message, raised: list[Exception]) -> Generator[Any, Any, Taken]:
        """Store or handle a request. Functions of the application run in `application(raised)`."""

    def _steps(self, received: Message, source: Source) -> Generator[Any, Any, Answer]:
        raised, begin = list[Exception](), monotonic()
        try:
            taken = yield from self._take(received, raised)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered without details
            again = e in raised and code_of(e) not in _OF_REQUEST
            return self.refuse(e, source, received, begin=begin, again=again)
        self.admit(source, begin=begin, outcome=taken.outcome, code=taken.code)
        if taken.warning:
            code, text = taken.warning
            write_line(logging.WARNING, self._fields(source, code), "%s", text)
        return taken.answer


class BlockingGate(ReceivingGate):
    """A gate for threads."""

    def receive(self, received: Message, source: Source) -> Answer:
        """Receive a request to one of the addresses, and return the answer.

        Args:
            received: the request, exactly as received.
            source: the request as the server passes it.
        """
        steps, result = self._steps(received, source), None
        try:
            while True:
                result = steps.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


class AwaitingGate(ReceivingGate):
    """A gate for asyncio: what its steps yield is awaited."""

    async def receive(self, received: Message, source: Source) -> Answer:
        """Receive a request to one of the addresses, and return the answer.

        Args:
            received: the request, exactly as received.
            source: the request as the server passes it.
        """
        steps = self._steps(received, source)
        try:
            step = next(steps)
            while True:
                try:
                    result = await step if inspect.isawaitable(step) else step
                except BaseException as e:  # noqa: BLE001  # raised where the step was yielded
                    step = steps.throw(e)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer


class CallbackMiddleware:
    """Receive callbacks, or webhooks of the payment gateway, before an ASGI application, on asyncio.

    A blocking inbox runs in a thread for each request, so a handler that hangs blocks neither the event loop nor the threads of the
    application. After the time limit the answer is 503 and the call continues: if it succeeds, the repetition is acknowledged. The
    process does not wait for it at its end; the service then repeats a callback that was not committed.

    Args:
        app: the application.
        gate: decides about callbacks or webhooks.
        timeout_s: time limit for reading, storing and handling together; above 0, and finite.
        threads: how many callbacks a blocking inbox handles at a time; others are answered with 503.

    Raises:
        ConfigurationError: `web.setting`, `timeout_s` or `threads` is out of range.

    Example:
        app = CallbackMiddleware(app, gate=CallbackGate(Inbox(receiver, store), handler=handle))
    """

    def __init__(
        self,
        app: AsgiApp,
        *,
        gate: BlockingGate | AwaitingGate,
        timeout_s: float = TIMEOUT_S,
        threads: int = THREADS,
    ) -> None:
        if not 0 < timeout_s < inf:
            raise ConfigurationError("web.setting", f"timeout_s is {timeout_s}; it must be above 0 and finite")
        if threads < 1:
            raise ConfigurationError("web.setting", f"threads is {threads}; at least one is needed")
        self._app, self._gate, self._timeout_s = app, gate, timeout_s
        self._threads = DaemonThreads(threads)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle the scope of one connection."""
        source = AsgiSource(scope)
        target = self._gate.find(source) if scope["type"] == "http" else None
        if target is None:
            await self._app(scope, receive, send)
        else:
            await send_answer(send, await self._answer(source, receive, target))

    async def _answer(self, source: AsgiSource, receive: Receive, target: str) -> Answer:
        received, begin = None, monotonic()
        try:
            async with timeout(self._timeout_s):
                self._gate.require_head(source)
                body = require_unread(source, await read_body(receive, max_bytes=self._gate.max_body))
                received = Message(source.method, target, source.headers(), body)
                if isinstance(self._gate, AwaitingGate):
                    return await self._gate.receive(received, source)
                return await self._threads.run(partial(self._gate.receive, received, source))
        except TimeoutError as e:
            what = "the body did not arrive" if received is None else "the callback was not received"
            late = TransportError("transport.timeout", f"{what} within {self._timeout_s:g} seconds")
            late.__cause__ = e
            return self._gate.refuse(late, source, received, begin=begin, again=received is not None)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with a bare status
            return self._gate.refuse(e, source, received, begin=begin)


class WsgiCallbackMiddleware:
    """Receive callbacks, or webhooks of the payment gateway, before a WSGI application of Flask, Django or any other.

    Limit the time of a request in the settings of the server: this middleware cannot end a slow body or a slow store.

    Args:
        app: the application.
        gate: decides about callbacks or webhooks.

    Example:
        app.wsgi_app = WsgiCallbackMiddleware(app.wsgi_app, gate=CallbackGate(Inbox(receiver, store), handler=handle))
    """

    def __init__(self, app: WsgiApp, *, gate: BlockingGate) -> None:
        self._app, self._gate = app, gate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        source = WsgiSource(environ)
        target = self._gate.find(source)
        if target is None:
            return self._app(environ, start_response)
        return give_answer(start_response, self._answer(source, environ, target), environ)

    def _answer(self, source: WsgiSource, environ: Environ, target: str) -> Answer:
        begin = monotonic()
        try:
            self._gate.require_head(source)
            body = b"".join(read_pieces(environ, max_bytes=self._gate.max_body))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with a bare status
            return self._gate.refuse(e, source, begin=begin)
        received = Message(source.method, target, source.headers(), body)
        return self._gate.receive(received, source)
