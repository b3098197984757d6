"""ASGI middleware: a handler runs only for a request whose caller is believed and whose seal holds for every byte."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.admitted import KEY, AdmittedRequest
from tppkit.web.gate import SealGate, not_kept
from tppkit.web.message import Receive
from tppkit.web.outcomes import UNLOOKED, RequestOutcome
from tppkit.web.passing import Passage, PendingRequest
from tppkit.web.refusing import Answer
from tppkit.web.sources import AsgiSource

Event = MutableMapping[str, Any]
Send = Callable[[Event], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class SealMiddleware:
    """Stands before an ASGI application.

    The head is verified before the body is read, the body is hashed as it arrives, and the application gets both only once the
    whole body is verified: the headers that were verified, without trailers that arrived later. It reads what is trusted with
    `verified_request(scope)`. A WebSocket is refused, because nothing of it is sealed; a lifespan passes.

    Args:
        app: the application.
        gate: what is demanded.
    """

    def __init__(self, app: AsgiApp, *, gate: SealGate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one connection's scope."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            raise ConfigurationError(
                "web.scope", f"a scope of the type {shown(scope['type'])} does not pass unlooked at"
            )

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        source = AsgiSource(scope)
        try:
            passage = await self._open(source, receive)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            # A client that left is answered too: granian says the same of one that sent broken chunks and is still there.
            answer = self._gate.refuse(source, e)
            self._gate.tell_outcome(RequestOutcome.refused(e, answer.status))
            await send_answer(send, answer)
            return
        self._gate.tell_outcome(UNLOOKED if passage is None else passage.outcome)
        if passage is None:
            await self._app(scope, receive, send)
        elif passage.answer is not None:
            await send_answer(send, passage.answer)
        else:
            judged = {**scope, "headers": list(source.raw_headers), KEY: passage.admitted}
            await self._handle(judged, passage, receive, send)

    async def _open(self, source: AsgiSource, receive: Receive) -> Passage | None:
        pending = self._gate.open(source)
        if pending is None:
            return None
        passage = self._gate.let_through(await _receive_body(pending, receive))
        await _wait(passage, passage.claim)
        if passage.answer is None:
            await self._keep(passage)
        return passage

    async def _keep(self, passage: Passage) -> None:
        try:
            if self._gate.sink_awaits:
                kept = self._gate.keep(passage.admitted)
            else:
                kept = await asyncio.to_thread(self._gate.keep, passage.admitted)
            if inspect.isawaitable(kept):
                await kept
        except Exception as e:
            await _wait(passage, passage.let_go)
            raise not_kept(e) from e

    async def _handle(self, scope: MutableMapping[str, Any], passage: Passage, receive: Receive, send: Send) -> None:
        body = passage.admitted.unverified_message.body
        events = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> Any:
            return events.pop() if events else await receive()

        if passage.is_recorded:
            await _Recorder(passage, replayed, send).run(self._app, scope)
        else:
            await self._app(scope, replayed, send)


class _Recorder:
    """Takes down what an application sends, and settles its claim before the last of it is sent.

    An application that stops because the client left has its claim until the lease is over.
    """

    def __init__(self, passage: Passage, receive: Receive, send: Send) -> None:
        self._passage = passage
        self._receive = receive
        self._send = send
        self._client_left = False
        self._unsent: Exception | None = None

    async def run(self, app: AsgiApp, scope: MutableMapping[str, Any]) -> None:
        """Call the application, and see to its claim."""
        # What is not sent as bodies, a file by its path for example, could not be kept.
        extensions = {
            name: value
            for name, value in (scope.get("extensions") or {}).items()
            if not name.startswith("http.response.")
        }
        try:
            await app({**scope, "extensions": extensions}, self._received, self._sent)
        except Exception:
            await self._end()
            raise
        await self._end()
        if self._unsent is not None and not isinstance(self._unsent, OSError):
            raise self._unsent

    async def _end(self) -> None:
        if not self._passage.is_settled and not self._client_left:
            await _wait(self._passage, self._passage.let_go)

    async def _received(self) -> Any:
        event = await self._receive()
        self._client_left |= event["type"] == "http.disconnect"
        return event

    async def _sent(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            fields = event.get("headers", ())
            headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)
            self._passage.started(event["status"], headers)
        elif event["type"] == "http.response.body":
            self._passage.add(event.get("body", b""))
            if not event.get("more_body", False):
                await _wait(self._passage, self._passage.answered)
        if self._unsent is None:
            try:
                await self._send(event)
            except Exception as e:  # noqa: BLE001  # the server's, not the application's: raised when the answer is kept
                self._unsent, self._client_left = e, True


async def _wait(passage: Passage, call: Callable[[], None]) -> None:
    if passage.blocks:
        await asyncio.to_thread(call)
    else:
        call()


async def _receive_body(pending: PendingRequest, receive: Receive) -> AdmittedRequest:
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise TransportError("transport.disconnected", "the client left before the body's end")
        chunk = event.get("body", b"")
        if chunk:
            pending.update(chunk)
        if not event.get("more_body", False):
            return pending.finish()


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer; a client that left gets none."""
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    with suppress(OSError):  # the ASGI specification's for a connection that is gone
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
