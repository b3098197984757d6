"""Imports of libraries that an extra installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tppkit.errors import ConfigurationError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Name the extra if a library that is imported in the block is not installed.

    A module whose purpose is the library imports it in this block at its top; another one does so in the function that uses it.

        with needs_extra("qr"):
            import segno

    Raises:
        ConfigurationError: `extra.missing`.
    """
    try:
        yield
    except ImportError as e:
        if (e.name or "").partition(".")[0] == "tppkit":
            raise
        message = f"this needs {e.name or 'the extra ' + extra}: install it with pip install 'tppkit[{extra}]'"
        raise ConfigurationError("extra.missing", message) from e
