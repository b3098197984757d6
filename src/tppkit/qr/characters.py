"""Which characters, and how many, a QR text may have (assumptions qr-characters, qr-length)."""

from __future__ import annotations

import re

from tppkit.errors import FormatError

# A code of version 40 at level M holds 2,331 bytes; one is left for naming the character set.
MAX_TEXT_BYTES = 2330

# Letters, marks and symbols that are drawn as nothing. All else that cannot be seen (controls, bidi, zero width) is not
# printable by its category. Source: Default_Ignorable_Code_Point, Unicode 17; and the blank Braille pattern.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def check_characters(text: str, *, what: str) -> None:
    """Refuse text that a person cannot see whole.

    Raises:
        FormatError: `qr.character`.
    """
    hidden = _INVISIBLE.search(text)
    if text.isprintable() and hidden is None:
        return
    culprit = hidden.group() if hidden else next(c for c in text if not c.isprintable())
    raise FormatError(
        "qr.character", f"{what} holds U+{ord(culprit):04X}, which cannot be seen or changes what is seen"
    )


def check_text(text: str, *, what: str) -> None:
    """Refuse text that is too long for a code, or that a person cannot see whole.

    Raises:
        FormatError: `qr.too-long`, `qr.character`.
    """
    if len(text) <= MAX_TEXT_BYTES:  # so that what is looked at is bounded
        check_characters(text, what=what)
        if len(text.encode()) <= MAX_TEXT_BYTES:
            return
    raise FormatError("qr.too-long", f"{what} has more than the {MAX_TEXT_BYTES} bytes that fit into a code")
