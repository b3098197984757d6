"""An HTTP request as on the wire, and the signing string of draft-cavage (`rfc9421` has its own)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from tppkit._encoding import shown
from tppkit.errors import FormatError, SignatureRejected

Header = tuple[str, str]

_WHITE_SPACE = " \t"
# RFC 9110 sections 5.1 and 5.6.2: the name of a field.
FIELD_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME = re.compile(FIELD_NAME)
# A field name that a signature can cover: in lower case.
COVERED_FIELD = r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}"
_COVERED_FIELD = re.compile(COVERED_FIELD)
# No lower case, although RFC 9110 allows it: `(request-target)` is in lower case, so `post` would pass as `POST`.
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Z-]+")
REQUEST_TARGET = "(request-target)"
_USUAL_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
# RFC 9110 section 5.5: visible characters, spaces and tabs; bytes above 0x7f are kept as Latin-1.
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Message(NamedTuple):
    """An HTTP request. A named tuple, because it is the fastest to create.

    Attributes:
        method: as on the wire, for example `POST`.
        target: path and query exactly as on the wire, percent-encoding untouched, for example `/psd2/v1/payments?x=%2F`.
        headers: (name, value) in wire order, duplicates kept; values are bytes decoded as Latin-1.
        body: the raw bytes; empty if there is none.
    """

    method: str
    target: str
    headers: tuple[Header, ...] = ()
    body: bytes = b""

    def __repr__(self) -> str:
        # Headers contain keys, and bodies contain card and personal data.
        shown_parts = f"{self.method!r}, {self.target!r}, {len(self.headers)} headers, {len(self.body)} bytes"
        return f"{type(self).__name__}({shown_parts})"

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

    def values(self, name: str) -> tuple[str, ...]:
        """The values of every header field of this name (any case), in wire order."""
        wanted = name.lower()
        return tuple([value for field, value in self.headers if field.lower() == wanted])

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


def message_components(message: Message) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the parts of a message that a signature can cover, by lower-case name, and the names of duplicate fields.

    Field values are stripped of white space; several of one name are joined by `, ` in wire order. `(request-target)` is the
    lower-case method, a space and the target.

    Raises:
        FormatError: `message.malformed`, method or target is not valid in a start line.

    Source: draft-cavage-http-signatures-10 section 2.3.
    """
    method, target, headers, _ = message
    if method not in _USUAL_METHODS or not (target.isascii() and target.isprintable() and target) or " " in target:
        require_start_line(message)
    start = f"{method.lower()} {target}"
    components = {name.lower(): value.strip(_WHITE_SPACE) for name, value in headers}
    if len(components) == len(headers) and REQUEST_TARGET not in components:
        components[REQUEST_TARGET] = start
        return components, ()
    values = {REQUEST_TARGET: [start]}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value.strip(_WHITE_SPACE))
    doubled = tuple([name for name, lines in values.items() if len(lines) > 1])
    return {name: ", ".join(lines) for name, lines in values.items()}, doubled


def make_signing_string(covered: Sequence[str], components: Mapping[str, str]) -> bytes:
    """Return the bytes to sign: one line for each covered component, joined by line feeds.

    Args:
        covered: names in order, lower case.
        components: values by name, from `message_components` and `cavage.time_components`.

    Raises:
        SignatureRejected: `signature.header-absent`, a covered field is not in the request.
        FormatError: `header.control-character`; `message.malformed`, the target has a space; `signature.covered-names`, an
            unknown `(…)`.

    Source: draft-cavage-http-signatures-10 section 2.3.
    """
    try:
        lines = [f"{name}: {components[name]}" for name in covered]
    except KeyError as e:
        raise _absent(e.args[0]) from None
    text = "".join(lines)
    if not (text.isascii() and text.isprintable()):
        for name in covered:
            require_field_value(name, components[name])
    return "\n".join(lines).encode("latin-1")


def _absent(name: str) -> FormatError | SignatureRejected:
    if name[:1] == "(":
        return FormatError("signature.covered-names", f"{name} is not a part of this request that can be covered")
    return SignatureRejected(
        "signature.header-absent", f"the Signature header covers {name}, which is not in the request"
    )


def is_field_name(name: str) -> bool:
    """Whether `name` is a valid header name (RFC 9110 section 5.1)."""
    return bool(_NAME.fullmatch(name))


def is_covered_field(name: str) -> bool:
    """Whether `name` is a field name that a signature can cover: in lower case, at most 64 characters."""
    return bool(_COVERED_FIELD.fullmatch(name))


def require_start_line(message: Message) -> None:
    """Reject a method or target that is not valid in a start line.

    Raises:
        FormatError: `message.malformed`.
    """
    if message.method not in _USUAL_METHODS and not _METHOD.fullmatch(message.method):
        raise FormatError("message.malformed", f"the method {shown(message.method)} is not an upper-case token")
    target = message.target
    if not (target.isascii() and target.isprintable() and target and " " not in target):
        raise FormatError("message.malformed", f"the target {shown(message.target)} has a space or control character")


def require_field_value(name: str, value: str) -> None:
    """Reject a header value with a control character (a line break would forge another header).

    Raises:
        FormatError: `header.control-character`.
    """
    if not _VALUE.fullmatch(value):
        raise FormatError("header.control-character", f"the {name} header has a control character: {shown(value)}")
