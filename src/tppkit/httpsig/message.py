"""One HTTP request as it stands on the wire: the thing that is signed and verified."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tppkit._encoding import shown
from tppkit.errors import FormatError

Header = tuple[str, str]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USUAL_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
# RFC 9110 section 5.5: visible characters, spaces and tabs; bytes above 0x7f are kept as Latin-1.
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Message:
    """An HTTP request.

    Attributes:
        method: as on the wire, for example `POST`.
        target: path and query exactly as on the wire, percent-encoding untouched, for example `/psd2/v1/payments?x=%2F`.
        headers: (name, value) in wire order, duplicates kept; values hold bytes as Latin-1.
        body: the raw bytes; empty when there is none.
    """

    method: str
    target: str
    headers: tuple[Header, ...] = ()
    body: bytes = b""

    @classmethod
    def from_wire(cls, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Self:
        """Take over a received request without changing a byte of it."""
        decoded = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
        return cls(method, target.decode("latin-1"), decoded, body)

    def values(self, name: str) -> tuple[str, ...]:
        """The values of every header field of this name (any case), in wire order."""
        wanted = name.lower()
        return tuple(value for field, value in self.headers if field.lower() == wanted)

    def with_headers(self, *headers: Header) -> Message:
        """The same message with these header fields added at the end."""
        return Message(self.method, self.target, (*self.headers, *headers), self.body)


def check_start_line(message: Message) -> None:
    """Refuse a method or target that could not stand in a start line.

    Raises:
        FormatError: `message.malformed`.
    """
    if message.method not in _USUAL_METHODS and not _TOKEN.fullmatch(message.method):
        raise FormatError("message.malformed", f"the method {shown(message.method)} is not a token")
    target = message.target
    if not (target.isascii() and target.isprintable() and target and " " not in target):
        raise FormatError("message.malformed", f"the target {shown(message.target)} holds a space or control character")


def check_field_value(name: str, value: str) -> None:
    """Refuse a header value that holds a control character (a line break would forge another header).

    Raises:
        FormatError: `header.control-character`.
    """
    if not _VALUE.fullmatch(value):
        raise FormatError("header.control-character", f"the {name} header holds a control character: {shown(value)}")
