"""Find card numbers and security codes in bytes and texts, in any of their written forms."""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from typing import NamedTuple, Protocol

from tppkit.errors import ConfigurationError
from tppkit.protocol.gateway.card_data import CardSecret, detect_brands, has_check_digit, truncate_pan

CODE = "security code"
_CHUNK = 1 << 20
_CONTEXT = 256  # bytes, more than the longest form, and more than the surroundings that are checked for a code
_AROUND = 80  # bytes, more than a UUID, a timestamp or the mark of a cut, in UTF-16 too
_RUN = 8
_TEXT = bytes(range(32, 127)) + b"\t\r\n"

# Three or four digits occur by chance. Parts of words and of larger numbers are ignored, unless an escape sequence ends there.
_CODE = rb"CODE(?![0-9A-Za-z])(?:(?<![0-9A-Za-z]CODE)|(?<=%[0-9A-Fa-f]{2}CODE)|(?<=\\[nrt]CODE))"
_CODE_16 = rb"CODE(?!\x00[0-9A-Za-z])(?<![0-9A-Za-z]\x00CODE)"
# Parts of UUIDs, timestamps, times and decimal fractions are ignored too, also of those that SQLAlchemy cut in its log.
_LONGER = re.compile(
    rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    rb"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    rb"|\d\d:\d\d:\d\d[.,]\d+|\d+(?:\.\d+)+"
    rb"|[0-9A-Fa-f]+-[0-9A-Fa-f-]*(?= \.\.\. \(\d+ characters truncated\))"
    rb"|(?<=characters truncated\) \.\.\. )(?:[0-9A-Fa-f]+-[0-9A-Fa-f-]*|\d+(?:Z|[+-]\d\d:?\d\d))"
)
# Digits that no other digit touches, in one piece or in the groups of a card; the numbers of all known networks begin with 2 to 6.
# Commas, tabs and line ends divide the numbers of a table. A match is empty, so that overlapping ones count.
_BETWEEN = rb"[ ._+/-]{1,2}|\xc2?\xa0|%20|%2[Dd]"
_DIGITS = re.compile(rb"[0-9](?:(?:%b)?[0-9]){11,}" % _BETWEEN)
_GROUPED = [
    re.compile(rb"(?<![0-9])(?=([2-6]%b)(?![0-9]))" % digits.replace(b"BETWEEN", _BETWEEN))
    for digits in (
        rb"[0-9]{11,18}",
        rb"[0-9]{3}(BETWEEN)[0-9]{4}\2[0-9]{4}\2[0-9]{4}",
        rb"[0-9]{3}(BETWEEN)[0-9]{4}\2[0-9]{4}\2[0-9]{4}\2[0-9]{1,3}",
        rb"[0-9]{3}(BETWEEN)[0-9]{6}\2[0-9]{4,5}",
    )
]


class Secret(Protocol):
    """A `SecretStr` of pydantic, or a `CardSecret`."""

    def get_secret_value(self) -> str: ...  # noqa: D102


class Hit(NamedTuple):
    """The place of a card in the data.

    Attributes:
        card: `card 1` for the first of the cards that are searched, or the network and the truncated number of any card.
        form: how it is written.
        offset: position of its first byte.
    """

    card: str
    form: str
    offset: int


class Forms(ABC):
    """Finds card numbers in bytes and texts."""

    def in_text(self, text: str) -> Iterator[Hit]:
        """Yield the cards in a text; offsets are those of its UTF-8."""
        data = text.encode("utf-8", "surrogatepass")
        return self._hits(data, 0, len(data), is_text=True, first=True, last=True)

    def in_bytes(self, data: bytes) -> Iterator[Hit]:
        """Yield the cards in bytes; security codes only within text."""
        return self.in_stream(BytesIO(data).read)

    def in_stream(self, read: Callable[[int], bytes]) -> Iterator[Hit]:
        """Yield the cards in bytes of any length.

        Args:
            read: returns at most the given number of bytes; none at the end.
        """
        data, base, reported, chunk = b"", 0, 0, read(_CHUNK)
        while True:
            following = read(_CHUNK) if chunk else b""
            data += chunk
            # A match is reported only from a piece that also contains its surroundings.
            end = max(reported - base, len(data) - _CONTEXT) if following else len(data)
            for hit in self._hits(data, reported - base, end, is_text=False, first=not base, last=not following):
                yield hit._replace(offset=base + hit.offset)
            if not following:
                return
            reported, cut = base + end, max(0, end - _CONTEXT)
            data, base, chunk = data[cut:], base + cut, following

    @abstractmethod
    def _hits(self, data: bytes, begin: int, end: int, *, is_text: bool, first: bool, last: bool) -> Iterator[Hit]:
        """Yield the hits that begin in this part of the data; `first` and `last` say whether the data ends there."""


