"""What a diagnosis does not show unless it is asked to: tokens, keys, card numbers, bodies.

A masked value keeps its length and its white space, so places in a signing string stay what they are.
"""

from __future__ import annotations

import re

from tppkit.seals.diagnose.draft import Draft, Line
from tppkit.seals.diagnose.strings import WHOLE, signed_bytes

_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|key|passw|credential|session|assertion|otp")
_SECRET_PARAMETER = re.compile(
    r"((?:token|secret|key|passw|credential|session|assertion|jwt|otp|(?<![a-z])code)[a-z0-9_.-]{0,32}(?:=|%3d|%253d))"
    r"((?:(?!%26|%2526)[^&;#\s])+)",
    re.IGNORECASE,
)
_VISIBLE = re.compile(r"\S")
# Groups of digits with one separator between each two, as people and programs write card numbers.
_SEPARATOR = r"(?:[-+ ._]|%(?:25)?(?:20|2[dD]))"
_GROUPS = re.compile(rf"(?<![0-9])[0-9]++(?:{_SEPARATOR}[0-9]++)*+")
_GROUP = re.compile(rf"({_SEPARATOR}?)([0-9]+)")
_CARD_LENGTHS = range(13, 20)


def shown_bytes(draft: Draft, *, show_values: bool) -> bytes | None:
    """What was signed, fit to be shown; None where other bytes than a signing string were.

    Args:
        draft: what was signed.
        show_values: show everything as it is.
    """
    if show_values:
        return signed_bytes(draft)
    if draft.instead is not None:
        return None
    if draft.hashed.startswith("sha"):  # a hash gives nothing away, and one of a masked text would be no one's
        return signed_bytes(draft)
    masked = draft._replace(lines=tuple([_masked_line(line) for line in draft.lines])).text()
    return WHOLE[draft.hashed](masked) if draft.hashed else masked


def _masked_line(line: Line) -> Line:
    if _SECRET_NAME.search(line.name.lower()):
        return line._replace(value=_masked(line.value))
    value = _SECRET_PARAMETER.sub(lambda match: match[1] + _masked(match[2]), line.value)
    return line._replace(value=_GROUPS.sub(_without_card_numbers, value))


def _masked(text: str) -> str:
    return _VISIBLE.sub("*", text)


def _without_card_numbers(run: re.Match[str]) -> str:
    """Groups of digits, those masked that together are a card number; what stands between them is kept."""
    parts = _GROUP.findall(run[0])
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
        [between + (_masked(group) if place in masked else group) for place, (between, group) in enumerate(parts)]
    )


def _is_card_number(digits: str) -> bool:
    """The check digit fits (ISO/IEC 7812-1, annex B)."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0
