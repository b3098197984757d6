"""When a request is sent again."""

from __future__ import annotations

from typing import Any

from tppkit.client.calls import ServerAnswer
from tppkit.protocol.endpoint import Endpoint

MAX_ATTEMPTS = 3
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0


class Attempts:
    """Decides whether and when a request is sent again: twice at most, rows that are `safe` or `once`, after a lost connection, 429 or 503.

    Args:
        row: the endpoint.
        floor_s: wait at least so many seconds.
    """

    def __init__(self, row: Endpoint[Any, Any], floor_s: float = 0.0) -> None:
        self._left = MAX_ATTEMPTS - 1 if row.safe or row.once is not None else 0
        self._floor_s = floor_s
        self._pause_s = FIRST_PAUSE_S

    def pause_s(self, answer: ServerAnswer | None, *, left_s: float = MAX_PAUSE_S) -> float | None:
        """Return the seconds to wait before the next attempt, or None to accept the last answer or failure.

        Args:
            answer: the last answer; None if the connection failed.
            left_s: maximum length of the pause in seconds; it is never longer than 60.
        """
        if self._left == 0 or (answer is not None and answer.status not in (429, 503)):
            return None
        asked = "" if answer is None else answer.headers.get("retry-after", "")
        pause_s = max(self._floor_s, float(asked) if asked.isascii() and asked.isdigit() else self._pause_s)
        self._left -= 1
        self._pause_s *= 2
        return pause_s if pause_s <= min(MAX_PAUSE_S, left_s) else None
