"""Requests as servers pass them, with head and body: ASGI scope and events, or a WSGI environ; and answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Protocol

from tppkit._encoding import shown
from tppkit.errors import FormatError, TransportError
from tppkit.message import Answer, Message

# A scope extension of servers that pass the target as on the wire: {"target": bytes}.
RAW_TARGET = "tppkit.raw_target"
# WSGI has no standard name for the target: gunicorn; waitress, Werkzeug, uWSGI and mod_wsgi.
WSGI_TARGETS = ("RAW_URI", "REQUEST_URI")
UNIX = "unix"
# Where the middlewares put the caller: a name in the ASGI scope and in the WSGI environ.
KEY = "tppkit.caller"
_STRANGER = "?"  # an address that a header claimed

_PIECE = 64 * 1024
_AUTHORITY = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_OWN_KEYS = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Event = MutableMapping[str, Any]
Send = Callable[[Event], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]


class Source(Protocol):
    """A request without its body: an `AsgiSource` or a `WsgiSource`.

    Example:
        def refuse(source: Source, error: Exception) -> Answer:
            return gate.refuse(source, error)
    """

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def extensions(self) -> Mapping[str, Any]:
        """The ASGI extensions; none under WSGI."""

    @property
    def mount(self) -> str:
        """The prefix of the path that is not used for routing in the application; empty at the root."""

    @property
    def is_http1(self) -> bool:
        """Whether it came by HTTP/1.0 or 1.1."""

    @property
    def caller(self) -> object:
        """The `Caller` of a request that passed a seal middleware, otherwise None."""

    def raw_target(self) -> bytes:
        """Path and query as on the wire; never rebuilt from decoded parts.

        Raises:
            FormatError: `message.malformed`, `message.no-raw-path`.
        """

    def decoded_target(self) -> tuple[bytes, str]:
        """The path that the application sees, decoded and with the mount, and the query as on the wire."""

    def head(self) -> Message:
        """The request without its body.

        Raises:
            FormatError: `message.malformed`, `message.no-raw-path`.
        """

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The header fields, bytes as Latin-1. WSGI: names in lower case; of those of one name, the value that the server passes."""

    def header_names(self) -> frozenset[str]:
        """The names of all headers, lower case."""

    def header_values(self, name: str) -> tuple[str, ...]:
        """The values of every header field of this name, in any case; a WSGI server passes one value, usually all joined."""

    def address(self) -> str | None:
        """The address of the connection: `unix` for a Unix socket, `?` for one that a header claimed, None if unknown.

        A missing address alone does not mean a Unix socket: a reset TCP connection has none either. The server must state that it
        listens on one (ASGI: `server` without a port; WSGI: `gunicorn.socket`). Port 0 and the text `unix` come from a header.
        """


class AsgiSource:
    """An ASGI scope.

    Args:
        scope: of the type `http`, with `raw_path` or the extension `tppkit.raw_target`.

    Attributes:
        extensions: see `Source`.
        raw_headers: The header fields without white space around a value, which some servers leave (RFC 9110 section 5.5). A copy:
            uvicorn with httptools later appends trailers to the scope's list.

    Example:
        peer_certificate(AsgiSource(request.scope))
    """

    __slots__ = ("_headers", "_names", "_scope", "_target", "extensions", "raw_headers")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.extensions: Mapping[str, Any] = scope.get("extensions") or {}
        self.raw_headers = tuple([(name, value.strip(b" \t")) for name, value in scope.get("headers", ())])
        self._headers = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.raw_headers])
        self._names = frozenset([name.lower() for name, _ in self._headers])
        self._target: bytes | None = None

    @property
    def method(self) -> str:
        """See `Source`."""
        return str(self._scope["method"])

    @property
    def mount(self) -> str:
        """See `Source`."""
        return str(self._scope.get("root_path") or "")

    @property
    def is_http1(self) -> bool:
        """See `Source`."""
        return str(self._scope.get("http_version", "1.1")).startswith("1")

    @property
    def caller(self) -> object:
        """See `Source`."""
        return self._scope.get(KEY)

    def raw_target(self) -> bytes:
        """See `Source`."""
        if self._target is None:
            self._target = self._read_target()
        return self._target

    def _read_target(self) -> bytes:
        raw = self.extensions.get(RAW_TARGET)
        if raw:
            return _require_path(bytes(raw["target"]))
        raw_path, query = self._scope.get("raw_path"), self._scope.get("query_string", b"")
        if not raw_path:
            raise FormatError(
                "message.no-raw-path", "the ASGI server gives no raw_path, so the signed target is not known"
            )
        return _require_path(bytes(raw_path) + (b"?" + query if query else b""))

    def decoded_target(self) -> tuple[bytes, str]:
        """See `Source`."""
        query = self._scope.get("query_string", b"").decode("latin-1")
        return self._scope["path"].encode("utf-8", "surrogateescape"), query

    def head(self) -> Message:
        """See `Source`."""
        return Message(self.method, self.raw_target().decode("latin-1"), self._headers)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """See `Source`."""
        return self._headers

    def header_names(self) -> frozenset[str]:
        """See `Source`."""
        return self._names

    def header_values(self, name: str) -> tuple[str, ...]:
        """See `Source`."""
        wanted = name.lower()
        return tuple([value for field, value in self._headers if field.lower() == wanted])

    def address(self) -> str | None:
        """See `Source`."""
        client, server = self._scope.get("client"), self._scope.get("server")
        if client is None:
            return UNIX if server is not None and server[1] is None else None
        return _tcp_address(str(client[0])) if client[1] else _STRANGER


