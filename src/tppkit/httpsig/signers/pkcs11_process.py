"""What a process knows of a PKCS#11 library: who may enter it, and which PINs its tokens refused."""

from __future__ import annotations

import secrets
from functools import cache
from hashlib import blake2b
from threading import RLock


class Pkcs11Process:
    """What this process knows of a library.

    Attributes:
        lock: python-pkcs11 initialises a library without asking it for locks, so the library may be entered by one thread at a time,
            whichever token or session it is for.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._secret = secrets.token_bytes(32)
        self._refused: set[bytes] = set()

    def has_refused(self, token: str, pin: str) -> bool:
        """Whether a token refused this PIN before."""
        return self._digest(token, pin) in self._refused

    def note_refused(self, token: str, pin: str) -> None:
        """Remember it, as a digest under a key of this process."""
        self._refused.add(self._digest(token, pin))

    def _digest(self, token: str, pin: str) -> bytes:
        return blake2b(repr((token, pin)).encode(), key=self._secret).digest()


@cache
def process_of(module: str) -> Pkcs11Process:
    """The one of a library, named as its signers name it."""
    return Pkcs11Process()
