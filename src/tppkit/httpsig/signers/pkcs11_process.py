"""State of a PKCS#11 library in this process: a lock, and the PINs that its tokens rejected."""

from __future__ import annotations

import secrets
from functools import cache
from hashlib import blake2b
from threading import RLock


class Pkcs11Process:
    """State of a PKCS#11 library in this process.

    Attributes:
        lock: hold it for each call of the library. python-pkcs11 initialises the library without locking, so only one thread may
            call it at a time, for all tokens and sessions.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._secret = secrets.token_bytes(32)
        self._refused: set[bytes] = set()

    def has_refused(self, token: str, pin: str) -> bool:
        """Whether a token rejected this PIN before."""
        return self._digest(token, pin) in self._refused

    def remember_refused(self, token: str, pin: str) -> None:
        """Remember a rejected PIN as a digest, keyed with a random secret of this process."""
        self._refused.add(self._digest(token, pin))

    def _digest(self, token: str, pin: str) -> bytes:
        return blake2b(repr((token, pin)).encode(), key=self._secret).digest()


@cache
def process_of(module: str) -> Pkcs11Process:
    """Return the state of a library; signers must name the library by the same path."""
    return Pkcs11Process()
