"""The files of an archive: which are not its own, and whether those that are named by their hashes have that content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tppkit._files import FilePath, as_path, read_bounded, regular_only
from tppkit.errors import ArchiveError, Finding, FormatError, Severity

_KNOWN = re.compile(
    r"records\.jsonl|records-[0-9]{12}\.jsonl|records\.torn-[0-9]+|operations\.jsonl"
    r"|segments/[0-9]{4}-[0-9]{2}-[0-9]{12}\.(parquet|json|tsr)"
)
_BY_HASH = re.compile(r"(?:certs/|answers/[0-9]{4}-[0-9]{2}/|lists/)([0-9a-f]{64})\.(?:der|xml)")
_MAX_NAMED = 20
_MAX_BYTES = 64 * 1024 * 1024  # of a trusted list


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
        if named is None and not _KNOWN.fullmatch(name):
            unknown.append(name)
        elif named is not None and _sha256(path) != named[1]:
            message = f"{path} does not have the content that its name states, or is not a file"
            yield Finding("archive.damaged-file", Severity.ERROR, message)
    if unknown:
        more = f", and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
        names = ", ".join(islice(map(repr, sorted(unknown)), _MAX_NAMED))
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
        return hashlib.sha256(read_bounded(path, max_bytes=_MAX_BYTES, opener=regular_only)).hexdigest()
    except FormatError:
        return None
