"""The body of a WSGI request, in pieces. An exception that the server raises for a broken body is the peer's fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tppkit.errors import FormatError, TransportError
from tppkit.web.message import too_large
from tppkit.web.sources import Scope

_PIECE = 64 * 1024


def read_pieces(environ: Scope, *, max_bytes: int) -> Iterator[bytes]:
    """Read a body while it arrives, and at most one byte more than the limit.

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
    while wanted and (piece := _read(environ["wsgi.input"], min(wanted, _PIECE))):
        wanted -= len(piece)
        yield piece
    if length and wanted:
        raise TransportError("transport.disconnected", f"the body ends {wanted} bytes before its Content-Length")
    if not length and not wanted:
        raise too_large(max_bytes)


def _read(body: Any, size: int) -> bytes:
    try:
        piece: bytes = body.read(size)
    except (ConnectionError, TimeoutError) as e:
        raise TransportError("transport.disconnected", "the connection failed before the body's end") from e
    except Exception as e:  # servers raise any exception for malformed chunks
        raise FormatError("message.malformed", f"the body cannot be read: {type(e).__name__}") from e
    return piece
