"""JSON bodies as serialisers write them anew, the usual ones of JavaScript, Python, Java, Go and PHP.

Numbers and texts stay as they stand in the body, so that none of these rows hides an amount that is another, and none calls an
escape white space. A number that is written otherwise, one that became another by rounding, and escapes are rows of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from tppkit._encoding import parse_json
from tppkit.errors import FormatError
from tppkit.seals.diagnose.mistake import BodyMistake, Part

MAX_JSON_BYTES = 1024 * 1024
BOM = b"\xef\xbb\xbf"
RAW = "Hash the very bytes that are sent: serialise once, keep them, and hand the same bytes to the digest and to the HTTP client."

_COMPACT = (",", ":")
_AMOUNT = re.compile(r"-?[0-9]{1,14}\.[0-9]{1,3}")
# Every text and number of a JSON document.
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*+"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL)
# A text with its escapes.
_TEXT = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+)"')
_WRITTEN = re.compile(r'\\(["\\])')
_PLAIN = re.compile(r"(-?[0-9]{1,40})(?:\.([0-9]{1,40}))?")
_NUMBER = re.compile(rf"{_PLAIN.pattern}(?:[eE][+-]?[0-9]{{1,2}})?")


class _Document(NamedTuple):
    """A JSON value whose texts are what stands in the body between quotes, escapes and all; numbers the same, between two marks."""

    value: Any
    mark: str

    def text(self, **options: Any) -> str:
        """Written by `json.dumps` with these options of white space and order."""
        written = json.dumps(self.value, ensure_ascii=False, **options)
        if "\\" in written:
            written = _WRITTEN.sub(r"\1", written)
        return written.replace(f'"{self.mark}', "").replace(f'{self.mark}"', "")

    def compact(self) -> str:
        """Without white space."""
        return self.text(separators=_COMPACT)


Write = Callable[[_Document], str]
Number = Callable[[str], str]


def _row(name: str, cause: str, apply: Callable[[bytes], Iterable[bytes]], mend: str = RAW) -> BodyMistake:
    return BodyMistake(name, Part.BODY, cause, mend, apply)


def _read(body: bytes) -> _Document | None:
    # No text of the body can hold a hash of the whole of it, so no text is taken for a number.
    mark = hashlib.sha256(body).hexdigest()[:24]
    if len(body) > MAX_JSON_BYTES:
        return None
    try:
        raw = body.removeprefix(BOM)
        raw = _TEXT.sub(_as_it_stands, raw.decode()).encode() if b"\\" in raw else raw
        value = parse_json(
            raw, what="the body", max_bytes=2 * MAX_JSON_BYTES, number=lambda text: f"{mark}{text}{mark}"
        )
    except (FormatError, UnicodeError):
        return None
    return _Document(value, mark)


def _as_it_stands(text: re.Match[str]) -> str:
    """A text that is read as what stands between the quotes of this one."""
    return json.dumps(text[1], ensure_ascii=False) if "\\" in text[1] else text[0]


def _json(*writers: Write) -> Callable[[bytes], Iterator[bytes]]:
    """The body read as JSON and written again, where it is JSON."""

    def apply(body: bytes) -> Iterator[bytes]:
        document = _read(body)
        for write in writers if document is not None else ():
            try:
                yield write(document).encode("utf-8")  # type: ignore[arg-type]  # not None, or there is no writer
            except (UnicodeError, ValueError, RecursionError):
                continue

    return apply


def _dumps(**options: Any) -> Write:
    return lambda document: document.text(**options)


def _compact(document: _Document) -> str:
    return document.compact()


def _pretty_spaced_colon(document: _Document) -> str:
    # Jackson's default printer has spaces on both sides of a colon.
    return document.text(indent=2, separators=(",", " : "))


def _changed(change: Callable[[Any, str], Any], write: Write) -> Write:
    return lambda document: write(document._replace(value=change(document.value, document.mark)))


def _without_nulls(value: Any, mark: str) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member, mark) for name, member in value.items() if member is not None}
    return [_without_nulls(member, mark) for member in value] if isinstance(value, list) else value


def _from_texts(number: Number) -> Callable[[Any, str], Any]:
    """Amounts that a serialiser wrote as numbers where the request has texts."""

    def change(value: Any, mark: str) -> Any:
        if isinstance(value, dict):
            return {name: change(member, mark) for name, member in value.items()}
        if isinstance(value, list):
            return [change(member, mark) for member in value]
        return f"{mark}{number(value)}{mark}" if isinstance(value, str) and _AMOUNT.fullmatch(value) else value

    return change


def _numbers(*forms: Number) -> Callable[[bytes], Iterator[bytes]]:
    """Each number of a JSON body in another form, nothing else touched; all of them, and those with a fraction alone."""

    def apply(body: bytes) -> Iterator[bytes]:
        if _read(body) is None:
            return
        # What stands between tokens and the tokens, by turns: cut once, because a long body has thousands of numbers.
        parts = _TOKEN.split(body.decode("utf-8"))
        numbers = {part for part in parts[1::2] if _NUMBER.fullmatch(part)}
        fractions = {number for number in numbers if not number.lstrip("-").isdecimal()}
        for form in forms:
            for chosen in (numbers, fractions):
                changed = {number: form(number) for number in chosen}
                if any(number != written for number, written in changed.items()):
                    yield "".join([changed.get(part, part) for part in parts]).encode("utf-8")

    return apply


def _shortest(number: str) -> str:
    """12.50 as 12.5, 12.00 as 12."""
    return re.sub(r"\.?0+$", "", number) if _PLAIN.fullmatch(number) and "." in number else number


def _one_decimal(number: str) -> str:
    """12.50 as 12.5, 12.00 and 12 as 12.0, as Python and Java write a floating-point number."""
    short = _shortest(number)
    return f"{short}.0" if short.removeprefix("-").isdecimal() else short


def _two_decimals(number: str) -> str:
    """12.5 and 12.500 as 12.50."""
    match = _PLAIN.fullmatch(_shortest(number))
    return f"{match[1]}.{(match[2] or '').ljust(2, '0')}" if match else number


def _without_exponent(number: str) -> str:
    """1.25E+1 as 12.5."""
    return f"{Decimal(number):f}"


def _rounded(write: Callable[[float], str]) -> Number:
    """What became of a number in a language that has floating-point numbers of 64 bits alone; only where it became another."""

    def form(number: str) -> str:
        written = write(float(number))
        return number if Decimal(written) == Decimal(number) else written

    return form


def _as_javascript(value: float) -> str:
    if not 1e-6 <= abs(value) < 1e21:
        return repr(value)
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


JSON_MISTAKES: tuple[BodyMistake, ...] = (
    _row("json-compact", "The body is JSON, and what was hashed is the same JSON without white space (as JSON.stringify writes it).",
         _json(_compact)),
    _row("json-python",
         "The body is JSON, and what was hashed is the same JSON with a space after commas and colons (Python's json.dumps).",
         _json(_dumps())),
    _row("json-pretty", "The body is JSON, and what was hashed is the same JSON printed over several lines.",
         _json(_dumps(indent=2), _dumps(indent=4), _dumps(indent="\t"), _pretty_spaced_colon, _dumps(indent=3), _dumps(indent=1))),
    _row("json-sorted", "The body is JSON, and what was hashed is the same JSON with its names in alphabetical order.",
         _json(_dumps(sort_keys=True, separators=_COMPACT), _dumps(sort_keys=True), _dumps(sort_keys=True, indent=2),
               _dumps(sort_keys=True, indent=4))),
    _row("json-nulls-dropped", "The body is JSON, and what was hashed lacks the members that are null.",
         _json(_changed(_without_nulls, _compact), _changed(_without_nulls, _dumps(indent=2)))),
    _row("json-numbers", "The body is JSON with amounts as texts, and what was hashed has them as numbers.",
         _json(*[_changed(_from_texts(form), write) for form in (_shortest, _one_decimal, str) for write in (_compact, _dumps())])),
    _row("json-number-form", "The body is JSON, and what was hashed has its numbers written otherwise (12.5 for 12.50); their values are "
         "the same.", _numbers(_shortest, _one_decimal, _two_decimals, _without_exponent),
         f"Keep amounts as texts, as the interface has them. {RAW}"),
    _row("json-number-rounded", "The body is JSON, and what was hashed has a number of another value: the one that arrived, rounded to a "
         "floating-point number.", _numbers(_rounded(repr), _rounded(_as_javascript)),
         f"Never read amounts and long numbers as floating-point numbers. {RAW}"),
)  # fmt: skip
