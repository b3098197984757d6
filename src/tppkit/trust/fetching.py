"""How trust material is fetched: by a function that the caller passes in, with limits that this room names.

The room itself opens no connection. `tppkit.client.make_fetch` makes such a function over httpx.
"""

from __future__ import annotations

from typing import Protocol


class Fetch(Protocol):
    """Gets the bytes behind an address, or raises `TransportError`.

    It must not give more than `max_bytes` bytes nor take longer than `timeout` seconds, whatever the other side does.
    """

    def __call__(
        self, url: str, *, max_bytes: int, timeout: float, body: bytes | None = None, content_type: str | None = None
    ) -> bytes:
        """GET `url`, or POST `body` to it when there is one.

        Args:
            url: an http or https address.
            max_bytes: more than this is a failure.
            timeout: seconds for the whole exchange.
            body: what to POST (an OCSP request).
            content_type: the media type of `body`.

        Raises:
            TransportError: `fetch.refused`, `fetch.failed`, `fetch.timeout`, `fetch.too-large`.
        """
        ...
