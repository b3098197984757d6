"""Parsers of saved requests: raw HTTP/1.1, and the host and target of an absolute address."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.httpsig.signing_string import FIELD_NAME
from tppkit.message import Message

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_ADDRESS_LENGTH = 16 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_START_LINE = re.compile(rf"({FIELD_NAME}) ([\x21-\x7e]+) HTTP/1\.[01]".encode("ascii"))
_OBS_TEXT_LINE = re.compile(rf"({FIELD_NAME}) ([\x21-\x7e\x80-\xff]+) HTTP/1\.[01]".encode("latin-1"))
_ANY_VERSION = re.compile(rf"({FIELD_NAME}) ([\x21-\x7e]+) HTTP/[0-9](?:\.[0-9])?".encode("ascii"))
_BOM = b"\xef\xbb\xbf"
_NAME = re.compile(FIELD_NAME.encode("ascii"))
_FORBIDDEN = re.compile(rb"[\x00\r\n]")
_ADDRESS = re.compile(r"https?://(?:[^/?#@]*@)?([A-Za-z0-9._~\[\]:-]+)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE)


def parse_request(raw: bytes, *, as_found: bool = False, obs_text: bool = False) -> Message:
    """Parse a raw HTTP/1.1 request.

    The lines of the head all end like the first one, with CR LF or with LF (as saved by editors). Everything after the empty line
    is the body. A folded line is joined to the value before it with one space, as draft-cavage requires.

    Args:
        raw: start line, headers, empty line, body.
        as_found: also accept faults of saved requests: a byte order mark at the start, HTTP/2 in the start line, a body of another
            length than its headers state. Use it to diagnose a request, never to act on it.
        obs_text: allow bytes beyond ASCII in the target, which URIs cannot have but callback addresses may.

    Raises:
        FormatError: `message.malformed`, `message.too-large`; unless `as_found`, `message.length` for a Transfer-Encoding or a
            Content-Length that differs from the body's length.

    Source: RFC 9112 sections 2 to 6.
    """
    if len(raw) > MAX_MESSAGE_BYTES:
        raise FormatError("message.too-large", f"the request has more than {MAX_MESSAGE_BYTES} bytes")
    head, body = _split(raw.removeprefix(_BOM) if as_found else raw)
    start, *fields = _unfold(head)
    match = (_ANY_VERSION if as_found else _OBS_TEXT_LINE if obs_text else _START_LINE).fullmatch(start)
    if match is None:
        raise FormatError("message.malformed", f"the first line {shown(start)} is not METHOD target HTTP/1.1")
    message = Message.from_wire(match.group(1).decode(), match.group(2), [_field(line) for line in fields], body)
    if not as_found:
        check_length(message)
    return message


def _split(raw: bytes) -> tuple[list[bytes], bytes]:
    """Split a request into the lines of its head, which all end like the first one, and its body."""
    end = b"\r\n" if raw.partition(b"\n")[0].endswith(b"\r") else b"\n"
    head, found, body = raw.partition(end + end)
    lines = head.split(end) if found and len(head) <= _MAX_HEAD_BYTES else []
    if not lines or any(b"\r" in line or b"\n" in line for line in lines):
        raise FormatError("message.malformed", "no empty line ends the headers, or line ends are mixed")
    return lines, body


def _unfold(lines: list[bytes]) -> list[bytes]:
    """Join lines that begin with white space to the line before, with one space (RFC 9112 section 5.2)."""
    parts: list[list[bytes]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and len(parts) > 1:
            parts[-1].append(line.strip(b" \t"))
        else:
            parts.append([line])
    return [part[0] if len(part) == 1 else b" ".join([part[0].rstrip(b" \t"), *part[1:]]) for part in parts]


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, separator, value = line.partition(b":")
    if not separator or not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
        raise FormatError("message.malformed", f"the line {shown(line)} is not a header")
    return name, value.strip(b" \t")


def check_length(message: Message) -> None:
    """Reject a body whose length differs from the headers.

    Raises:
        FormatError: `message.length`, a Transfer-Encoding, or a Content-Length that differs from the body's length.
    """
    for difference in length_differences(message):
        raise FormatError("message.length", difference)


def length_differences(message: Message) -> Iterator[str]:
    """Yield the differences between the body and the headers about its length, as messages."""
    if message.values("transfer-encoding"):
        yield "the request has a Transfer-Encoding; pass the decoded body with its length"
    for length in message.values("content-length"):
        if not length.isdecimal() or len(length) > 20 or int(length) != len(message.body):
            yield f"Content-Length is {shown(length)}, the body has {len(message.body)} bytes"


def split_address(text: str) -> tuple[str, str]:
    """Return host and request target of an address without decoding, encoding or normalising it.

    Args:
        text: an absolute http or https address in ASCII.

    Raises:
        FormatError: `message.address`.
    """
    match = _ADDRESS.fullmatch(text) if len(text) <= MAX_ADDRESS_LENGTH else None
    if match is None or not (text.isascii() and text.isprintable()) or " " in text:
        raise FormatError("message.address", f"{shown(text)} is not an http or https address")
    host, path, query = match.groups()
    return host, f"{path or '/'}{query or ''}"
