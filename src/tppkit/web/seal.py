"""ASGI middleware: a handler runs only for a request whose caller is believed and whose seal holds for every byte."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.admitted import KEY, AdmittedRequest
from tppkit.web.gate import PendingRequest, SealGate, not_kept
from tppkit.web.message import Receive
from tppkit.web.refusing import Answer
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay, ReplayGuard
from tppkit.web.sources import AsgiSource

_LOG = logging.getLogger("tppkit.web")

Event = MutableMapping[str, Any]
Send = Callable[[Event], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
T = TypeVar("T")


class SealMiddleware:
    """Stands before an ASGI application.

    The head is verified before a byte of the body is asked for, the body is hashed as it comes, and the application gets it
    only once it is proven whole. What it may believe it reads with `verified_request(scope)`. A WebSocket is refused, because
    nothing of it is sealed; a lifespan passes.

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
        replay, source = None, AsgiSource(scope)
        try:
            pending = self._gate.open(source)
            admitted = None if pending is None else await _receive_body(pending, receive)
            if admitted is not None:
                admitted, replay = await self._claim(admitted)
                if replay is None or replay.answer is None:
                    await self._keep(admitted, replay)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 500 without details
            # A client that left is answered too: granian says the same of one that sent broken chunks and is still there.
            await send_answer(send, self._gate.refuse(source, e))
            return
        if admitted is None:
            await self._app(scope, receive, send)
        elif replay is not None and replay.answer is not None:
            await send_answer(send, replay.answer)
        else:
            await self._handle({**scope, KEY: admitted}, admitted, replay, receive, send)

    async def _handle(
        self,
        scope: MutableMapping[str, Any],
        admitted: AdmittedRequest,
        replay: Replay | None,
        receive: Receive,
        send: Send,
    ) -> None:
        guard = self._gate.replay
        events = [{"type": "http.request", "body": admitted.unverified_message.body, "more_body": False}]

        async def replayed() -> Any:
            return events.pop() if events else await receive()

        if replay is None or guard is None or not guard.answers:
            await self._app(scope, replayed, send)
        else:
            await _AnswerKeeper(guard, replay, replayed, send).run(self._app, scope)

    async def _claim(self, admitted: AdmittedRequest) -> tuple[AdmittedRequest, Replay | None]:
        guard, verified = self._gate.replay, admitted.verified
        if guard is None or verified is None:
            return admitted, None
        replay = await _call(guard, lambda: guard.admit(verified, at=self._gate.now()))
        return (replace(admitted, repeated=True) if replay.repeated else admitted), replay

    async def _keep(self, admitted: AdmittedRequest, replay: Replay | None) -> None:
        try:
            if self._gate.sink_awaits:
                kept = self._gate.keep(admitted)
            else:
                kept = await asyncio.to_thread(self._gate.keep, admitted)
            if inspect.isawaitable(kept):
                await kept
        except Exception as e:
            guard = self._gate.replay
            if guard is not None and replay is not None:
                await _call(guard, lambda: guard.settle(replay, None))
            raise not_kept(e) from e


class _AnswerKeeper:
    """Keeps what an application sends, before the last of it is sent.

    The claim is let go only when the application itself failed. When the client leaves, the application may have had its effect: it
    goes on to answer, nobody reads it, and it is kept; an application that stops instead has its claim until the lease is over.
    """

    def __init__(self, guard: ReplayGuard, replay: Replay, receive: Receive, send: Send) -> None:
        self._guard = guard
        self._replay = replay
        self._receive = receive
        self._send = send
        self._status = 500
        self._headers: tuple[tuple[str, str], ...] = ()
        self._body = bytearray()
        self._ended = False
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

    async def _received(self) -> Any:
        event = await self._receive()
        self._client_left |= event["type"] == "http.disconnect"
        return event

    async def _sent(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._status = event["status"]
            fields = event.get("headers", ())
            self._headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)
        elif event["type"] == "http.response.body":
            if len(self._body) <= MAX_ANSWER_BYTES:
                self._body += event.get("body", b"")
            if not event.get("more_body", False):
                await self._keep(Answer(self._status, self._headers, bytes(self._body)))
        if self._unsent is None:
            try:
                await self._send(event)
            except Exception as e:  # noqa: BLE001  # the server's, not the application's: raised when the answer is kept
                self._unsent, self._client_left = e, True

    async def _end(self) -> None:
        if not self._ended and not self._client_left:
            await self._keep(None)

    async def _keep(self, answer: Answer | None) -> None:
        self._ended = True
        try:
            await _call(self._guard, lambda: self._guard.settle(self._replay, answer))
        except TransportError as e:
            _LOG.error("an answer was not kept for repetitions: %s", e)  # it happened, so it is sent


async def _call(guard: ReplayGuard, ask: Callable[[], T]) -> T:
    return await asyncio.to_thread(ask) if guard.store.blocking else ask()


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
