"""The sandbox's virtual time: the machine's clock plus an offset that is kept in the database."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from tppkit._clock import Clock, utc_now
from tppkit.errors import ConfigurationError
from tppkit.sandbox.store import Store, Transaction

MAX_ADVANCE = timedelta(days=3660)


class SandboxClock:
    """A clock that can be advanced and never moves back.

    It moves states, limits and windows. Certificates, seals, revocation lists and TLS are judged at real time.
    If the machine's clock is set back, the virtual clock continues from the latest time that it has shown; after a restart, from the
    latest that is stored.

    Args:
        store: keeps the offset.
        base: the machine's clock.
    """

    def __init__(self, store: Store, *, base: Clock = utc_now) -> None:
        self._store = store
        self._base = base
        self._lock = threading.Lock()
        self._offset, self._latest = store.run_at_start(Transaction.clock)

    def now(self) -> datetime:
        """The virtual present, aware UTC."""
        with self._lock:
            return self._present()

    async def advance(self, by: timedelta) -> datetime:
        """Move time forward and return the new present.

        Raises:
            ConfigurationError: `clock.backwards`, also for more than ten years in all.
            TransportError: `database.unavailable`.
        """
        return await self._store.run(lambda tx: self._advance(tx, by))

    def _advance(self, tx: Transaction, by: timedelta) -> datetime:
        with self._lock:
            if by < timedelta() or self._offset + by > MAX_ADVANCE:
                raise ConfigurationError("clock.backwards", f"the clock cannot be advanced by {by}")
            self._offset += by
            present = self._present()
            tx.set_clock(self._offset, present)
            return present

    def _present(self) -> datetime:
        present = self._base() + self._offset
        if present < self._latest:
            self._offset += self._latest - present
            present = self._latest
        self._latest = present
        return present
