"""Foreign text made safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Letters, marks and symbols that are drawn as nothing. All else that cannot be seen (controls, bidi, zero width) is not
# printable by its category. Source: Default_Ignorable_Code_Point, Unicode 17; and what is blank by its name or use: the Braille
# pattern, the object that is not there, the Khitan filler, the null notehead.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U00016fe4\U0001d159"
    "\U000e0100-\U000e01ef]"
)


def printable(text: str) -> str:
    """Text that cannot move a cursor, colour a terminal, forge a log line or hide its direction: the rest is escaped."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def hidden_character(text: str) -> str | None:
    """The first character that a person cannot see, or that changes what is seen; None when all is seen."""
    found = _INVISIBLE.search(text)
    if found is not None or text.isprintable():
        return found and found.group()
    return next(c for c in text if not c.isprintable())


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one resembles, whatever the case; None if it resembles none."""
    by_folded = {one.casefold(): one for one in known}
    found = get_close_matches(name[:100].casefold(), by_folded, n=1, cutoff=0.7)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: a suggestion, or nothing."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
