"""API keys of the sandbox, each made once and kept in a file."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from tppkit._files import PRIVATE, read_bounded, replace_file
from tppkit.errors import ConfigurationError


def read_or_make_api_key(path: Path, *, code: str) -> str:
    """Read the key in a file of a locked folder; it is made if absent.

    Raises:
        ConfigurationError: `code`, the file has no key; `file.unwritable`.
        FormatError: `file.unreadable`.
    """
    if not path.exists():
        replace_file(path, secrets.token_hex(16).encode(), mode=PRIVATE)
    text = read_bounded(path, max_bytes=4096).decode("latin-1").strip()
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise ConfigurationError(code, f"{path} is not an API key of 32 hexadecimal digits: remove it to get a new one")
    return text
