"""A request as ASGI hands it over, turned into the message that was signed: raw path, raw query, raw body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tppkit._encoding import shown
from tppkit.errors import FormatError, TransportError
from tppkit.httpsig.message import Message

# A scope extension of servers that hand over the target as it stood on the wire: {"target": bytes}.
RAW_TARGET = "tppkit.raw_target"

Scope = Mapping[str, Any]
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
    return Message.from_wire(
        scope["method"], raw_target(scope), scope["headers"], await _read_body(receive, max_body_bytes)
    )


def raw_target(scope: Scope) -> bytes:
    """Path and query as they stood on the wire.

    Args:
        scope: an ASGI `http` scope, as for `read_message`.

    Raises:
        FormatError: `message.malformed`, `message.no-raw-path`.
    """
    raw = scope.get("extensions", {}).get(RAW_TARGET)
    target = bytes(raw["target"]) if raw else _from_path(scope)
    if not target.startswith(b"/") or b"#" in target:
        raise FormatError("message.malformed", f"the target {shown(target)} is not a path with a query")
    return target


def _from_path(scope: Scope) -> bytes:
    raw_path = scope.get("raw_path")
    if not raw_path:
        raise FormatError("message.no-raw-path", "the ASGI server gives no raw_path, so the signed target is not known")
    query = scope.get("query_string", b"")
    return bytes(raw_path) + (b"?" + query if query else b"")


async def _read_body(receive: Receive, limit: int) -> bytes:
    chunks, size = [], 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise TransportError("transport.disconnected", "the client left before the body's end")
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise FormatError("message.too-large", f"the body has more than {limit} bytes")
        chunks.append(chunk)
        if not event.get("more_body", False):
            return b"".join(chunks)
