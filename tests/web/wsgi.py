"""Calls a WSGI application with a message as a server would, and notes what it answers."""

from __future__ import annotations

import json
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
