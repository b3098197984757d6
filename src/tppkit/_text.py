"""Foreign text made safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that cannot move a cursor, colour a terminal, forge a log line or hide its direction: the rest is escaped."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])
