"""The parts of an archive that are audited one by one, in the order of their records.

    for segment in list_segments("evidence"):
        for columns in segment.read(): ...

An archive has one open part, to which its writer appends, and closed ones that do not change any more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tppkit._encoding import shown
from tppkit._files import FilePath, as_path, regular_only
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence.algorithms import Proof
from tppkit.evidence.archive import RECORDS, closed_parts, read_lines
from tppkit.evidence.manifest import SEGMENTS, Manifest, list_manifests, read_manifest
from tppkit.evidence.table import Columns, batches

STAMP = ".tsr"
_CHUNK = 1 << 20
_MAX_NAMED = 5
Progress = Callable[[int], None]
"""Called with the number of records that were verified since the last call."""
_PARQUET_END = b"PAR1"


class State(StrEnum):
    """What may still happen to a segment."""

    OPEN = "open"
    CLOSED = "closed"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an archive.

    Attributes:
        archive: the archive's folder.
        name: the file in it.
        state: what may still happen to it.
        first_seq: the place of its first record, by its name; None for the open part.
        size: the bytes to read, so that records that are appended later are not read; None if a sealed part has no file.
        manifest: the manifest of a sealed part; None for others, and if the manifest cannot be read.
        stamp: the file of its time stamp, or None.
        proof: what a time stamp proves about its records; None if none does, or before `stamps.check_stamps`.
    """

    archive: Path
    name: str
    state: State
    first_seq: int | None
    size: int | None
    manifest: Manifest | None = None
    stamp: str | None = None
    proof: Proof | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self.archive / self.name

    def read(self, having: Mapping[str, Set[Any]] | None = None) -> Iterator[Columns]:
        """Read its records in batches of bounded size.

        Args:
            having: names of columns with values, as in Parquet. Batches without such a value may be left out.

        Raises:
            ArchiveError: `archive.unreadable`.
            ConfigurationError: `extra.missing`, a sealed part needs the extra `audit`.
        """
        if self.state is State.SEALED:
            from tppkit.evidence.parquet import read_parquet  # an archive that was never sealed needs no pyarrow

            return read_parquet(self.path, regular_only, having)
        return batches(read_lines(self.archive, name=self.name, end=self.size))

    def estimate(self) -> int:
        """Return about how many records it has: by its manifest, or by the length of its first lines."""
        if self.manifest is not None:
            return self.manifest.records
        first = b""
        if self.state is not State.SEALED:
            with suppress(OSError), open(self.path, "rb", opener=regular_only) as file:
                first = file.read(_CHUNK)
        return (self.size or 0) * first.count(b"\n") // max(len(first), 1)

    def sha256(self) -> str:
        """Return the hash of its bytes, hexadecimal.

        Raises:
            ArchiveError: `archive.unreadable`.
        """
        hashing, rest = hashlib.sha256(), self.size or 0
        try:
            with open(self.path, "rb", opener=regular_only) as file:
                if self.state is State.SEALED and rest > _CHUNK:
                    file.seek(rest - len(_PARQUET_END))
                    if file.read() != _PARQUET_END:  # such as a file with a large hole, which would take long to read
                        raise ArchiveError("archive.unreadable", f"{self.path} does not end as a Parquet file does")
                    file.seek(0)
                while rest and (chunk := file.read(min(rest, _CHUNK))):
                    hashing.update(chunk)
                    rest -= len(chunk)
        except OSError as e:
            raise ArchiveError("archive.unreadable", f"{self.path} cannot be read: {e.strerror}") from e
        return hashing.hexdigest()


def list_segments(archive: FilePath) -> tuple[Segment, ...]:
    """List the parts of an archive in the order of their records. An empty folder has none.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    folder = as_path(archive)
    try:
        names = os.listdir(folder)
        parts = closed_parts(folder)
        unsealed = {first_seq for first_seq, _ in parts}
        # A manifest that was lost hides no records; but where sealing was interrupted, the closed part still has them.
        lost = [path for path in list_manifests(folder, suffix=".parquet") if int(path.stem[8:]) not in unsealed]
        manifests = {*list_manifests(folder), *(path.with_suffix(".json") for path in lost)}
        found = [_sealed(folder, path) for path in sorted(manifests, key=lambda path: path.name[8:])]
        end = max((one.manifest.end for one in found if one.manifest is not None), default=0)
        found += [
            Segment(folder, name, State.CLOSED, first_seq, (folder / name).stat().st_size)
            for first_seq, name in parts
            if first_seq >= end  # a part that is sealed, and was not removed because of a crash
        ]
        if names and RECORDS not in names and not found:
            raise ArchiveError("archive.unreadable", _no_archive(folder, names))
        if RECORDS in names:
            found.append(Segment(folder, RECORDS, State.OPEN, None, (folder / RECORDS).stat().st_size))
    except OSError as e:
        raise ArchiveError("archive.unreadable", f"{e.filename or folder} cannot be read: {e.strerror}") from e
    return tuple(found)


def _no_archive(folder: Path, names: list[str]) -> str:
    """Say that a folder is no archive, and name those in it."""
    kept = [
        name
        for name in sorted(names)
        if os.path.isfile(folder / name / RECORDS) or os.path.isdir(folder / name / SEGMENTS)
    ]
    inside = f"; archives in it: {', '.join(shown(name) for name in kept[:_MAX_NAMED])}" if kept else ""
    return f"{folder} is not an archive: it has no {RECORDS}{inside}"


def _sealed(folder: Path, path: Path) -> Segment:
    manifest = None
    with suppress(FormatError):  # the merge reports it
        manifest = read_manifest(path)
    file = path.with_suffix(".parquet")
    size = file.lstat().st_size if os.path.lexists(file) else None
    stamp = f"{SEGMENTS}/{path.stem}{STAMP}" if os.path.lexists(path.with_suffix(STAMP)) else None
    return Segment(folder, f"{SEGMENTS}/{file.name}", State.SEALED, int(path.stem[8:]), size, manifest, stamp)
