"""ASGI middleware: a handler runs only for a trusted caller, with a valid seal for every byte where one is required."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from functools import partial
from io import BytesIO
from typing import Any

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError
from tppkit.message import Answer
from tppkit.trust.revocation.fetched import FetchNeeded, without_fetching
from tppkit.web.answers import MAX_SEALED_BYTES
from tppkit.web.caller import Caller
from tppkit.web.gate import SealGate, SealPending, Visit
from tppkit.web.replay import MAX_ANSWER_BYTES, Replay
from tppkit.web.sources import KEY, AsgiApp, AsgiSource, Event, Receive, Send, receive_chunk, send_answer
from tppkit.web.threads import THREADS, DaemonThreads


class SealMiddleware:
    """Check requests before an ASGI application.

    The head is verified before the body is read. The application is called after the whole body is verified, with the verified
    headers and without trailers. It uses `caller_of(scope)` and `verified_request(scope)`. WebSockets are rejected, because their
    messages are not sealed.

    A head whose certificate needs a fetched answer about revocation is verified in a thread, at most 64 at a time; further ones are
    answered with 503.

    Args:
        app: the application.
        gate: verifies requests.

    Example:
        app = SealMiddleware(app, gate=SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths)))
    """

    def __init__(self, app: AsgiApp, *, gate: SealGate) -> None:
        self._app = app
        self._gate = gate
        self._enter = partial(gate.enter, allow_old_date=gate.replay is not None)
        self._threads = DaemonThreads(THREADS)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle the scope of one connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            raise ConfigurationError("web.scope", f"the middleware cannot check a scope of type {shown(scope['type'])}")

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        source = AsgiSource(scope)
        visit = Visit(source)
        enter = partial(self._enter, visit=visit)
        try:
            try:
                _, pending = without_fetching(enter, source)
            except FetchNeeded:
                _, pending = await self._threads.run(partial(enter, source))
            more = True
            visit.pause()
            while more:
                chunk, more = await receive_chunk(receive)
                pending.update(chunk)
            visit.resume()
            try:
                caller, body = without_fetching(SealPending.finish, pending)
            except FetchNeeded:  # the seal of a dialect that signs the body alone is verified only now
                caller, body = await self._threads.run(pending.finish)
            unread = [BytesIO(body)]
            del chunk, body  # tools that report errors show local variables
            replay = await self._claim(caller)
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 500 without details
            # Answer a disconnected client too, because granian reports broken chunks of a connected client in the same way.
            await self._send(visit, self._gate.refuse(source, e, visit=visit), send, is_refusal=True)
            return
        self._gate.admit(visit)
        if replay is not None and replay.answer is not None:
            await self._send(visit, replay.answer, send)
            return
        if replay is not None and replay.repeated:
            caller = caller._replace(repeated=True)

        async def replayed() -> Any:
            if not unread:
                return await receive()
            return {"type": "http.request", "body": unread.pop().getvalue(), "more_body": False}

        proven = {**scope, "headers": list(source.raw_headers), KEY: caller}
        if replay is None and self._gate.answers is None:
            await self._app(proven, replayed, send)
        else:
            await self._hold_answer(replay, visit, proven, replayed, send)

    async def _send(self, visit: Visit, answer: Answer, send: Send, *, is_refusal: bool = False) -> None:
        seals = self._gate.answers
        if seals is not None:
            answer = await seals.sign_async(
                visit.source, answer, organisation=visit.organisation, is_refusal=is_refusal
            )
        await send_answer(send, answer)

    async def _claim(self, caller: Caller) -> Replay | None:
        guard = self._gate.replay
        if guard is None or caller.seal is None:
            return None
        if guard.store.blocking:
            return await asyncio.to_thread(guard.admit, caller.seal, at=self._gate.now())
        return guard.admit(caller.seal, at=self._gate.now())

    async def _hold_answer(
        self, replay: Replay | None, visit: Visit, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Call the application, and store its answer and seal it before it is sent.

        An application that stops because the client left keeps its claim until the lease is over.
        """
        is_sealed = self._gate.answers is not None
        limit = MAX_SEALED_BYTES if is_sealed else MAX_ANSWER_BYTES
        held: list[Event] = []
        size, client_left, is_over = 0, False, False

        async def received() -> Any:
            nonlocal client_left
            event = await receive()
            client_left |= event["type"] == "http.disconnect"
            return event

        async def settle(answer: Answer | None) -> None:
            if replay is not None and not replay.is_settled:
                await self._settle(replay, answer)

        async def sent(event: Event) -> None:
            nonlocal size, is_over
            if is_over:
                return
            held.append(event)
            size += len(event.get("body", b""))
            is_last = event["type"] == "http.response.body" and not event.get("more_body", False)
            if not is_last and size <= limit:
                return
            if is_sealed or (replay is not None and not replay.is_settled):
                whole = _answer_of(held)
                await settle(whole)
                if is_sealed:
                    is_over = True
                    held.clear()
                    await self._send(visit, whole, send)
                    return
            try:
                for one in held:
                    await send(one)
            except OSError:
                is_over = True
            held.clear()

        # An answer that is not sent as bytes, for example a file by its path, could not be stored or sealed.
        extensions = scope.get("extensions") or {}
        extensions = {name: value for name, value in extensions.items() if not name.startswith("http.response.")}
        try:
            await self._app({**scope, "extensions": extensions}, received, sent)
        except Exception:  # the application's own, raised again
            if not client_left:
                await settle(None)
            raise
        if not client_left:
            await settle(None)

    async def _settle(self, replay: Replay, answer: Answer | None) -> None:
        if self._gate.replay is not None and self._gate.replay.store.blocking:
            await asyncio.to_thread(replay.settle, answer)
        else:
            replay.settle(answer)


def _answer_of(events: list[Event]) -> Answer:
    start, *bodies = events
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in start.get("headers", ()))
    return Answer(start["status"], headers, b"".join(event.get("body", b"") for event in bodies))
