"""HTTP requests and answers as on the wire. What is signed is these bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from tppkit.errors import FormatError

Header = tuple[str, str]


class Message(NamedTuple):
    """An HTTP request as a server receives it or a client sends it, unverified. A named tuple, because it is the fastest to create.

    Attributes:
        method: as on the wire, for example `POST`.
        target: path and query exactly as on the wire, percent-encoding untouched, for example `/psd2/v1/payments?x=%2F`.
        headers: (name, value) in wire order, duplicates kept; values are bytes decoded as Latin-1.
        body: the raw bytes; empty if there is none.

    Example:
        message = Message("POST", "/psd2/v1/payments", (("Content-Type", "application/json"),), b"{}")
        message.single("content-type")
    """

    method: str
    target: str
    headers: tuple[Header, ...] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        # Headers contain keys, bodies card and personal data, and targets the tokens of addresses.
        return f"{type(self).__name__}({self.method!r}, {len(self.headers)} headers, {len(self.body)} bytes)"

    def __sentry_repr__(self) -> str:
        return repr(self)  # otherwise Sentry shows the items of a tuple

    @classmethod
    def from_wire(cls, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Self:
        """Build a message from the raw parts of a request without changing a byte."""
        decoded = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])
        return cls(method, target.decode("latin-1"), decoded, body)

    @classmethod
    def from_httpx(cls, request: Any) -> Self:
        """Build a message from a request of httpx or httpx2, as it goes over the wire.

        Args:
            request: an `httpx.Request` whose body is not a stream; otherwise call its `read` first.
        """
        return cls.from_wire(request.method, request.url.raw_path, request.headers.raw, request.content)

    def to_wire(self) -> bytes:
        """Return the request as HTTP/1.1 bytes, without adding headers."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    def values(self, name: str) -> tuple[str, ...]:
        """The values of every header field of this name (any case), in wire order."""
        return _values(self.headers, name)

    def single(self, name: str) -> str | None:
        """The value of the header field of this name (any case), None if it is absent.

        Raises:
            FormatError: `header.duplicate`.
        """
        values = self.values(name)
        if len(values) > 1:
            raise FormatError("header.duplicate", f"the {name} header appears more than once")
        return values[0] if values else None

    def with_headers(self, *headers: Header) -> Message:
        """The same message with these header fields added at the end."""
        return Message(self.method, self.target, (*self.headers, *headers), self.body)


class Answer(NamedTuple):
    """An HTTP answer, unverified.

    Attributes:
        status: HTTP status.
        headers: (name, value) in order, duplicates kept; values are bytes decoded as Latin-1.
        body: the raw bytes.

    Example:
        Answer(200, (("Content-Type", "application/json"),), b"{}")
    """

    status: int
    headers: tuple[Header, ...]
    body: bytes

    def __repr__(self) -> str:
        # Bodies contain personal data.
        return f"{type(self).__name__}({self.status}, {len(self.headers)} headers, {len(self.body)} bytes)"

    def __sentry_repr__(self) -> str:
        return repr(self)  # otherwise Sentry shows the items of a tuple

    @classmethod
    def from_wire(cls, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> Self:
        """Build an answer from its raw parts without changing a byte."""
        return cls(status, tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]), body)

    def values(self, name: str) -> tuple[str, ...]:
        """The values of every header field of this name (any case), in wire order."""
        return _values(self.headers, name)

    def with_headers(self, *headers: Header) -> Answer:
        """The same answer with these header fields added at the end."""
        return Answer(self.status, (*self.headers, *headers), self.body)


def _values(headers: tuple[Header, ...], name: str) -> tuple[str, ...]:
    wanted = name.lower()
    return tuple([value for field, value in headers if field.lower() == wanted])
