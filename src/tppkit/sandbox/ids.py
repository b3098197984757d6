"""The ids that a sandbox makes."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

from tppkit._files import PRIVATE, read_bounded, replace_file


class Ids:
    """Makes unguessable ids. With a seed, they are the same in each new folder and after each reset, and differ at each later start.

    Args:
        directory: the folder of the sandbox.
        seed: the seed, or None.

    Raises:
        ConfigurationError: `file.unwritable`.
        FormatError: `file.unreadable`.
    """

    def __init__(self, directory: Path, seed: int | None) -> None:
        self._path, self._seed = directory / "ids", seed
        if seed is not None:
            self._begin(read_bounded(self._path, max_bytes=64).decode("latin-1") if self._path.exists() else "")

    def __call__(self) -> str:
        """Make an id of 192 bits."""
        return secrets.token_urlsafe(24) if self._seed is None else f"{self._chance.getrandbits(192):048x}"

    def start_over(self) -> None:
        """Begin as in a new folder."""
        if self._seed is not None:
            self._begin("")

    def _begin(self, kept: str) -> None:
        self._chance = random.Random(f"{self._seed} {kept}")  # noqa: S311  # reproducible ids on request, for tests
        replace_file(self._path, self().encode(), mode=PRIVATE)
