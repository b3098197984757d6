"""The current revocation lists in the folder of a test PKI."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tppkit.certificates import OrganizationPolicy
from tppkit.errors import ConfigurationError, FormatError
from tppkit.trust import (
    PathVerifier,
    RevocationChecker,
    RevocationEvidence,
    RevocationPolicy,
    TrustedPath,
    load_revocation,
)
from tppkit.web.caller import PeerCertificate, QwacPolicy

_LOGGER = logging.getLogger("tppkit.sandbox.revocations")

_CLOCK_RESOLUTION_NS = 1_000_000_000
_REFRESH_EVERY_S = 0.005

_Stamp = tuple[int, int, int]


class FolderRevocations:
    """Checks chains with the revocation lists (`*.crl`) of a folder, and reads changed lists again.

    A list past its nextUpdate is still used, because the lists of an idle folder are not renewed. If a list can no longer be read,
    its earlier contents are used, and the error is logged once for each content.

    Args:
        folder: a folder made by `pki create`.

    Attributes:
        checker: for the `PathVerifier`.

    Raises:
        ConfigurationError: `pki.unusable`, a list cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.checker = RevocationChecker(policy=RevocationPolicy.SOFT_FAIL)
        self._folder = folder
        self._lists: dict[Path, tuple[_Stamp, RevocationEvidence]] = {}
        self._logged: dict[Path, _Stamp] = {}
        self._stamps: tuple[_Stamp, ...] | None = None
        self._failed = False
        self.refresh()

    def refresh(self) -> None:
        """Read the changed lists, and drop deleted ones.

        Raises:
            ConfigurationError: `pki.unusable`, a new list cannot be read.
        """
        stamps = None
        with suppress(OSError):  # this runs on each request, and reading the folder takes ten times as long
            stamps = (_stamp(self._folder), *map(_stamp, self._lists))
            if stamps == self._stamps:
                return
        self._failed = False
        lists = {path: self._read(path) for path in sorted(self._folder.glob("*.crl"))}
        if lists != self._lists:
            self.checker.replace(sum((evidence for _, evidence in lists.values()), RevocationEvidence()))
            self._lists = lists
        # A list that is added within the clock's resolution after the folder's last change leaves the same stamp.
        is_old = (
            stamps is not None and abs(time.time_ns() - max(changed for changed, _, _ in stamps)) > _CLOCK_RESOLUTION_NS
        )
        self._stamps = stamps if is_old and not self._failed else None

    def _read(self, path: Path) -> tuple[_Stamp, RevocationEvidence]:
        known = self._lists.get(path)
        try:
            stamp = _stamp(path)
            return known if known is not None and known[0] == stamp else (stamp, load_revocation([path]))
        except (FormatError, OSError) as e:
            message = f"the revocation list {path} cannot be read: {e}"
            if known is None:
                raise ConfigurationError("pki.unusable", message) from e
            self._failed |= isinstance(e, OSError)  # may be temporary
            self._log_once(path, message)
            return known

    def _log_once(self, path: Path, message: str) -> None:
        with suppress(OSError):
            stamp = _stamp(path)
            if self._logged.get(path) != stamp:
                self._logged[path] = stamp
                _LOGGER.error("%s; its earlier contents are used", message)


class CurrentQwacs(QwacPolicy):
    """Verifies QWACs with the current revocation lists.

    Args:
        paths: verifies certificates.
        revocations: the revocation lists of `paths`, which are refreshed with a request, at most every 5 ms.
        organizations: the accepted organizationIdentifiers.
    """

    paths: PathVerifier

    def __init__(self, paths: PathVerifier, revocations: FolderRevocations, organizations: OrganizationPolicy) -> None:
        super().__init__(paths, organizations=organizations)
        self._revocations = revocations
        self._refresh_at = 0.0

    def verify(self, peer: PeerCertificate, *, at: datetime) -> TrustedPath:
        """See `QwacPolicy.verify`."""
        now = time.monotonic()
        if now >= self._refresh_at:  # a refresh takes longer than the verification
            self._revocations.refresh()
            self._refresh_at = now + _REFRESH_EVERY_S
        if not self.paths.anchors.intermediates:
            # A new verifier without cached certificates, so that each request must contain its intermediates.
            self.paths = PathVerifier(self.paths.anchors, revocation=self.paths.revocation)
        return super().verify(peer, at=at)


def _stamp(path: Path) -> _Stamp:
    # The inode distinguishes a replaced list of the same size and modification time.
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
