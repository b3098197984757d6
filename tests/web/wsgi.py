"""Calls a WSGI application with a message as a server would, and notes what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from tppkit._encoding import encode_base64
from tppkit.seals import Message
from tppkit.testpki import Pki


class Body(BytesIO):
    """A body that counts how often it is asked for."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


class Recorder:
    """A WSGI application that notes what it was handed."""

    def __init__(self, chunks: tuple[bytes, ...] = (b"do", b"ne"), status: str = "201 Created") -> None:
        self.environs: list[Any] = []
        self.bodies: list[bytes] = []
        self.closed = 0
        self.chunks = chunks
        self.status = status

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.environs.append(environ)
        self.bodies.append(environ["wsgi.input"].read())
        start_response(self.status, [("ASPSP-Number", str(len(self.bodies)))])
        return self

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def close(self) -> None:
        self.closed += 1


def forwarded(message: Message, pki: Pki) -> Message:
    """The message as the trusted proxy sends it on."""
    return message.with_headers(("Client-Cert", f":{encode_base64(pki.qwac.certificate.der)}:"))


def environ_of(message: Message, **more: Any) -> dict[str, Any]:
    fields = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in message.headers}
    fields["CONTENT_TYPE"] = fields.pop("HTTP_CONTENT_TYPE", "")
    path, _, query = message.target.partition("?")
    return {
        "REQUEST_METHOD": message.method, "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query, "RAW_URI": message.target, "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": Body(message.body), "CONTENT_LENGTH": str(len(message.body)), **fields, **more,
    }  # fmt: skip


def call(app: Any, environ: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        started[:] = [int(status[:3]), dict(headers)]
        return started.append

    chunks = app(environ, start_response)
    body = b"".join(chunks)
    if hasattr(chunks, "close"):
        chunks.close()
    return started[0], started[1], body


def code(body: bytes) -> str:
    found: str = json.loads(body)["tppMessages"][0]["code"]
    return found
