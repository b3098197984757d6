"""The characters that a QR text may have, and its length (assumptions qr-characters, qr-length)."""

from __future__ import annotations

from tppkit._text import hidden_character
from tppkit.errors import FormatError

# A code of version 40 at level M has 2,331 bytes, of which one names the character set.
MAX_TEXT_BYTES = 2330


def check_text(text: str, *, what: str) -> None:
    """Reject text that is too long for a code, or has characters that are invisible or change how other characters look.

    Raises:
        FormatError: `qr.too-long`, `qr.character`.
    """
    if len(text) <= MAX_TEXT_BYTES:  # limits the work below
        hidden = hidden_character(text)
        if hidden is not None:
            described = f"U+{ord(hidden):04X}, which is invisible or changes how the text looks"
            raise FormatError("qr.character", f"{what} has {described}")
        if len(text.encode()) <= MAX_TEXT_BYTES:
            return
    raise FormatError("qr.too-long", f"{what} has more than the {MAX_TEXT_BYTES} bytes that fit into a code")