class WsgiSource:
    """A WSGI environ.

    Args:
        environ: with `RAW_URI` or `REQUEST_URI`. Scheme and host of a target in absolute form (RFC 9112 section 3.2.2) are removed.

    Attributes:
        environ: A copy without white space around the values of header fields (RFC 9110 section 5.5).

    Example:
        peer_certificate(WsgiSource(request.environ))
    """

    __slots__ = ("environ",)

    extensions: Mapping[str, Any] = {}

    def __init__(self, environ: Scope) -> None:
        self.environ = dict(environ)
        for key, value in environ.items():
            if key.startswith("HTTP_") or key in _OWN_KEYS.values():
                self.environ[key] = value.strip(" \t")

    @property
    def method(self) -> str:
        """See `Source`."""
        return str(self.environ["REQUEST_METHOD"])

    @property
    def mount(self) -> str:
        """See `Source`."""
        return str(self.environ.get("SCRIPT_NAME") or "")

    @property
    def is_http1(self) -> bool:
        """See `Source`."""
        return str(self.environ.get("SERVER_PROTOCOL", "HTTP/1.1")).startswith("HTTP/1")

    @property
    def caller(self) -> object:
        """See `Source`."""
        return self.environ.get(KEY)

    def raw_target(self) -> bytes:
        """See `Source`."""
        targets = {self.environ[name] for name in WSGI_TARGETS if self.environ.get(name)}
        if len(targets) != 1:
            raise FormatError(
                "message.no-raw-path",
                f"the WSGI server gives {len(targets) or 'no'} raw targets in {' and '.join(WSGI_TARGETS)},"
                " so the signed one is not known",
            )
        target: str = targets.pop()
        found = _AUTHORITY.match(target)
        return _require_path(target[found.end() if found else 0 :].encode("latin-1", "replace"))

    def decoded_target(self) -> tuple[bytes, str]:
        """See `Source`."""
        path = self.environ.get("SCRIPT_NAME", "") + self.environ.get("PATH_INFO", "")
        return path.encode("latin-1", "replace"), self.environ.get("QUERY_STRING", "")

    def head(self) -> Message:
        """See `Source`."""
        return Message(self.method, self.raw_target().decode("latin-1"), self.headers())

    def headers(self) -> tuple[tuple[str, str], ...]:
        """See `Source`."""
        own = ((name, self.environ.get(key)) for name, key in _OWN_KEYS.items())
        return (
            *(
                (key[5:].replace("_", "-").lower(), value)
                for key, value in self.environ.items()
                if key.startswith("HTTP_")
            ),
            *((name, value) for name, value in own if value),
        )

    def header_names(self) -> frozenset[str]:
        """See `Source`."""
        return frozenset(name for name, _ in self.headers())

    def header_values(self, name: str) -> tuple[str, ...]:
        """See `Source`."""
        own = _OWN_KEYS.get(name.lower())
        if own is not None:
            value = self.environ.get(own) or None
        else:
            value = self.environ.get("HTTP_" + name.upper().replace("-", "_"))
        return () if value is None else (value,)

    def address(self) -> str | None:
        """See `Source`."""
        original: Scope = self.environ.get("werkzeug.proxy_fix.orig", self.environ)
        family = getattr(self.environ.get("gunicorn.socket"), "family", None)
        address = original.get("REMOTE_ADDR")
        return _tcp_address(address) if address else (UNIX if family == socket.AF_UNIX else None)


