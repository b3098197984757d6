"""Safe display of untrusted text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Letters, marks and symbols without a visible form. Other invisible characters (controls, bidi, zero width) are not printable by
# their category. Source: Default_Ignorable_Code_Point, Unicode 17, and characters that are blank by name or use: the blank Braille
# pattern, the object replacement character, the Khitan filler and the null notehead.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U00016fe4\U0001d159"
    "\U000e0100-\U000e01ef]"
)


def printable(text: str) -> str:
    """Escape every character that could move a cursor, colour a terminal, forge a log line or change the direction of text."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with `…` in place of what is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def hidden_character(text: str) -> str | None:
    """Return the first character that is invisible or changes what is visible, or None."""
    found = _INVISIBLE.search(text)
    if found is not None or text.isprintable():
        return found and found.group()
    return next(c for c in text if not c.isprintable())


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that resembles a mistyped one, in any case, or None."""
    by_folded = {one.casefold(): one for one in known}
    found = get_close_matches(name[:100].casefold(), by_folded, n=1, cutoff=0.7)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a suggestion, or an empty text."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
