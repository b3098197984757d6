"""Which characters, and how many, a QR text may have (assumptions qr-characters, qr-length)."""

from __future__ import annotations

from tppkit._text import hidden_character
from tppkit.errors import FormatError

# A code of version 40 at level M holds 2,331 bytes; one is left for naming the character set.
MAX_TEXT_BYTES = 2330


def check_characters(text: str, *, what: str) -> None:
    """Refuse text that a person cannot see whole.

    Raises:
        FormatError: `qr.character`.
    """
    hidden = hidden_character(text)
    if hidden is not None:
        raise FormatError(
            "qr.character", f"{what} contains U+{ord(hidden):04X}, which is invisible or changes what is visible"
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
