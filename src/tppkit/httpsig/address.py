"""Split an absolute address into the Host and the target of a request, byte for byte."""

from __future__ import annotations

import re

from tppkit._encoding import shown
from tppkit.errors import FormatError

MAX_ADDRESS_LENGTH = 16 * 1024
_ADDRESS = re.compile(r"https?://(?:[^/?#@]*@)?([A-Za-z0-9._~\[\]:-]+)(/[^?#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE)


def split_address(text: str) -> tuple[str, str]:
    """Return host and request target of an address without decoding, encoding or normalising it.

    Args:
        text: an absolute http or https address in ASCII.

    Raises:
        FormatError: `message.address`.
    """
    match = _ADDRESS.fullmatch(text) if len(text) <= MAX_ADDRESS_LENGTH else None
    if match is None or not (text.isascii() and text.isprintable()) or " " in text:
        raise FormatError("message.address", f"{shown(text)} is not an http or https address")
    host, path, query = match.groups()
    return host, f"{path or '/'}{query or ''}"
