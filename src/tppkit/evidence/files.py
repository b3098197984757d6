"""The files that records name by SHA-256: certificates, answers about revocation, and trusted lists.

certs/<sha256>.der                certificates
answers/<YYYY-MM>/<sha256>.der    CRLs and OCSP responses, by the month of receipt, so that whole months can be pruned
lists/<sha256>.xml                trusted lists
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from threading import Lock

from tppkit._cache import Cache
from tppkit._files import FOLDER, FilePath, as_path, read_bounded, regular_only, write_new
from tppkit.certificates import EidasCertificate
from tppkit.certificates.certificate import MAX_CERTIFICATE_BYTES
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.trust import RevocationEvidence, parse_revocation
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES

CERTIFICATES, ANSWERS, LISTS = "certs", "answers", "lists"
MAX_ANSWERS = 64
_REMEMBERED = 4_096


def certificate_file(sha256: str) -> str:
    """Return the name of a certificate's file in an archive."""
    return f"{CERTIFICATES}/{sha256}.der"


def answer_file(sha256: str, received_at: datetime) -> str:
    """Return the name of an answer's file in an archive, for a record received at a time (aware UTC)."""
    return f"{ANSWERS}/{received_at.year:04}-{received_at.month:02}/{sha256}.der"


def list_file(sha256: str) -> str:
    """Return the name of a trusted list's file in an archive."""
    return f"{LISTS}/{sha256}.xml"


class KeptFiles:
    """The files of an archive that its records name, each stored once. Any number of processes may add to them.

    Raises:
        ArchiveError: `archive.unusable`.

    Example:
        files = KeptFiles("evidence")
        files.keep(record.files)
    """

    def __init__(self, archive: FilePath) -> None:
        self._archive = as_path(archive)
        self._one_at_a_time = Lock()
        self._kept = Cache[str, bool](_REMEMBERED)
        try:
            for folder in (self._archive, self._archive / CERTIFICATES):
                folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        except OSError as e:
            raise ArchiveError("archive.unusable", f"the archive {archive} cannot be opened: {e.strerror}") from e

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Write the files that are not in the archive yet, and wait until they are on disk.

        Args:
            files: content by name, as `EvidenceRecord.files`.

        Raises:
            ArchiveError: `archive.unusable`.
        """
        folder = self._archive / CERTIFICATES
        if not folder.is_dir():  # a certificate that was written before would be missing in the archive
            raise ArchiveError("archive.unusable", f"{folder} was moved or deleted; restore it")
        if all(name in self._kept for name in files):
            return  # without waiting for a thread that writes
        with self._one_at_a_time:
            for name, content in files.items():
                if name not in self._kept:
                    self._write(self._archive / name, content)
                    self._kept.put(name, True)

    def _write(self, path: Path, content: bytes) -> None:
        partial = path.with_suffix(f".{os.getpid()}.part")
        try:
            if path.exists():
                return
            for folder in (path.parent.parent, path.parent):
                if not folder.is_dir():
                    folder.mkdir(mode=FOLDER, exist_ok=True)
                    sync(folder.parent)
            partial.unlink(missing_ok=True)
            write_new(partial, content)
            sync(partial)
            partial.replace(path)
            sync(path.parent)
        except ConfigurationError as e:
            raise ArchiveError("archive.unusable", e.message) from e
        except OSError as e:
            raise ArchiveError("archive.unusable", f"{path.name} cannot be written: {e.strerror}") from e


def sync(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_certificate(folder: FilePath, sha256: str) -> EidasCertificate:
    """Load a certificate of an archive.

    Args:
        folder: the archive.
        sha256: 64 lower-case hexadecimal digits, as in records.

    Raises:
        FormatError: `file.unreadable`, it is absent or not a regular file; `file.too-large`; `record.certificate`, the content is
            damaged or another certificate; `certificate.malformed`.
    """
    data = read_bounded(
        as_path(folder) / certificate_file(sha256), max_bytes=MAX_CERTIFICATE_BYTES, opener=regular_only
    )
    if hashlib.sha256(data).hexdigest() != sha256:
        raise FormatError("record.certificate", f"the stored certificate {sha256[:16]}… is damaged or another one")
    return EidasCertificate.from_der(data)


def load_answers(folder: FilePath, answers: Iterable[str], received_at: datetime) -> RevocationEvidence:
    """Load the answers about revocation that a record names, at most 64 and 32 MB together.

    Args:
        folder: the archive.
        answers: SHA-256 of each, 64 lower-case hexadecimal digits.
        received_at: when the record was received, aware UTC.

    Raises:
        FormatError: `record.answer`, one is absent, damaged or another one, or they exceed the limits.
    """
    evidence, room = RevocationEvidence(), MAX_CRL_BYTES
    for number, sha256 in enumerate(answers):
        name = f"the stored answer {sha256[:16]}…"
        if number == MAX_ANSWERS:
            raise FormatError("record.answer", f"the record names more than {MAX_ANSWERS} answers about revocation")
        try:
            data = read_bounded(as_path(folder) / answer_file(sha256, received_at), max_bytes=room, opener=regular_only)
            if hashlib.sha256(data).hexdigest() != sha256:
                raise FormatError("record.answer", f"{name} about revocation is damaged or another one")
            evidence += parse_revocation(data, name=name)
        except FormatError as e:
            raise FormatError("record.answer", f"{name} about revocation cannot be used: {e.message}") from e
        room -= len(data)
    return evidence
