"""A request as ASGI or WSGI hands it over, turned into the message that was signed: raw path, raw query, raw body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tppkit.errors import FormatError, TransportError
from tppkit.httpsig.message import Message
from tppkit.web.sources import AsgiSource, Scope, source_of

Receive = Callable[[], Awaitable[Any]]


async def read_message(scope: Scope, receive: Receive, *, max_body_bytes: int) -> Message:
    """Read the whole request without decoding anything that was signed.

    Args:
        scope: an ASGI `http` scope; its raw target (extension `tppkit.raw_target`) or `raw_path` is what stood on the wire.
        receive: the ASGI receive callable.
        max_body_bytes: a longer body is refused as soon as it is.

    Raises:
        FormatError: `message.too-large`; `message.malformed` for a target that is no path; `message.no-raw-path` when the
            server gives only the decoded path.
        TransportError: `transport.disconnected`, the client left before the body's end.
    """
    head = AsgiSource(scope).head()
    return head._replace(body=await read_body(receive, max_bytes=max_body_bytes))


def raw_target(source: Scope) -> bytes:
    """Path and query as they stood on the wire; never put together again from what was decoded.

    Args:
        source: an ASGI `http` scope, as for `read_message`, or a WSGI environ with `RAW_URI` or `REQUEST_URI`. Of a WSGI
            target in absolute form (RFC 9112 section 3.2.2) scheme and host are taken off.

    Raises:
        FormatError: `message.malformed`, `message.no-raw-path`.
    """
    return source_of(source).raw_target()


async def read_body(receive: Receive, *, max_bytes: int) -> bytes:
    """The body, as soon as it is whole.

    Args:
        receive: the ASGI receive callable.
        max_bytes: a longer body is refused as soon as it is.

    Raises:
        FormatError: `message.too-large`.
        TransportError: `transport.disconnected`, the client left before the body's end.
    """
    chunks, size = [], 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise TransportError("transport.disconnected", "the client left before the body's end")
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
        if not event.get("more_body", False):
            return b"".join(chunks)


def too_large(max_bytes: int) -> FormatError:
    """The error for a body that is longer than is taken."""
    return FormatError("message.too-large", f"the body has more than {max_bytes} bytes")
