"""The address of a service."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.components import parse_origin


def split_base_url(base_url: str) -> tuple[str, str]:
    """Origin and path prefix of an address, if the HTTP library will send the prefix unchanged.

    Raises:
        ConfigurationError: `client.base-url`.
    """
    try:
        parts = urlsplit(base_url)
        origin, prefix = f"https://{parts.netloc.removesuffix(':')}", parts.path.rstrip("/")
        parse_origin(origin)
        usable = (
            parts.scheme == "https"
            and bool(parts.hostname)
            and parts.port != 0
            and base_url.isascii()
            and base_url.isprintable()
            and not any(mark in base_url for mark in "@?# ")
            and httpx.URL(f"{origin}{prefix}/").raw_path == f"{prefix}/".encode("ascii")
        )
    except (ValueError, TypeError, AttributeError, FormatError, httpx.InvalidURL):  # of another type too
        usable = False
    if not usable:
        raise ConfigurationError("client.base-url", "the base address is not https://host[:port][/prefix]")
    return origin, prefix
