"""ASGI middleware for callbacks: what comes to one of the receiver's addresses is answered here, all else by the application."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from math import inf
from typing import Any

from tppkit.callbacks import ReceivedCallback
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.callback_functions import require_kind
from tppkit.web.callback_gate import AsyncCallbackGate, CallbackGate
from tppkit.web.callback_threads import CallThreads
from tppkit.web.message import Answer, Receive, read_body
from tppkit.web.seal import AsgiApp, Send, send_answer
from tppkit.web.sources import AsgiSource

# Not documented for these callbacks; the payment gateway waits 4 seconds for a first answer (assumption callback-answers).
TIMEOUT_S = 4.0
THREADS = 16


class CallbackMiddleware:
    """Stands before an ASGI application, on asyncio.

    A blocking inbox works in threads of its own, and `on_refusal` in another one, so a handler or sink that hangs holds up nothing of
    the application's, and a sink no callback either. When the time is over the answer is 503, whatever the inbox does with the callback:
    if it still has its effect, its repetition is acknowledged. When the server shuts down, refusals that `on_refusal` does not have yet
    are told within a second, which is done with the application's own answer to the lifespan.

    Args:
        app: the application.
        gate: what is done with callbacks.
        timeout_s: how long reading, storing and handling may take together; more than 0, and finite.
        threads: how many callbacks a blocking inbox handles at a time; four times as many may wait, more are answered 503.

    Raises:
        ConfigurationError: `web.setting`, no time, less than one thread, or no gate.
    """

    def __init__(
        self,
        app: AsgiApp,
        *,
        gate: CallbackGate | AsyncCallbackGate,
        timeout_s: float = TIMEOUT_S,
        threads: int = THREADS,
    ) -> None:
        require_kind("gate", gate, CallbackGate, AsyncCallbackGate)
        if not 0 < timeout_s < inf:
            raise ConfigurationError("web.setting", f"a timeout_s of {timeout_s} is no time to receive a callback in")
        self._app, self._gate, self._timeout_s = app, gate, timeout_s
        self._threads = CallThreads(threads)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one connection's scope."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, self._ending(send))
            return
        source = AsgiSource(scope)
        target = self._gate.find(source) if scope["type"] == "http" else None
        if target is None:
            await self._app(scope, receive, send)
            return
        await send_answer(send, await self._answer(source, receive, target))

    def _ending(self, send: Send) -> Send:
        async def end_and_send(message: MutableMapping[str, Any]) -> None:
            # Not left to the interpreter's end: a server that was ended by a signal raises it again and has none.
            if message["type"].startswith("lifespan.shutdown."):
                await asyncio.to_thread(self._gate.end)
            await send(message)

        return end_and_send

    async def _answer(self, source: AsgiSource, receive: Receive, target: str) -> Answer:
        received = None
        try:
            async with asyncio.timeout(self._timeout_s):
                self._gate.require_head(source)
                body = await read_body(receive, max_bytes=self._gate.receiver.max_body)
                received = ReceivedCallback.from_wire(source.method, target.encode("latin-1"), source.raw_headers, body)
                return await self._receive(received, source)
        except TimeoutError as e:
            late = _late(received, e, self._timeout_s)
            return self._gate.refuse(late, source, received, own=received is not None, aside=True)
        except Exception as e:  # noqa: BLE001  # told to the log, and as a bare status
            return self._gate.refuse(e, source, received, aside=True)

    async def _receive(self, received: ReceivedCallback, source: AsgiSource) -> Answer:
        gate = self._gate
        if isinstance(gate, AsyncCallbackGate):
            return await gate.receive(received, source)
        return await self._threads.run(gate.receive, received, source, aside=True)


def _late(received: ReceivedCallback | None, cause: TimeoutError, timeout_s: float) -> TransportError:
    what = "the body did not come" if received is None else "the callback was not received"
    error = TransportError("transport.timeout", f"{what} within {timeout_s:g} seconds")
    error.__cause__ = cause
    return error
