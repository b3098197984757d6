"""Errors of an interface: a table from the codes of this package to its status and code, and the form of its error body."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tppkit._encoding import parse_json
from tppkit.errors import ConfigurationError, FormatError, TppkitError

MAX_TEXT = 500
MAX_CODE = 64
MAX_ERROR_BYTES = 64 * 1024
# Rows of every interface: requests that are malformed or incomplete, and a database that does not answer.
COMMON_ROWS = (
    ("header.", 400, "FORMAT_ERROR"),
    ("body.unexpected", 400, "FORMAT_ERROR"),
    ("query.", 400, "FORMAT_ERROR"),
    ("message.too-large", 413, "FORMAT_ERROR"),
    ("message.no-length", 411, "FORMAT_ERROR"),
    ("message.", 400, "FORMAT_ERROR"),
    ("transport.disconnected", 400, "FORMAT_ERROR"),  # the client may have closed its sending half only
    ("json.", 400, "FORMAT_ERROR"),
    ("model.", 400, "FORMAT_ERROR"),
    ("database.unavailable", 503, "SERVICE_UNAVAILABLE"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer.

    Attributes:
        status: HTTP status.
        code: the interface's code.
        text: an explanation without secrets; at most 500 characters are sent.
    """

    status: int
    code: str
    text: str


class RefusalRow(NamedTuple):
    """One row of an interface's error table.

    Attributes:
        code: a code of this package, or a prefix of codes that ends with a dot; the longest row that fits is used.
        status: HTTP status.
        peer_code: the interface's code.
    """

    code: str
    status: int
    peer_code: str

    def fits(self, code: str) -> bool:
        """Whether the row is for this code."""
        return code == self.code or (self.code.endswith(".") and code.startswith(self.code))


FAILURE = Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled")


@dataclass(frozen=True, slots=True)
class Refusals:
    """The error table of an interface and the form of its error body.

    Attributes:
        rows: the table.
        write: the body of a refusal.
        find: code and text in a parsed error body, each of any type; may raise LookupError, TypeError or AttributeError.

    Example:
        PSD2.refusals.refusal_for(error).status
    """

    rows: tuple[RefusalRow, ...]
    write: Callable[[Refusal], bytes]
    find: Callable[[Any], tuple[object, object]]

    def refusal_for(self, error: TppkitError) -> Refusal:
        """Return the answer to a failed request.

        For a code without a row, and for every `ConfigurationError`, the answer is 500 without details.
        """
        fits = [row for row in self.rows if row.fits(error.code)]
        if not fits or isinstance(error, ConfigurationError):
            return FAILURE
        row = max(fits, key=lambda row: len(row.code))
        if row.status >= 500:
            return Refusal(row.status, row.peer_code, "the request cannot be handled now")
        return Refusal(row.status, row.peer_code, f"{error.message} ({error.code})")

    def has(self, peer_code: str) -> bool:
        """Whether the table has a code of the interface, or it is that of a failure without a row."""
        return peer_code == FAILURE.code or any(row.peer_code == peer_code for row in self.rows)

    @staticmethod
    def is_error(raw: bytes) -> bool:
        """Whether a service may have written this error body: a JSON object with any names."""
        try:
            return isinstance(parse_json(raw, what="the error body", max_bytes=MAX_ERROR_BYTES), dict)
        except FormatError:
            return False

    def read(self, raw: bytes) -> tuple[str | None, str | None]:
        """Return code and text of a received error body, each None if it is absent. Never raises because of the bytes."""
        try:
            code, text = self.find(parse_json(raw, what="the error body", max_bytes=MAX_ERROR_BYTES))
        except (FormatError, LookupError, TypeError, AttributeError):
            return None, None
        return (code[:MAX_CODE] if isinstance(code, str) else None), (
            text[:MAX_TEXT] if isinstance(text, str) else None
        )


def write_error(refusal: Refusal) -> bytes:
    """Return the error body `{"error": {"code", "message"}}`, for `Refusals.write`."""
    error = {"code": refusal.code, "message": refusal.text[:MAX_TEXT]}
    return json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")).encode()


def find_error(body: Any) -> tuple[object, object]:
    """Return code and text of the body of `write_error`, for `Refusals.find`."""
    error = body["error"]
    return error.get("code"), error.get("message")
