"""The exact bytes that a callback's signature covers, and the rules that make them unambiguous.

The service signs requestid + method + URL + body with nothing between them. It also signs GETs to addresses that attackers
choose with LOGIN codes. Without rules, one signature fits several requests: the end of a URL can be read as a body, the
beginning of a method as the end of a requestid. Four rules leave only one reading:

1. A requestid has only characters of its alphabet, never `:` or `/`. So the first `:` belongs to `https://`.
2. The method is exactly GET or POST. Neither is a suffix of the other, so the bytes before it are the requestid.
3. The URL is one of the receiver's own addresses, with its token if it has one. No address contains `{`.
4. The body of a POST begins with `{`, that of a GET is empty. So the URL ends at the first `{` or at the end.

No setting can make the bytes ambiguous.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, VerificationError

CLAUSE = "PSD2 document B.5"

# Assumption callback-request-id. No comma, because servers join two headers of one name with it.
_ID_LETTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_")
_NEVER_IN_ID = frozenset(":/,")
_LONGEST_ID = 255


class CallbackRejected(VerificationError):
    """A callback or login GET is malformed, breaks a rule, or lacks a signature by a trusted key."""


def signed_bytes(request_id: str, method: str, url: str, body: bytes = b"") -> bytes:
    """Return the bytes that a signature covers: requestid, method, URL and body, concatenated.

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
    """The accepted requestids.

    Attributes:
        further: visible ASCII characters to accept in addition to letters, digits, `-` and `_`; never `:`, `/` or `,`.
        max_length: the maximum length, 1 to 255.

    Raises:
        ConfigurationError: `callback.request-id-setting`.

    Example:
        CallbackReceiver(addresses, keys=[key], request_ids=RequestIds(further="."))
    """

    further: str = ""
    max_length: int = 64
    _alphabet: frozenset[str] = field(init=False, repr=False, compare=False, default=_ID_LETTERS)

    def __post_init__(self) -> None:
        further = frozenset(self.further)
        if any(not "!" <= c <= "~" for c in further) or further & _NEVER_IN_ID:
            raise ConfigurationError(
                "callback.request-id-setting",
                f"requestids cannot contain all of {shown(self.further)}: only visible ASCII except : / and , is allowed",
            )
        if not 1 <= self.max_length <= _LONGEST_ID:
            raise ConfigurationError(
                "callback.request-id-setting", f"a maximum length of {self.max_length} is not 1 to {_LONGEST_ID}"
            )
        object.__setattr__(self, "_alphabet", _ID_LETTERS | further)

    def allow(self, request_id: str) -> bool:
        """Whether a requestid is accepted."""
        return 0 < len(request_id) <= self.max_length and self._alphabet.issuperset(request_id)

    def require(self, request_id: str) -> None:
        """Reject a requestid that is not accepted.

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
    """Reject a body that could also be read as the end of the URL: a GET's must be empty, a POST's must begin with `{`.

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
            f"the body of {len(body)} bytes does not begin with {{ as a JSON object does",
            clause=CLAUSE,
        )
