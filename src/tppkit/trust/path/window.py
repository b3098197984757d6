"""The period for which a verdict may be cached."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

_NEVER = datetime.min.replace(tzinfo=UTC)
_ALWAYS = datetime.max.replace(tzinfo=UTC)


class Window:
    """The period for which a verdict holds without a new check. News about a revocation closes it for good.

        path = paths.verify(certificate, at=now)
        path.window.holds_at(later)

    A window only shrinks, so it is read without the lock under which it is written. A cache must compare
    `not_before <= at <= not_after` each time it uses the verdict, and keep no copy of them.

    Attributes:
        not_before: first moment, aware UTC.
        not_after: last moment, aware UTC; before `not_before` once closed.
    """

    __slots__ = ("__weakref__", "_lock", "not_after", "not_before")

    def __init__(self, not_before: datetime = _NEVER, not_after: datetime = _ALWAYS) -> None:
        self.not_before = not_before
        self.not_after = not_after
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Window({self.not_before.isoformat()}, {self.not_after.isoformat()})"

    def holds_at(self, at: datetime) -> bool:
        """Whether the verdict may be used for `at` (aware)."""
        return self.not_before <= at <= self.not_after

    def narrow(self, not_before: datetime, not_after: datetime) -> None:
        """Keep only the moments within both."""
        with self._lock:
            self.not_before = max(self.not_before, not_before)
            self.not_after = min(self.not_after, not_after)

    def close(self) -> None:
        """End the verdict for all moments."""
        with self._lock:
            self.not_after = _NEVER
