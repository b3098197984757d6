"""The function that fetches trust material. The caller passes it in, as this package opens no connection.

`tppkit.client.make_fetch` makes one over httpcore.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import urlsplit

MAX_ADDRESS_LENGTH = 2048


def is_web_address(url: str) -> bool:
    """Whether an address may be fetched: http or https, with a host, in printable ASCII and without user information."""
    if len(url) > MAX_ADDRESS_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


class Fetch(Protocol):
    """Gets the bytes behind an address, or raises `TransportError`.

        fetch = make_fetch()  # of tppkit.client
        RevocationChecker(fetch=fetch)
        fetch("http://ca.example/issuing.crl", max_bytes=32 * 1024 * 1024, timeout=5.0)

    It must not return more than `max_bytes` bytes or take longer than `timeout` seconds, whatever the server does.
    """

    def __call__(
        self, url: str, *, max_bytes: int, timeout: float, body: bytes | None = None, content_type: str | None = None
    ) -> bytes:
        """GET `url`, or POST `body` to it if there is one.

        Args:
            url: an http or https address.
            max_bytes: a longer answer is a failure.
            timeout: seconds for the whole exchange.
            body: what to POST (an OCSP request).
            content_type: the media type of `body`.

        Raises:
            TransportError: `fetch.refused`, `fetch.failed`, `fetch.timeout`, `fetch.too-large`.
        """
        ...
