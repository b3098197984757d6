"""A request as ASGI or WSGI hands it over, turned into the message that was signed: raw path, raw query, raw body."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tppkit._encoding import shown
from tppkit.errors import FormatError, TransportError
from tppkit.httpsig.message import Message

# A scope extension of servers that hand over the target as it stood on the wire: {"target": bytes}.
RAW_TARGET = "tppkit.raw_target"
# Where WSGI servers, which have no standard for it, put the target: gunicorn; waitress, Werkzeug, uWSGI and mod_wsgi.
WSGI_TARGETS = ("RAW_URI", "REQUEST_URI")

_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)

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
        scope["method"], raw_target(scope), scope["headers"], await read_body(receive, max_bytes=max_body_bytes)
    )


def read_head(source: Scope) -> Message:
    """The request without its body.

    Args:
        source: an ASGI `http` scope or a WSGI environ.

    Raises:
        FormatError: `message.malformed`, `message.no-raw-path`.
    """
    if "headers" in source:
        return Message.from_wire(source["method"], raw_target(source), source["headers"], b"")
    return Message(source["REQUEST_METHOD"], raw_target(source).decode("latin-1"), environ_headers(source))


def raw_target(source: Scope) -> bytes:
    """Path and query as they stood on the wire; never put together again from what was decoded.

    Args:
        source: an ASGI `http` scope, as for `read_message`, or a WSGI environ with `RAW_URI` or `REQUEST_URI`. Of a WSGI
            target in absolute form (RFC 9112 section 3.2.2) scheme and host are taken off.

    Raises:
        FormatError: `message.malformed`, `message.no-raw-path`.
    """
    raw = source.get("extensions", {}).get(RAW_TARGET)
    if raw:
        target = bytes(raw["target"])
    else:
        target = _from_path(source) if "headers" in source else _from_environ(source)
    if not target.startswith(b"/") or b"#" in target:
        raise FormatError("message.malformed", f"the target {shown(target)} is not a path with a query")
    return target


def header_values(source: Scope, name: str) -> tuple[str, ...]:
    """The values of every header field of this name; a WSGI server has joined them to one before.

    Args:
        source: an ASGI `http` scope or a WSGI environ.
        name: in any case.
    """
    if "headers" in source:
        wanted = name.lower().encode("latin-1")
        return tuple(value.decode("latin-1") for field, value in source["headers"] if field.lower() == wanted)
    value = source.get("HTTP_" + name.upper().replace("-", "_"))
    return () if value is None else (value,)


def _from_path(scope: Scope) -> bytes:
    raw_path = scope.get("raw_path")
    if not raw_path:
        raise FormatError("message.no-raw-path", "the ASGI server gives no raw_path, so the signed target is not known")
    query = scope.get("query_string", b"")
    return bytes(raw_path) + (b"?" + query if query else b"")


def _from_environ(environ: Scope) -> bytes:
    targets = {environ[name] for name in WSGI_TARGETS if environ.get(name)}
    if len(targets) != 1:
        raise FormatError(
            "message.no-raw-path",
            f"the WSGI server gives {len(targets) or 'no'} raw targets in {' and '.join(WSGI_TARGETS)},"
            " so the signed one is not known",
        )
    target: str = targets.pop()
    found = _AUTHORITY.match(target)
    return target[found.end() if found else 0 :].encode("latin-1", "replace")


def environ_headers(environ: Scope) -> tuple[tuple[str, str], ...]:
    """The header fields of a WSGI environ, names in lower case; the server has joined those of one name before."""
    fields = [
        (name[5:].replace("_", "-").lower(), value) for name, value in environ.items() if name.startswith("HTTP_")
    ]
    own = [(name.replace("_", "-").lower(), environ.get(name)) for name in ("CONTENT_TYPE", "CONTENT_LENGTH")]
    return (*fields, *((name, value) for name, value in own if value))


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
