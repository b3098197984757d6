"""What a diagnosis hides unless values are asked for: tokens, keys, card numbers, bodies.

A masked value keeps its length and its white space, so positions in a signing string do not change.
"""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from tppkit.seals.diagnose.strings import Line, SigningString

_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|key|passw|credential|session|assertion|otp")
_SECRET_PARAMETER = re.compile(
    r"((?:token|secret|key|passw|credential|session|assertion|jwt|otp|(?<![a-z])code)[a-z0-9_.-]{0,32}(?:=|%3d|%253d))"
    r"((?:(?!%26|%2526)[^&;#\s])+)",
    re.IGNORECASE,
)
_VISIBLE = re.compile(r"\S")
# How often a text was encoded is not known, so each reading of percent escapes counts: `%25204` may be an escaped space before a 4,
# `%254` an escaped percent sign before a 4, and `%4` no escape at all.
_ESCAPES = (r"%(?:25)*[0-9A-Fa-f]{2}", r"%(?>(?:25)+)|%[0-9A-Fa-f]{2}", r"(?!)")


class _Reading(NamedTuple):
    """One reading of percent escapes.

    Attributes:
        token: an escape, or `groups` of digits with one to three signs or escapes between each two.
        group: the text before a group of digits, and the group.
    """

    token: re.Pattern[str]
    group: re.Pattern[str]


def _reading(escape: str) -> _Reading:
    # Atomic groups: before Python 3.11.5, a possessive quantifier behind a group matches wrongly.
    between = rf"(?>(?:{escape}|[^0-9A-Za-z]){{1,3}})"
    groups = rf"(?P<groups>[0-9]++(?>(?:{between}[0-9]++)*))"
    return _Reading(re.compile(rf"{escape}|{groups}"), re.compile(rf"((?:{between})?)([0-9]+)"))


_READINGS = tuple([_reading(escape) for escape in _ESCAPES])
_CARD_LENGTHS = range(13, 20)
_DOUBLED = str.maketrans("0123456789", "0246813579")  # each digit doubled, the digits of the result added


def shown_bytes(string: SigningString, *, show_values: bool) -> bytes | None:
    """The bytes that were signed, without secrets; None if the body was signed.

    Args:
        string: what was signed.
        show_values: hide nothing.
    """
    if show_values:
        return string.signed()
    if string.instead is not None:
        return None
    return string._replace(lines=tuple([_masked_line(line) for line in string.lines])).text()


def _masked_line(line: Line) -> Line:
    if _SECRET_NAME.search(line.name.lower()):
        return line._replace(value=_masked(line.value))
    value = _SECRET_PARAMETER.sub(lambda match: match[1] + _masked(match[2]), line.value)
    for reading in _READINGS if "%" in value else _READINGS[-1:]:
        value = reading.token.sub(partial(_without_card_numbers, group=reading.group), value)
    return line._replace(value=value)


def _masked(text: str) -> str:
    return _VISIBLE.sub("*", text)


def _without_card_numbers(token: re.Match[str], *, group: re.Pattern[str]) -> str:
    """Groups of digits, with those masked that together are a card number; escapes and the text between groups are kept."""
    if token["groups"] is None:
        return token[0]
    parts = group.findall(token[0])
    masked: set[int] = set()
    for start in range(len(parts)):
        digits = ""
        for end in range(start, len(parts)):
            digits += parts[end][1]
            if len(digits) >= _CARD_LENGTHS.stop:
                break
            if len(digits) in _CARD_LENGTHS and _is_card_number(digits):
                masked.update(range(start, end + 1))
    return "".join(
        [between + (_masked(digits) if place in masked else digits) for place, (between, digits) in enumerate(parts)]
    )


def _is_card_number(digits: str) -> bool:
    """The check digit fits (ISO/IEC 7812-1, annex B)."""
    return sum(map(int, digits[::-2] + digits[-2::-2].translate(_DOUBLED))) % 10 == 0
