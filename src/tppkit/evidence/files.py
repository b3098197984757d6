"""The files of an archive: those that records name by SHA-256, which are kept here, and which files belong to an archive at all.

certs/<sha256>.der                certificates
answers/<YYYY-MM>/<sha256>.der    CRLs and OCSP responses, by the month of receipt, so that whole months can be pruned
lists/<sha256>.xml                trusted lists
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from threading import Lock

from tppkit._cache import Cache
from tppkit._files import FOLDER, PRIVATE, FilePath, as_path, read_bounded, regular_only, replace_file
from tppkit.certificates import EidasCertificate
from tppkit.certificates.certificate import MAX_CERTIFICATE_BYTES
from tppkit.errors import ArchiveError, ConfigurationError, Finding, FormatError, Severity
from tppkit.trust import RevocationEvidence, parse_revocation
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES

CERTIFICATES, ANSWERS, LISTS = "certs", "answers", "lists"
MAX_ANSWERS = 64
_MAX_LIST_BYTES = 64 * 1024 * 1024
_REMEMBERED = 4_096
_MAX_NAMED = 20
_BY_HASH = re.compile(rf"(?:{CERTIFICATES}/|{ANSWERS}/[0-9]{{4}}-[0-9]{{2}}/|{LISTS}/)([0-9a-f]{{64}})\.(?:der|xml)")
_OTHERS = re.compile(
    r"records\.jsonl|records-[0-9]{12}\.jsonl|records\.torn-[0-9]+|operations\.jsonl"
    r"|segments/[0-9]{4}-[0-9]{2}-[0-9]{12}\.(parquet|json|tsr)"
)


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

    def keep(self, files: Mapping[str, bytes], certificates: Iterable[EidasCertificate] = ()) -> None:
        """Write the files that are not in the archive yet, and wait until they are on disk.

        Args:
            files: content by name, as `EvidenceRecord.files`.
            certificates: further ones.

        Raises:
            ArchiveError: `archive.unusable`.
        """
        folder = self._archive / CERTIFICATES
        if not folder.is_dir():  # a certificate that was written before would be missing in the archive
            raise ArchiveError("archive.unusable", f"{folder} was moved or deleted; restore it")
        files = {**files, **{certificate_file(one.sha256): one.der for one in certificates}}
        if all(name in self._kept for name in files):
            return  # without waiting for a thread that writes
        with self._one_at_a_time:
            for name, content in files.items():
                if name not in self._kept:
                    self._write(self._archive / name, content)
                    self._kept.put(name, True)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            if path.exists():
                return
            for folder in (path.parent.parent, path.parent):
                if not folder.is_dir():
                    folder.mkdir(mode=FOLDER, exist_ok=True)
                    sync(folder.parent)
            replace_file(path, content)
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


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read if it is made; an opener for `open()`."""
    return os.open(path, flags, PRIVATE)


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


def check_files(archive: FilePath) -> Iterator[Finding]:
    """Find files that no archive has, and files named by their hashes with another content.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    folder = as_path(archive)
    unknown = list[str]()
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        named = _BY_HASH.fullmatch(name)
        if named is None and not _OTHERS.fullmatch(name):
            unknown.append(name)
        elif named is not None and _sha256(path) != named[1]:
            message = f"{path} does not have the content that its name states, or is not a file"
            yield Finding("archive.damaged-file", Severity.ERROR, message)
    if unknown:
        more = f", and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
        names = ", ".join(map(repr, sorted(unknown)[:_MAX_NAMED]))
        message = f"{folder} has files that belong to no archive: {names}{more}"
        yield Finding("archive.unknown-file", Severity.WARNING, message)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything that is no folder, or has the name of a file, without following links."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for one in found:
                    if one.is_dir(follow_symlinks=False) and "." not in one.name:
                        waiting.append(Path(one.path))
                    else:
                        yield Path(one.path)
        except OSError as e:
            raise ArchiveError("archive.unreadable", f"{e.filename or folder} cannot be read: {e.strerror}") from e


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(read_bounded(path, max_bytes=_MAX_LIST_BYTES, opener=regular_only)).hexdigest()
    except FormatError:
        return None
