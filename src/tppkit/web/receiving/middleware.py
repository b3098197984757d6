"""Middlewares for callbacks and webhooks: requests to the addresses of a gate are answered here, all others by the application."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Iterable, MutableMapping
from functools import partial
from math import inf
from typing import Any

from tppkit.errors import ConfigurationError, TransportError
from tppkit.message import Message
from tppkit.web.receiving.gate import AwaitingGate, BlockingGate
from tppkit.web.seal import AsgiApp, Send, send_answer
from tppkit.web.seal_wsgi import Environ, StartResponse, WsgiApp, give_answer
from tppkit.web.sources import Answer, AsgiSource, Receive, WsgiSource, read_body, read_pieces, require_unread
from tppkit.web.threads import THREADS, DaemonThreads

# Not documented for these callbacks; the payment gateway waits 4 seconds for a first answer (assumption callback-answers).
TIMEOUT_S = 4.0


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
        received = None
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
            return self._gate.refuse(late, source, received, again=received is not None)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with a bare status
            return self._gate.refuse(e, source, received)


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
        try:
            self._gate.require_head(source)
            body = b"".join(read_pieces(environ, max_bytes=self._gate.max_body))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with a bare status
            return self._gate.refuse(e, source)
        received = Message(source.method, target, source.headers(), body)
        return self._gate.receive(received, source)
