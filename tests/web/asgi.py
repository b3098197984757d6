"""Calls an ASGI application with a message as a server would, and notes what it asks for and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from tppkit.protocol.psd2 import PSD2
from tppkit.seals import Message, Seal, sign_request
from tppkit.testpki import certificate_pem
from tppkit.testpki.certificate import Issued
from tppkit.web import seal_every_request

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
EVERY_PATH = seal_every_request(PSD2)
TARGET = "/psd2/v1/payments/sepa-credit-transfers?x=%2F"
BODY = b'{"creditorName":"A",\r\n "amount":"12.50"}'
REQUEST_ID = "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"


class Told(NamedTuple):
    """An answer.

    Attributes:
        status: HTTP status; 0 when nothing was answered.
        headers: by lower-case name.
        body: the bytes.
        reads: how often the body was asked for.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    reads: int

    @property
    def code(self) -> str:
        """The code in the interface's error body."""
        code: str = json.loads(self.body)["tppMessages"][0]["code"]
        return code

    @property
    def text(self) -> str:
        """The text beside it."""
        text: str = json.loads(self.body)["tppMessages"][0]["text"]
        return text


def request(
    *, method: str = "POST", target: str = TARGET, body: bytes = BODY, request_id: str | None = REQUEST_ID
) -> Message:
    """A request that is not sealed; a fresh id for None."""
    headers = (("X-Request-ID", request_id or str(uuid4())), ("Content-Type", "application/json"))
    return Message(method, target, headers, body)


def sealed(seal: Seal, **parts: Any) -> Message:
    """A sealed request."""
    return sign_request(request(**parts), seal=seal)


def scope_of(message: Message, qwac: Issued | None, **more: Any) -> dict[str, Any]:
    """The scope that a server with mutual TLS makes of a message."""
    path, _, query = message.target.partition("?")
    chain = () if qwac is None else (certificate_pem(qwac.certificate).decode(),)
    return {
        "type": "http", "method": message.method, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in message.headers],
        "client": ("198.51.100.7", 40000), "extensions": {"tls": {"client_cert_chain": chain, "client_cert_error": None}},
    } | more  # fmt: skip


def call(app: Any, scope: dict[str, Any], chunks: Sequence[bytes | None]) -> Told:
    """Call an application; a chunk of None is a client that leaves, and asking for more than there is fails."""
    sent: list[Any] = []
    waiting = list(chunks)
    reads = 0

    async def receive() -> Any:
        nonlocal reads
        reads += 1
        chunk = waiting.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def send(event: Any) -> None:
        sent.append(event)

    asyncio.run(app(scope, receive, send))
    if not sent:
        return Told(0, {}, b"", reads)
    headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Told(sent[0]["status"], headers, b"".join(event.get("body", b"") for event in sent[1:]), reads)


class Recorder:
    """An ASGI application that notes what it was handed and answers 201."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        self.scopes.append(scope)
        self.bodies.append(event["body"])
        assert not event["more_body"]
        await send(
            {"type": "http.response.start", "status": 201, "headers": [(b"aspsp-number", b"%d" % len(self.bodies))]}
        )
        await send({"type": "http.response.body", "body": b"done", "more_body": False})