def require_length_announced(source: Source) -> None:
    """Reject a request whose proxy headers may be trailers of its client.

    Raises:
        FormatError: `message.no-length`.

    Source: RFC 9110 section 6.5, Trailer Fields; RFC 9112 section 7.1.2.
    """
    if source.header_values("transfer-encoding"):
        raise FormatError(
            "message.no-length",
            "the request has a Transfer-Encoding, so what looks like a proxy's header may be its client's trailer",
        )


def _tcp_address(text: str) -> str:
    return _STRANGER if text == UNIX else text


def _require_path(target: bytes) -> bytes:
    if not target.startswith(b"/") or b"#" in target:
        raise FormatError("message.malformed", f"the target {shown(target)} is not a path with a query")
    return target


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer, unless the client has disconnected."""
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    with suppress(OSError):  # the ASGI specification: raised for a closed connection
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def give_answer(start_response: StartResponse, answer: Answer, environ: Environ) -> list[bytes]:
    """Start a whole answer, and return its body; to HEAD it is empty."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", list(answer.headers))
    return [b"" if environ.get("REQUEST_METHOD") == "HEAD" else answer.body]


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
        if chunk:  # HTTP/2 has empty frames, and each would be held
            chunks.append(chunk)
    return b"".join(chunks)


async def receive_chunk(receive: Receive) -> tuple[bytes, bool]:
    """Return the next bytes of a body, and whether more follow.

    Raises:
        TransportError: `transport.disconnected`, the client closed the connection before the end of the body.
    """
    event = await receive()
    if event["type"] == "http.disconnect":
        raise TransportError("transport.disconnected", "the client closed the connection before the end of the body")
    return event.get("body", b""), event.get("more_body", False)


def too_large(max_bytes: int) -> FormatError:
    """Return the error for a body that is longer than the limit."""
    return FormatError("message.too-large", f"the body has more than {max_bytes} bytes")


def require_unread(source: Source, body: bytes) -> bytes:
    """Return a body, unless it is shorter than its valid Content-Length: servers pass the whole, Starlette nothing of what was read.

    Raises:
        FormatError: `message.body-read`.
    """
    if any(len(body) < int(length) for length in source.header_values("content-length")):
        raise body_read()
    return body


def body_read() -> FormatError:
    """Return the error for a body that the application has consumed."""
    return FormatError("message.body-read", "the application has parsed the body as a form, or read its stream, before")


def require_length(source: Source, *, max_bytes: int) -> None:
    """Reject a body whose Content-Length is above the limit.

    Args:
        source: the request as the server passes it.
        max_bytes: the limit.

    Raises:
        FormatError: `message.too-large`, `message.malformed`.
    """
    for length in source.header_values("content-length"):
        if not (length.isascii() and length.isdecimal() and len(length) <= 18):
            raise FormatError("message.malformed", "the Content-Length is not a number")
        if int(length) > max_bytes:
            raise FormatError("message.too-large", f"a body of {length} bytes is announced")


def read_pieces(environ: Scope, *, max_bytes: int) -> Iterator[bytes]:
    """Read the body of a WSGI request while it arrives, and at most one byte more than the limit.

    Args:
        environ: a WSGI environ, whose Content-Length, if any, is a number within the limit.
        max_bytes: the longest body.

    Raises:
        FormatError: `message.too-large`; `message.malformed`, its chunks are malformed, or the server does not show where they end.
        TransportError: `transport.disconnected`, the client closed the connection before the end of the body.
    """
    length, is_ended = environ.get("CONTENT_LENGTH"), environ.get("wsgi.input_terminated")
    if not length and not is_ended:
        if environ.get("HTTP_TRANSFER_ENCODING"):
            raise FormatError("message.malformed", "the WSGI server does not show where a chunked body ends")
        return
    wanted = int(length) if length else max_bytes + 1
    while wanted and (piece := _read_piece(environ["wsgi.input"], min(wanted, _PIECE))):
        wanted -= len(piece)
        yield piece
    if length and wanted:
        raise TransportError("transport.disconnected", f"the body ends {wanted} bytes before its Content-Length")
    if not length and not wanted:
        raise too_large(max_bytes)


def _read_piece(body: Any, size: int) -> bytes:
    try:
        piece: bytes = body.read(size)
    except (ConnectionError, TimeoutError) as e:
        raise TransportError("transport.disconnected", "the connection failed before the body's end") from e
    except Exception as e:  # servers raise any exception for malformed chunks
        raise FormatError("message.malformed", f"the body cannot be read: {type(e).__name__}") from e
    return piece
