"""How long a verdict may be remembered."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

_NEVER = datetime.min.replace(tzinfo=UTC)
_ALWAYS = datetime.max.replace(tzinfo=UTC)


class Window:
    """The moments for which a verdict holds without judging again; news may close it, and nothing opens it again.

    It only ever shrinks, so it is read without the lock under which it is written.

    Whoever remembers a verdict compares `not_before <= at <= not_after` each time it is used and keeps no copy of them.

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
        """Leave only what lies within both."""
        with self._lock:
            self.not_before = max(self.not_before, not_before)
            self.not_after = min(self.not_after, not_after)

    def close(self) -> None:
        """Let the verdict hold for no moment at all."""
        with self._lock:
            self.not_after = _NEVER
