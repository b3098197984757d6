"""Verify callbacks in routes of the application, without an inbox, so repetitions are not detected.

@app.post("/cb/")
async def granted(request: Request) -> Response:
    verified = await verify_callback_request(request, receiver=receiver)
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import AsyncIterator, Coroutine, Mapping
from datetime import datetime
from typing import Any, Protocol, overload

from tppkit._clock import utc_now
from tppkit.callbacks import CallbackReceiver, ReceivedCallback, VerifiedCallback, verify_callback
from tppkit.errors import FormatError, TransportError
from tppkit.web.callback_requests import CallbackPeers, read_target, require_head
from tppkit.web.callbacks import TIMEOUT_S
from tppkit.web.sources import AsgiSource, Scope, Source, WsgiSource, read_pieces, too_large


class AsgiRequest(Protocol):
    """A request of Starlette or FastAPI."""

    @property
    def scope(self) -> Any:
        """The ASGI scope."""

    def stream(self) -> AsyncIterator[bytes]:
        """Read the body."""


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
            environ. Nothing may have read its body, except by `await request.body()`.
        receiver: the addresses and keys.
        peers: the networks from which callbacks are accepted; without it, all.
        at: the time to judge at, aware; now by default.

    Raises:
        CallbackRejected: see `verify_callback`; `callback.peer`.
        FormatError: `message.no-length`, `message.too-large`, `message.malformed`.
        TransportError: `transport.disconnected`; `transport.timeout`, the body of an ASGI request is too slow.
        ConfigurationError: `time.naive`.
    """
    # A request of Starlette is a mapping too.
    if hasattr(request, "scope"):
        return _verify_asgi(request, receiver=receiver, peers=peers, at=at)
    environ = request if isinstance(request, Mapping) else request.environ
    received = read_wsgi_callback(environ, receiver=receiver, peers=peers)
    return verify_callback(received, at=at or utc_now(), receiver=receiver)


async def _verify_asgi(
    request: AsgiRequest, *, receiver: CallbackReceiver, peers: CallbackPeers | None, at: datetime | None
) -> VerifiedCallback:
    received = await read_asgi_callback(request, receiver=receiver, peers=peers)
    return verify_callback(received, at=at or utc_now(), receiver=receiver)


async def read_asgi_callback(
    request: AsgiRequest, *, receiver: CallbackReceiver, peers: CallbackPeers | None
) -> ReceivedCallback:
    """Read a request that may be a callback; see `verify_callback_request`."""
    source = AsgiSource(request.scope)
    target = _require_target(source, receiver, peers)
    chunks, size = list[bytes](), 0
    try:
        async with timeout(TIMEOUT_S):
            async for chunk in request.stream():  # ends also where the framework has read and kept the body
                size += len(chunk)
                if size > receiver.max_body:
                    raise too_large(receiver.max_body)
                chunks.append(chunk)
    except TimeoutError as e:
        raise TransportError("transport.timeout", f"the body did not arrive within {TIMEOUT_S:g} seconds") from e
    except Exception as e:  # Starlette's ClientDisconnect; this module does not require Starlette
        if type(e).__name__ != "ClientDisconnect":
            raise
        raise TransportError(
            "transport.disconnected", "the client closed the connection before the end of the body"
        ) from e
    return ReceivedCallback(source.method, target, source.headers(), b"".join(chunks))


def read_wsgi_callback(environ: Scope, *, receiver: CallbackReceiver, peers: CallbackPeers | None) -> ReceivedCallback:
    """Read a request that may be a callback; see `verify_callback_request`."""
    source = WsgiSource(environ)
    target = _require_target(source, receiver, peers)
    body = b"".join(read_pieces(environ, max_bytes=receiver.max_body))
    return ReceivedCallback(source.method, target, source.headers(), body)


def _require_target(source: Source, receiver: CallbackReceiver, peers: CallbackPeers | None) -> str:
    require_head(source, max_bytes=receiver.max_body, peers=peers)
    target = read_target(source)
    if target is None:
        raise FormatError("message.malformed", "the target of the request is not a path")
    return target
