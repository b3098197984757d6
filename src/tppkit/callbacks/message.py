"""The exact bytes that a callback's signature covers, and the rules that leave them one reading only.

The service signs requestid + method + URL + body with nothing between them, and it signs GETs to addresses that strangers
choose with LOGIN codes. Without rules one signature fits several requests: the end of a URL can be read as a body, the
beginning of a method as the end of a requestid. Four rules leave one reading:

1. a requestid has only characters of its alphabet, never `:` or `/`; so the first `:` of the bytes is that of `https://`;
2. the method is GET or POST, exactly; neither ends with the other, so what stands before is the requestid;
3. the URL is one of the receiver's own addresses, none of which holds `{`, with a token of letters and digits where one belongs;
4. a POST's body begins with `{` and a GET's is empty; so the URL ends at the first `{` or at the end.

Settings can narrow or shift these rules within what keeps the reading single, and nothing beyond.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from tppkit._encoding import shown
from tppkit.errors import CallbackRejected, ConfigurationError

Header = tuple[str, str]

CLAUSE = "PSD2 document B.5"

# Assumption callback-request-id. A comma is how servers join two headers of one name.
_ID_LETTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")
_NEVER_IN_ID = frozenset(":/,")
_LONGEST_ID = 255


class ReceivedCallback(NamedTuple):
    """One request as a receiver's server has it. Nothing in it is proven.

    Attributes:
        method: as on the wire, for example `POST`.
        target: path and query exactly as on the wire, percent-encoding untouched; bytes beyond ASCII as Latin-1.
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

    def to_wire(self) -> bytes:
        """The request as HTTP/1.1 has it: first line, headers, empty line and body, and nothing of its own."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def signed_bytes(request_id: str, method: str, url: str, body: bytes = b"") -> bytes:
    """What a signature covers: requestid, method, URL and body, with nothing between them.

    Args:
        request_id: the header `requestid`.
        method: as on the wire.
        url: the whole address with `https://`; encoded as UTF-8.
        body: the raw bytes.

    Source: PSD2 document, part B section 5.
    """
    return f"{request_id}{method}{url}".encode() + body


@dataclass(frozen=True, slots=True)
class RequestIds:
    """Which requestids are taken.

    Attributes:
        further: visible ASCII characters that are taken beside letters, digits, `-` and `_`; never `:`, `/` or `,`.
        max_length: the longest, from 1 to 255.

    Raises:
        ConfigurationError: `callback.request-id-setting`.
    """

    further: str = ""
    max_length: int = 64
    _alphabet: frozenset[str] = field(init=False, repr=False, compare=False, default=_ID_LETTERS)

    def __post_init__(self) -> None:
        further = frozenset(self.further)
        if any(not "!" <= c <= "~" for c in further) or further & _NEVER_IN_ID:
            raise ConfigurationError(
                "callback.request-id-setting",
                f"requestids cannot have all of {shown(self.further)}: only visible ASCII, and never : / or ,",
            )
        if not 1 <= self.max_length <= _LONGEST_ID:
            raise ConfigurationError(
                "callback.request-id-setting", f"a longest requestid of {self.max_length} is not 1 to {_LONGEST_ID}"
            )
        object.__setattr__(self, "_alphabet", _ID_LETTERS | further)

    def allow(self, request_id: str) -> bool:
        """Whether a requestid is one."""
        return 0 < len(request_id) <= self.max_length and self._alphabet.issuperset(request_id)

    def require(self, request_id: str) -> None:
        """Refuse what is none.

        Raises:
            CallbackRejected: `callback.request-id`.
        """
        if not self.allow(request_id):
            raise CallbackRejected(
                "callback.request-id",
                f"the requestid {shown(request_id)} is not 1 to {self.max_length} letters, digits"
                f" or characters of {shown('-_' + self.further)}",
                clause=CLAUSE,
            )


def require_body(method: str, body: bytes) -> None:
    """Refuse a body that could also be the end of a URL, or a URL's end that could be a body.

    Args:
        method: GET or POST.
        body: the raw bytes.

    Raises:
        CallbackRejected: `callback.body`.
    """
    if method == "GET":
        if body:
            raise CallbackRejected("callback.body", f"a GET has a body of {len(body)} bytes", clause=CLAUSE)
    elif body[:1] != b"{":
        raise CallbackRejected(
            "callback.body",
            f"the body of {len(body)} bytes does not begin with {{, as a JSON object does",
            clause=CLAUSE,
        )
