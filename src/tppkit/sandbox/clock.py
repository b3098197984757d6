"""The sandbox's time: the machine's clock, moved forward at will."""

from __future__ import annotations

from datetime import datetime, timedelta

from tppkit._clock import Clock, utc_now
from tppkit.errors import ConfigurationError

MAX_ADVANCE = timedelta(days=3660)


class SandboxClock:
    """A clock that can be advanced.

    Args:
        base: the clock below.
    """

    def __init__(self, base: Clock = utc_now) -> None:
        self._base = base
        self._offset = timedelta()

    def now(self) -> datetime:
        """The sandbox's present, aware UTC."""
        return self._base() + self._offset

    def advance(self, by: timedelta) -> datetime:
        """Move time forward and give the new present.

        Raises:
            ConfigurationError: `clock.backwards`, also for more than ten years in all.
        """
        if by < timedelta() or self._offset + by > MAX_ADVANCE:
            raise ConfigurationError("clock.backwards", f"the clock cannot be advanced by {by}")
        self._offset += by
        return self.now()
