"""WSGI middleware for callbacks: the same gate as under ASGI, before an application of Flask, Django or any other.

How long a request may take is the server's setting: nothing here can end a slow body or a slow store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tppkit.callbacks import ReceivedCallback
from tppkit.errors import FormatError, TransportError
from tppkit.web.callback_gate import CallbackGate
from tppkit.web.message import environ_headers
from tppkit.web.refusing import Answer
from tppkit.web.seal_wsgi import Environ, StartResponse, WsgiApp, give_answer


class WsgiCallbackMiddleware:
    """Stands before a WSGI application.

    Args:
        app: the application.
        gate: what is done with callbacks.
    """

    def __init__(self, app: WsgiApp, *, gate: CallbackGate) -> None:
        self._app, self._gate = app, gate

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handle one request."""
        target = self._gate.find(environ)
        if target is None:
            return self._app(environ, start_response)
        return give_answer(start_response, self._answer(environ, target), environ)

    def _answer(self, environ: Environ, target: str) -> Answer:
        try:
            self._gate.require_head(environ)
            body = _read_body(environ, self._gate.receiver.max_body)
        except Exception as e:  # noqa: BLE001  # told to the log, and as a bare status
            return self._gate.refuse(e, environ)
        received = ReceivedCallback(environ["REQUEST_METHOD"], target, environ_headers(environ), body)
        return self._gate.receive(received, environ)


def _read_body(environ: Environ, limit: int) -> bytes:
    length = environ.get("CONTENT_LENGTH")
    if not length and not environ.get("wsgi.input_terminated"):
        if environ.get("HTTP_TRANSFER_ENCODING"):
            raise FormatError("message.malformed", "the WSGI server does not say where a chunked body ends")
        return b""
    try:
        return _read(environ["wsgi.input"], limit, int(length) if length else None)
    except OSError as e:
        raise TransportError("transport.disconnected", "the connection failed before the body's end") from e


def _read(body: Any, limit: int, length: int | None) -> bytes:
    """Read `length` bytes, or to the end and no further than behind the limit."""
    chunks, size = [], 0
    wanted = limit + 1 if length is None else length
    while size < wanted and (chunk := body.read(wanted - size)):
        chunks.append(chunk)
        size += len(chunk)
    if size > limit:
        raise FormatError("message.too-large", f"the body has more than {limit} bytes")
    if length is not None and size < length:
        raise TransportError("transport.disconnected", "the client left before the body's end")
    return b"".join(chunks)
