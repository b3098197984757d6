"""Used ids in the memory of one process, lost at its end."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict

from tppkit.errors import TransportError
from tppkit.web.replay import Bounds, Claim, Verdict

MAX_BYTES = 64 * 1024 * 1024
SHARE = 0.25
# Size of a use without its answer: key, digest, numbers and the tables around them.
USE_BYTES = 512

_TOO_LONG = b""


class _Use:
    __slots__ = ("answer", "attempt", "claimed_at", "digest", "first_at")

    def __init__(self, digest: bytes, at: int) -> None:
        self.digest = digest
        self.first_at = self.claimed_at = self.attempt = at
        self.answer: bytes | None = None

    @property
    def size(self) -> int:
        return USE_BYTES + len(self.answer or b"")


class MemoryReplayStore:
    """A store for the threads of one process; do not fork a process that uses one.

    If the store is full of ids within the window, new ids are rejected, because a dropped id would be accepted twice. An answer that
    does not fit is treated like one that is too long.

    Args:
        max_bytes: approximate maximum size.
        share: the part of it that one organisation may use, so that it cannot lock out others.

    Example:
        ReplayGuard(MemoryReplayStore())
    """

    blocking = False

    def __init__(self, *, max_bytes: int = MAX_BYTES, share: float = SHARE) -> None:
        self._max_bytes = max_bytes
        self._max_of_one = int(max_bytes * share)
        self._lock = threading.Lock()
        self._uses: OrderedDict[bytes, _Use] = OrderedDict()  # the oldest first
        self._held = 0
        self._held_by = Counter[bytes]()

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        with self._lock:
            use = self._uses.get(key)
            if use is None or use.first_at <= bounds.forget:
                return Claim(Verdict.FIRST, attempt=self._add(key, digest, bounds))
            if use.digest != digest:
                return Claim(Verdict.OTHER)
            if use.answer is not None:
                return Claim(Verdict.SAME, use.answer)
            if use.claimed_at > bounds.free:
                return Claim(Verdict.RUNNING)
            use.claimed_at, use.attempt = bounds.at, max(bounds.at, use.attempt + 1)
            return Claim(Verdict.AGAIN, attempt=use.attempt)

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """See `ReplayStore.settle`."""
        with self._lock:
            use = self._uses.get(key)
            if use is None or use.attempt != attempt or use.answer is not None:
                return
            if answer is None:
                use.claimed_at = 0
                return
            use.answer = answer if self._has_room(key, len(answer)) else _TOO_LONG
            self._count(key, len(use.answer))

    def purge(self, *, forget: int, limit: int) -> int:
        """See `ReplayStore.purge`."""
        with self._lock:
            return self._purge(forget, limit)

    def _add(self, key: bytes, digest: bytes, bounds: Bounds) -> int:
        old = self._drop(key) if key in self._uses else None
        self._purge(bounds.forget, 2)
        if not self._has_room(key, USE_BYTES):
            raise TransportError(
                "replay.unavailable", "the replay guard's memory, or this organisation's share, is full"
            )
        use = _Use(digest, bounds.at)
        if old is not None:
            use.attempt = max(bounds.at, old.attempt + 1)
        self._uses[key] = use
        self._count(key, USE_BYTES)
        return use.attempt

    def _has_room(self, key: bytes, size: int) -> bool:
        return self._held + size <= self._max_bytes and self._held_by[key[:8]] + size <= self._max_of_one

    def _count(self, key: bytes, size: int) -> None:
        self._held += size
        self._held_by[key[:8]] += size
        if not self._held_by[key[:8]]:
            del self._held_by[key[:8]]

    def _drop(self, key: bytes) -> _Use:
        use = self._uses.pop(key)
        self._count(key, -use.size)
        return use

    def _purge(self, forget: int, limit: int) -> int:
        purged = 0
        while self._uses and purged < limit:
            oldest = next(iter(self._uses))
            if self._uses[oldest].first_at > forget:
                break
            self._drop(oldest)
            purged += 1
        return purged