class CardForms(Forms):
    """Finds given cards in all of their written forms.

    Args:
        cards: card numbers of 12 to 19 digits, and security codes of 3 or 4.

    Raises:
        ConfigurationError: `pan.search`.

    Example:
        forms = CardForms(["4111111111111111", "0739"])
        next(forms.in_text("card 4111 1111 1111 1111"))  # Hit(card='card 1', form='digits', offset=5)
    """

    def __init__(self, cards: Iterable[str | Secret]) -> None:
        texts = [card if isinstance(card, str) else card.get_secret_value() for card in cards]
        if not texts or not all(re.fullmatch("[0-9]{3,4}|[0-9]{12,19}", text) for text in texts):
            raise ConfigurationError(
                "pan.search", "give one or more cards: numbers of 12 to 19 digits, security codes of 3 or 4"
            )
        self._patterns = [
            (f"card {card}", form, re.compile(pattern))
            for card, text in enumerate(texts, 1)
            for form, pattern in (_number_forms(text) if len(text) > 4 else _code_forms(text))
        ]

    def _hits(self, data: bytes, begin: int, end: int, *, is_text: bool, first: bool, last: bool) -> Iterator[Hit]:
        for card, form, pattern in self._patterns:
            for found in pattern.finditer(data):
                if not begin <= found.start() < end:
                    continue
                if form.startswith(CODE) and (
                    _is_part_of_longer(data, *found.span())
                    or not (is_text or b"\0" in found[0] or _is_in_text(data, *found.span(), first=first, last=last))
                ):
                    continue
                yield Hit(card, form, found.start())


class AnyCard(Forms):
    """Finds every number that may be a card's: 12 to 19 digits in the range of a known network with a valid check digit.

    The digits may be in groups, but not divided by a comma, tab or line end, as the numbers of a table are; and in UTF-16, but not
    in UTF-32, hexadecimal or base64. One number in ten has a valid check digit by chance.

    Example:
        next(AnyCard().in_text("card 4111-1111-1111-1111"))  # Hit(card='visa 411111******1111', form='digits', offset=5)
    """

    def _hits(self, data: bytes, begin: int, end: int, *, is_text: bool, first: bool, last: bool) -> Iterator[Hit]:
        # Every second byte of UTF-16 is NUL.
        views = [("digits", 0, 1), *([("UTF-16", 0, 2), ("UTF-16", 1, 2)] if not is_text and b"\0" in data else ())]
        for form, shift, step in views:
            part = data[shift::step]
            for run in _DIGITS.finditer(part):
                for found in chain.from_iterable(pattern.finditer(part, *run.span()) for pattern in _GROUPED):
                    offset = shift + found.start() * step
                    if begin <= offset < end and (card := _card(found[1])):
                        yield Hit(card, form, offset)


def _card(grouped: bytes) -> str | None:
    """Return the network and the truncated number, or None for a number that is no card's."""
    digits = re.sub(_BETWEEN, b"", grouped)
    if not has_check_digit(digits):
        return None
    number = CardSecret(digits.decode())
    brands = detect_brands(number)
    return f"{brands[0]} {truncate_pan(number)}" if brands else None


def _number_forms(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the forms of a card number with their patterns."""
    plain = text.encode()
    digits = [bytes([digit]) for digit in plain]
    yield "digits", rb"(?:[ \t\r\n._+,/-]{1,2}|\xc2\xa0|%20|%2[Dd])?".join(digits)
    yield "percent-encoded", rb"(?:%20|%2[Dd]|[ +-])?".join(b"%%%x" % digit for digit in plain)
    yield "UTF-16", rb"\x00{1,3}(?:[ -]\x00{1,3})?".join(digits)  # both byte orders, and UTF-32
    yield "hexadecimal", rb"[ :]?(?:2[0Dd][ :]?)?".join(b"%x" % digit for digit in plain)
    for separator in (b"", b" ", b"-"):
        grouped = separator.join(plain[at : at + 4] for at in range(0, len(plain), 4))
        for shift, affected in enumerate((0, 2, 3)):
            whole = base64.b64encode(bytes(shift) + grouped)[affected : (shift + len(grouped)) * 8 // 6]
            yield "base64", rb"(?:\r?\n|\\n)?".join(bytes([character]) for character in whole)
    integer = int(text).to_bytes(8, "big").lstrip(b"\0")
    if len(integer) > 4:  # fewer bytes occur by chance
        yield "integer", re.escape(integer)
        yield "integer", re.escape(integer[::-1])


def _code_forms(text: str) -> Iterator[tuple[str, bytes]]:
    code = text.encode()
    yield CODE, _CODE.replace(b"CODE", code)
    yield f"{CODE}, UTF-16", _CODE_16.replace(b"CODE", rb"\x00".join(bytes([digit]) for digit in code))


def _is_part_of_longer(data: bytes, start: int, end: int) -> bool:
    """Whether the match is part of a UUID, a time or a decimal fraction."""
    before = data[max(0, start - _AROUND) : start].replace(b"\0", b"")
    window = before + data[start : end + _AROUND].replace(b"\0", b"")
    last = len(before) + len(data[start:end].replace(b"\0", b""))
    return any(found.start() <= len(before) and last <= found.end() for found in _LONGER.finditer(window))


def _is_in_text(data: bytes, start: int, end: int, *, first: bool, last: bool) -> bool:
    """Whether text surrounds the match, or it is all there is. Random bytes contain any three digits every few megabytes."""
    left, right = data[max(0, start - _RUN) : start], data[end : end + _RUN]
    before, after = len(left) - len(left.rstrip(_TEXT)), len(right) - len(right.lstrip(_TEXT))
    return before + after >= _RUN or (first and before == start and last and end + after == len(data))
