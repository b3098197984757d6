"""Rules of the earlier interface that both sides use."""

from __future__ import annotations


def is_token(text: str) -> bool:
    """Whether a text has the form of access tokens and uuids: 20 to 40 characters 0-9, A-Z, a-z.

    Source: PSD2 document, part B sections 4 and 8.
    """
    return 20 <= len(text) <= 40 and text.isascii() and text.isalnum()
