"""HTTP messages: a request as ASGI hands it over, with raw path, query and body, and an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tppkit.errors import FormatError, TransportError
from tppkit.httpsig.message import Message
from tppkit.web.sources import AsgiSource, Scope

Receive = Callable[[], Awaitable[Any]]


class Answer(NamedTuple):
    """An HTTP answer.

    Attributes:
        status: HTTP status.
        headers: names and values, in order.
        body: the bytes.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def read_message(scope: Scope, receive: Receive, *, max_body_bytes: int) -> Message:
    """Read a whole request without decoding anything that can be signed.

    Args:
        scope: an ASGI `http` scope with `raw_path` or the extension `tppkit.raw_target`.
        receive: the ASGI receive callable.
        max_body_bytes: a longer body is rejected while it arrives.

    Raises:
        FormatError: `message.too-large`; `message.malformed`, the target is not a path; `message.no-raw-path`, the server gives only
            the decoded path.
        TransportError: `transport.disconnected`, the client closed the connection before the end of the body.
    """
    head = AsgiSource(scope).head()
    return head._replace(body=await read_body(receive, max_bytes=max_body_bytes))


async def read_body(receive: Receive, *, max_bytes: int) -> bytes:
    """Read a whole body.

    Args:
        receive: the ASGI receive callable.
        max_bytes: a longer body is rejected while it arrives.

    Raises:
        FormatError: `message.too-large`.
        TransportError: `transport.disconnected`, the client closed the connection before the end of the body.
    """
    chunks, size, more = [], 0, True
    while more:
        chunk, more = await receive_chunk(receive)
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


async def receive_chunk(receive: Receive) -> tuple[bytes, bool]:
    """The next bytes of a body, and whether more follow.

    Raises:
        TransportError: `transport.disconnected`, the client closed the connection before the end of the body.
    """
    event = await receive()
    if event["type"] == "http.disconnect":
        raise TransportError("transport.disconnected", "the client closed the connection before the end of the body")
    return event.get("body", b""), event.get("more_body", False)


def too_large(max_bytes: int) -> FormatError:
    """The error for a body that is longer than the limit."""
    return FormatError("message.too-large", f"the body has more than {max_bytes} bytes")
