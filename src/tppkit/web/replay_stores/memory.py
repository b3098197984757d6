"""Uses of ids in memory: for one process, and gone with it."""

from __future__ import annotations

import threading
from collections import OrderedDict

from tppkit.errors import TransportError
from tppkit.web.replay import Bounds, Claim, Verdict

MAX_ENTRIES = 100_000


class _Use:
    __slots__ = ("answer", "claimed_at", "digest", "first_at")

    def __init__(self, digest: bytes, at: int) -> None:
        self.digest = digest
        self.first_at = self.claimed_at = at
        self.answer: bytes | None = None


class MemoryReplayStore:
    """A store for the threads of one process.

    Args:
        max_entries: so many ids are kept; when all of them are within the window, new ones are refused, as an id that was
            dropped would be let through twice.
    """

    blocking = False

    def __init__(self, *, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._uses: OrderedDict[bytes, _Use] = OrderedDict()  # the oldest first

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        with self._lock:
            use = self._uses.get(key)
            if use is None or use.first_at <= bounds.forget:
                self._add(key, digest, bounds)
                return Claim(Verdict.FIRST)
            if use.digest != digest:
                return Claim(Verdict.OTHER)
            if use.answer is not None:
                return Claim(Verdict.SAME, use.answer)
            if use.claimed_at > bounds.free:
                return Claim(Verdict.RUNNING)
            use.claimed_at = bounds.at
            return Claim(Verdict.AGAIN)

    def keep(self, key: bytes, digest: bytes, answer: bytes | None) -> None:
        """See `ReplayStore.keep`."""
        with self._lock:
            use = self._uses.get(key)
            if use is not None and use.digest == digest and use.answer is None:
                use.answer = answer
                use.claimed_at = 0 if answer is None else use.claimed_at

    def purge(self, *, forget: int, limit: int) -> int:
        """See `ReplayStore.purge`."""
        with self._lock:
            return self._purge(forget, limit)

    def _add(self, key: bytes, digest: bytes, bounds: Bounds) -> None:
        self._uses.pop(key, None)
        self._purge(bounds.forget, 2)
        if len(self._uses) >= self._max_entries:
            raise TransportError("replay.unavailable", f"the replay guard's memory of {self._max_entries} ids is full")
        self._uses[key] = _Use(digest, bounds.at)

    def _purge(self, forget: int, limit: int) -> int:
        purged = 0
        while self._uses and purged < limit and next(iter(self._uses.values())).first_at <= forget:
            self._uses.popitem(last=False)
            purged += 1
        return purged
