"""Verify callbacks in routes of the application, without an inbox, so repetitions are not detected.

@app.post("/cb/")
async def granted(request: Request) -> Response:
    verified = await verify_callback_request(request, receiver=receiver)
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from typing import Any, Protocol, overload

from tppkit._clock import utc_now
from tppkit.callbacks import CallbackReceiver, CallbackRejected, VerifiedCallback, verify_callback
from tppkit.errors import FormatError, TransportError, VerificationError
from tppkit.message import Message
from tppkit.web.receiving.callbacks import read_target
from tppkit.web.receiving.gate import TIMEOUT_S
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.sources import (
    AsgiSource,
    Scope,
    Source,
    WsgiSource,
    body_read,
    read_pieces,
    require_length,
    require_unread,
    too_large,
)


class AsgiRequest(Protocol):
    """A request of Starlette or FastAPI."""

    @property
    def scope(self) -> Any:
        """The ASGI scope."""

    def stream(self) -> AsyncIterator[bytes]:
        """Read the body."""

    async def body(self) -> bytes:
        """Read the body, and keep it for other readers."""


class WsgiRequest(Protocol):
    """A request of Flask or Werkzeug, or of Django under WSGI."""

    @property
    def environ(self) -> Any:
        """The WSGI environ."""


@overload
def verify_callback_request(
    request: AsgiRequest, *, receiver: CallbackReceiver, peers: CallbackPeers | None = None, at: datetime | None = None
) -> Coroutine[Any, Any, VerifiedCallback]: ...
@overload
def verify_callback_request(
    request: WsgiRequest | Scope, *, receiver: CallbackReceiver, peers: CallbackPeers | None = None, at: datetime | None = None
) -> VerifiedCallback: ...  # fmt: skip
def verify_callback_request(
    request: Any, *, receiver: CallbackReceiver, peers: CallbackPeers | None = None, at: datetime | None = None
) -> Any:
    """Verify a callback or login GET in a route of the application, without an inbox.

    To apply each effect once, store `VerifiedCallback.replay_key` in the transaction of the effect. If this raises, answer 400
    without the text of the error, which is for the log.

    Args:
        request: a request of Starlette or FastAPI, whose result is awaited; or a request of Flask, of Django under WSGI, or a WSGI
            environ (it gets a new `wsgi.input`). The application can read the body before and after, but before not parse it as a
            form. The body of a chunked request is in the result only.
        receiver: the addresses and keys.
        peers: the networks from which callbacks are accepted; without it, all.
        at: the time to judge at, aware; now by default.

    Raises:
        CallbackRejected: see `verify_callback`; `callback.peer`.
        FormatError: `message.no-length`, `message.too-large`, `message.malformed`, `message.body-read`.
        TransportError: `transport.disconnected`; `transport.timeout`, the body of an ASGI request is too slow.
        ConfigurationError: `time.naive`.

    Example:
        verified = await verify_callback_request(request, receiver=receiver)
    """
    # A request of Starlette is a mapping too.
    if hasattr(request, "scope"):
        return _verify_asgi(request, receiver=receiver, peers=peers, at=at)
    received = read_wsgi_callback(request, receiver=receiver, peers=peers)
    return verify_callback(received, at=at or utc_now(), receiver=receiver)


async def _verify_asgi(
    request: AsgiRequest, *, receiver: CallbackReceiver, peers: CallbackPeers | None, at: datetime | None
) -> VerifiedCallback:
    received = await read_asgi_callback(request, receiver=receiver, peers=peers)
    return verify_callback(received, at=at or utc_now(), receiver=receiver)


async def read_asgi_callback(
    request: AsgiRequest, *, receiver: CallbackReceiver, peers: CallbackPeers | None
) -> Message:
    """Read a request that may be a callback; see `verify_callback_request`."""
    source = AsgiSource(request.scope)
    target = _require_target(source, receiver, peers)
    with _typed_errors():
        try:
            async with timeout(TIMEOUT_S):
                body = await _read_asgi_body(request, source, receiver.max_body)
        except TimeoutError as e:
            raise TransportError("transport.timeout", f"the body did not arrive within {TIMEOUT_S:g} seconds") from e
    return Message(source.method, target, source.headers(), body)


async def _read_asgi_body(request: AsgiRequest, source: Source, max_bytes: int) -> bytes:
    if not source.header_values("transfer-encoding") and (source.header_values("content-length") or source.is_http1):
        # The server passes no more than the length, which is within the limit. The framework keeps it for the application.
        return require_unread(source, await request.body())
    chunks, size = list[bytes](), 0
    async for chunk in request.stream():  # ends also where the framework has read and kept the body
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def read_wsgi_callback(
    request: WsgiRequest | Scope, *, receiver: CallbackReceiver, peers: CallbackPeers | None
) -> Message:
    """Read a request that may be a callback; see `verify_callback_request`."""
    environ: Any = request if isinstance(request, Mapping) else request.environ
    source = WsgiSource(environ)
    target = _require_target(source, receiver, peers)
    with _typed_errors():
        body = _read_wsgi_body(request, environ, source, receiver.max_body)
    return Message(source.method, target, source.headers(), body)


def _read_wsgi_body(request: Any, environ: Any, source: WsgiSource, max_bytes: int) -> bytes:
    lengths, body = source.header_values("content-length"), None
    if lengths and not source.header_values("transfer-encoding") and request is not environ:
        # Flask and Django keep what they read, which is no more than the length.
        body = request.get_data() if hasattr(request, "get_data") else getattr(request, "body", None)
    if not isinstance(body, bytes):
        body = b"".join(read_pieces(source.environ, max_bytes=max_bytes))
        environ["wsgi.input"] = BytesIO(body)
        return body
    missing = int(lengths[0]) - len(body)
    if missing and not body and hasattr(request, "form") and (request.form or request.files):
        raise body_read()
    if missing:
        message = f"the body ends {missing} bytes before its Content-Length, or the application has read it before"
        raise TransportError("transport.disconnected", message)
    return body


@contextmanager
def _typed_errors() -> Iterator[None]:
    """Convert the errors of frameworks, which are known by name because this module requires none of them."""
    try:
        yield
    except Exception as e:
        name, is_lost = type(e).__name__, isinstance(e, OSError) and (e.errno is None or isinstance(e, ConnectionError))
        if is_lost or isinstance(e, TimeoutError) or name in ("ClientDisconnect", "ClientDisconnected"):
            message = "the client closed the connection before the end of the body"
            raise TransportError("transport.disconnected", message) from e
        if name in ("RequestEntityTooLarge", "RequestDataTooBig"):
            raise FormatError("message.too-large", "the body is longer than the application's own limit") from e
        if name == "RawPostDataException" or (
            name == "RuntimeError" and str(e) == "Stream consumed"
        ):  # Django; Starlette
            raise body_read() from e
        raise


def _require_target(source: Source, receiver: CallbackReceiver, peers: CallbackPeers | None) -> str:
    if peers is not None:
        try:
            peers.require(source)
        except VerificationError as e:
            raise CallbackRejected(e.code, e.message, clause="PSD2 document B.5") from e
    require_length(source, max_bytes=receiver.max_body)
    target = read_target(source)
    if target is None:
        raise FormatError("message.malformed", "the target of the request is not a path")
    return target
