"""Callbacks in a folder, each a raw HTTP/1.1 request in a file: `callback verify`, `explain` and `replay` read it."""

from __future__ import annotations

from pathlib import Path

from tppkit._files import PRIVATE, write_new
from tppkit.callbacks import ReceivedCallback
from tppkit.cli.output import read_input
from tppkit.errors import ConfigurationError
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, parse_request

MAX_KEPT = 1000
_SUFFIX = ".http"


class KeptCallbacks:
    """The newest callbacks of a folder, numbered. The files may hold personal data: their owner alone reads them.

    Args:
        folder: made when it is absent.
        most: how many are kept.

    Raises:
        ConfigurationError: `file.unwritable`.
    """

    def __init__(self, folder: Path, *, most: int = MAX_KEPT) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise ConfigurationError("file.unwritable", f"{folder} cannot be made: {e.strerror}") from e
        self._folder, self._most = folder, most
        self._numbers = sorted(
            int(path.stem) for path in folder.glob(f"*{_SUFFIX}") if path.stem.isascii() and path.stem.isdecimal()
        )

    def add(self, received: ReceivedCallback) -> str:
        """Keep one; forget the oldest when there are too many.

        Args:
            received: the request; no header value holds a line end.

        Returns:
            Its number, for `callback replay`.

        Raises:
            ConfigurationError: `file.unwritable`.
        """
        number = self._write(self._numbers[-1] + 1 if self._numbers else 1, received.to_wire())
        self._numbers.append(number)
        while len(self._numbers) > self._most:
            self._path(self._numbers.pop(0)).unlink(missing_ok=True)
        return str(number)

    def _write(self, number: int, data: bytes) -> int:
        """Write under the first number that is free: another listener may keep its callbacks in the same folder."""
        while True:
            try:
                write_new(self._path(number), data, mode=PRIVATE)
            except ConfigurationError as e:
                if e.code != "file.exists":
                    raise
                number += 1
            else:
                return number

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}{_SUFFIX}"


def load_kept(name: str, *, folder: Path) -> ReceivedCallback:
    """A callback by its number in the folder, or from any file with a raw request.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`, `message.malformed`, `message.too-large`.
    """
    path = str(folder / f"{name}{_SUFFIX}") if name.isascii() and name.isdecimal() else name
    return ReceivedCallback(*parse_request(read_input(path, max_bytes=MAX_MESSAGE_BYTES), obs_text=True))
