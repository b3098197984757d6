"""The revocation lists in a test PKI's folder, as they are now."""

from __future__ import annotations

from pathlib import Path

from tppkit.errors import ConfigurationError, FormatError
from tppkit.trust import RevocationChecker, RevocationPolicy, load_revocation

_Stamp = tuple[int, int, int]


class FolderRevocations:
    """Judges chains by the revocation lists (`*.crl`) of a folder; what is revoked there meanwhile counts.

    A list that grew old refuses nobody, as the sandbox's clock runs ahead of the folder's lists; what they revoke is refused.

    Args:
        folder: what `pki create` made.

    Attributes:
        checker: for the `PathVerifier`.

    Raises:
        ConfigurationError: `pki.unusable`, a list cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.checker = RevocationChecker(policy=RevocationPolicy.SOFT_FAIL)
        self._folder = folder
        self._stamps: dict[Path, _Stamp] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take up the lists that changed since the last time.

        Raises:
            ConfigurationError: `pki.unusable`, a list cannot be read.
        """
        try:
            stamps = {path: _stamp(path) for path in sorted(self._folder.glob("*.crl"))}
            changed = [path for path, stamp in stamps.items() if self._stamps.get(path) != stamp]
            if changed:
                self.checker.learn(load_revocation(changed))
        except (FormatError, OSError) as e:
            raise ConfigurationError("pki.unusable", f"a revocation list of {self._folder} cannot be read: {e}") from e
        self._stamps = stamps


def _stamp(path: Path) -> _Stamp:
    # A list is replaced by another file, so one of the same size within the clock's grain is told by its inode.
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
