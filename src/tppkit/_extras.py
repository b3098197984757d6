"""The error for an optional dependency that is not installed."""

from __future__ import annotations

from tppkit.errors import ConfigurationError


def missing_extra(extra: str, cause: ImportError) -> ConfigurationError:
    """Return the error for code that needs the extra `extra`; raise it from `cause`."""
    return ConfigurationError(
        "extra.missing",
        f"this needs {cause.name or 'the extra ' + extra}: install it with pip install 'tppkit[{extra}]'",
    )
