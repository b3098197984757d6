"""Typed fields out of JSON objects. Plain Python: receivers of callbacks need no model library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any

from tppkit._encoding import parse_json
from tppkit.errors import FormatError

MAX_BODY_BYTES = 64 * 1024
_LARGEST_INTEGER = 2**63 - 1  # what a database column holds
_TEXT = frozenset({str})
_TEXT_OR_ABSENT = frozenset({str, type(None)})


class Fields:
    """A JSON object whose fields are taken one by one; what is not taken is kept.

    Args:
        raw: the body's bytes.
        what: the object's name for messages.

    Raises:
        FormatError: `json.*`; `model.invalid` when it is not an object.
    """

    def __init__(self, raw: bytes, *, what: str) -> None:
        self._what = what
        value = parse_json(raw, what=what, max_bytes=MAX_BODY_BYTES)
        if type(value) is not dict:
            raise self.invalid("body", "not a JSON object")
        self._left: dict[str, Any] = value

    def invalid(self, name: str, reason: str) -> FormatError:
        """The failure of a field, by its name and never with its value."""
        return FormatError("model.invalid", f"{self._what}: {name}: {reason}")

    def identifier(self, name: str) -> str:
        """A required text that decides something: not empty, printable."""
        value = self._left.pop(name, None)
        if type(value) is not str or not value or not value.isprintable():
            raise self.invalid(name, "not a printable text")
        return value

    def integer(self, name: str) -> int:
        """A required integer of at most 63 bits, not negative."""
        value = self._left.pop(name, None)
        if type(value) is not int or not 0 <= value <= _LARGEST_INTEGER:
            raise self.invalid(name, "not an integer from 0 to 2^63-1")
        return value

    def descriptions(self, names: Sequence[str]) -> list[str | None]:
        """Texts that only describe: kept as they came, None where absent."""
        values = list(map(self._left.pop, names, repeat(None)))
        if not _TEXT_OR_ABSENT.issuperset(map(type, values)):
            wrong = next(name for name, value in zip(names, values, strict=True) if type(value) not in _TEXT_OR_ABSENT)
            raise self.invalid(wrong, "not a text")
        return values

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of texts, empty when absent."""
        value = self._left.pop(name, None)
        if value is None:
            return ()
        if type(value) is not list or not _TEXT.issuperset(map(type, value)):
            raise self.invalid(name, "not an array of texts")
        return tuple(value)

    def rest(self) -> Mapping[str, Any]:
        """The fields that nobody took."""
        return MappingProxyType(self._left) if self._left else _NO_FIELDS


_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


def no_fields() -> Mapping[str, Any]:
    """The empty, read-only mapping."""
    return _NO_FIELDS


def write_object(fields: Mapping[str, Any], *, unknown: Mapping[str, Any]) -> bytes:
    """A JSON object in UTF-8, compact, absent fields left out."""
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({**unknown, **present}, ensure_ascii=False, separators=(",", ":")).encode()


def listed(values: Sequence[object]) -> list[str] | None:
    """Values as an array of their texts, None when there are none."""
    return [str(value) for value in values] or None
