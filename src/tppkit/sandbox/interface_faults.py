"""Applies the requested faults of an interface, between its host and the log of its requests.

"Before" and `html` answer without the host; all others let it commit first.
"""

from __future__ import annotations

import hashlib
import math
import re
from contextlib import suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from tppkit.errors import FormatError, TppkitError
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.refusals import Refusal
from tppkit.sandbox.connection import Connection, connection_of, wait_for_disconnect
from tppkit.sandbox.exchange import exchange_of
from tppkit.sandbox.faults import Fault, Faults
from tppkit.sandbox.host import RETRY_AFTER_S, Host
from tppkit.web.sources import RAW_TARGET

_MAX_PIECES = 60
_MAX_DRAINED_BYTES = 8 * 1024 * 1024
_UUID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_PAGE = b"<!DOCTYPE html><html lang=en><title>Please wait</title><p>This service will be back soon.</p></html>\n"
_PROXY = b"upstream request timeout"
_CODES = {429: "TOO_MANY_REQUESTS", 500: "INTERNAL_SERVER_ERROR", 503: "SERVICE_UNAVAILABLE"}
_TEXT = "a requested fault of the sandbox"

Fields = list[tuple[bytes, bytes]]


class Faulty:
    """Answers the requests of a host, with the requested faults.

    Args:
        host: the host.
        faults: the requested faults, which requests use up.

    Example:
        app = Faulty(sandbox.hosts["psd2"], faults=sandbox.faults)
    """

    def __init__(self, host: Host, *, faults: Faults) -> None:
        self._host, self._faults = host, faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        fault = None if scope["type"] != "http" else self._fault(scope)
        if fault is None:
            await self._host(scope, receive, send)
            return
        exchange = exchange_of(scope["extensions"])
        if exchange is not None:
            exchange.fault = fault.name
        if fault.name == "html":
            await _drain(receive)
            await _answer(send, 200, [(b"content-type", b"text/html")], _PAGE)
        elif fault.name.startswith("status-"):
            await self._status(fault.name, scope, receive, send)
        elif fault.name == "reset-after":
            answered = _Silent()
            await self._host(scope, receive, answered)
            await send(answered.start)  # never reaches the client; the log learns the status
            connection_of(scope["extensions"]).reset()
            await wait_for_disconnect(receive)
        else:
            await self._host(scope, receive, _Changed(fault, connection_of(scope["extensions"]), receive, send))

    def _fault(self, scope: Scope) -> Fault | None:
        if self._faults.is_empty:
            return None
        interface, target = self._host.interface, scope["extensions"][RAW_TARGET]["target"].decode("latin-1")
        row: Endpoint[Any, Any] | None
        try:
            row = interface.find(scope["method"], target).row
        except TppkitError:
            row = interface.row_of(scope["method"], target)
        return self._faults.take_for_request(interface.name, endpoint=None if row is None else row.name)

    async def _status(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        status = int(name.split("-")[1])
        headers = [] if status == 500 else [(b"retry-after", str(RETRY_AFTER_S).encode())]
        if name.endswith("-after"):
            await self._host(scope, receive, _Silent())
        else:
            await _drain(receive)
        if name == "status-503-after":  # by the code of the interface, the host would promise that nothing was done
            await _answer(send, status, [*headers, (b"content-type", b"text/plain")], _PROXY)
            return
        body = self._host.interface.refusals.write(Refusal(status, _CODES[status], _TEXT))
        await _answer(send, status, [*headers, (b"content-type", b"application/json"), *self._echo(scope)], body)

    def _echo(self, scope: Scope) -> Fields:
        name = self._host.request_id or self._host.interface.request_id or ""
        sent = [value for found, value in scope["headers"] if found == name.encode()]
        with suppress(FormatError):
            if len(sent) == 1 and self._host.interface.parse_request_id(sent[0].decode("latin-1")):
                return [(name.encode(), sent[0])]
        return []


class _Silent:
    """Takes an answer that the client does not get.

    Attributes:
        start: the event with status and headers.
    """

    def __init__(self) -> None:
        self.start: Message = {"type": "http.response.start", "status": 500, "headers": []}

    async def __call__(self, event: Message) -> None:
        if event["type"] == "http.response.start":
            self.start = event


class _Changed:
    """Sends an answer with a fault; of a streamed answer, the first piece has it."""

    def __init__(self, fault: Fault, connection: Connection, receive: Receive, send: Send) -> None:
        self._fault, self._connection, self._receive, self._send = fault, connection, receive, send
        self._start: Message | None = None
        self._is_over = False

    async def __call__(self, event: Message) -> None:
        if event["type"] == "http.response.start":
            self._start = event
        elif self._start is not None:
            start, self._start = self._start, None
            await getattr(self, "_" + self._fault.name.replace("-", "_"))(start, event)
        elif not self._is_over:
            await self._send(_with_other_ids(event) if self._fault.name == "other-answer" else event)

    async def _late(self, start: Message, event: Message) -> None:
        await self._connection.wait(self._fault.delay_s, self._receive)
        await self._send(start)
        await self._send(event)

    async def _slow_body(self, start: Message, event: Message) -> None:
        await self._send(start)
        body = event.get("body", b"")
        pieces = max(1, min(_MAX_PIECES, len(body)))
        size = math.ceil(len(body) / pieces)
        for begin in range(0, len(body), size or 1):
            await self._connection.wait(self._fault.delay_s / pieces, self._receive)
            await self._send({**event, "body": body[begin : begin + size], "more_body": True})
        await self._send({**event, "body": b""})

    async def _truncated(self, start: Message, event: Message) -> None:
        self._is_over, body = True, event.get("body", b"")
        if body:
            await self._send(start)
            await self._send({**event, "body": body[: len(body) // 2], "more_body": True})
            self._connection.cut()
        else:
            await self._send(start)
            self._connection.reset()
        await wait_for_disconnect(self._receive)

    async def _other_answer(self, start: Message, event: Message) -> None:
        headers = [(name, _UUID.sub(_other_id, value)) for name, value in start["headers"]]
        await self._send({**start, "headers": headers})
        await self._send(_with_other_ids(event))

    async def _no_body(self, start: Message, event: Message) -> None:
        self._is_over = True
        await _answer(self._send, start["status"], [*_without_length(start)], b"")


def _with_other_ids(event: Message) -> Message:
    return {**event, "body": _UUID.sub(_other_id, event.get("body", b""))}


def _other_id(found: re.Match[bytes]) -> bytes:
    """Return another UUID, of the same length and always the same for the same one."""
    digits = hashlib.sha256(found[0].lower()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}".encode()


def _without_length(start: Message) -> Fields:
    return [(name, value) for name, value in start["headers"] if name not in (b"content-length", b"content-type")]


async def _answer(send: Send, status: int, headers: Fields, body: bytes) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


async def _drain(receive: Receive) -> None:
    """Read the body of a request that the host does not get, so that the log and the connection have it whole."""
    size, more = 0, True
    while more and size < _MAX_DRAINED_BYTES:
        event = await receive()
        size, more = size + len(event.get("body", b"")), event.get("more_body", False)
