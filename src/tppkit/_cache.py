"""A map with a limit, for what is cached or remembered of the latest requests."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """The latest values by key; when it is full, a new key replaces the oldest one. Threads may share it.

    Args:
        limit: maximum number of values.

    Example:
        paths = Cache[bytes, TrustedPath](512)
        paths.put(certificate.der, path)
        paths.get(certificate.der)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()  # the oldest first
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None. This does not make it newer."""
        return self._values.get(key)  # one step, so it needs no lock

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, and make it the newest."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._limit:
                self._values.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Remove a key and return its value, or None."""
        with self._lock:
            return self._values.pop(key, None)

    def values(self) -> tuple[V, ...]:
        """Return all values, the oldest first."""
        with self._lock:
            return tuple(self._values.values())

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
