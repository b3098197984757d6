"""Seal the closed parts of an archive: into Parquet files with manifests, which take a quarter of the space.

    for name in seal_archive("evidence"):
        print(name)

The writer may go on meanwhile: it appends to the open part only. A part that does not check stays as it is, for the audit to report.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tppkit._clock import from_microseconds
from tppkit._files import PRIVATE, FilePath, as_path, regular_only, replace_file
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence.archive import closed_parts, read_lines
from tppkit.evidence.checks import unverified
from tppkit.evidence.files import sync
from tppkit.evidence.manifest import SEGMENTS, Manifest, list_manifests, read_manifest
from tppkit.evidence.operations import OPERATIONS, operating
from tppkit.evidence.parquet import read_parquet, write_parquet
from tppkit.evidence.record import FIRST_PREVIOUS
from tppkit.evidence.stream import Stream
from tppkit.evidence.table import Columns, batches, entries, leaves
from tppkit.evidence.tree import Frontier, subtrees

_ANY_TIME = datetime(9999, 12, 31, tzinfo=UTC) - timedelta(hours=1)  # the audit compares times
_LOGGER = logging.getLogger("tppkit.evidence")


def seal_archive(archive: FilePath) -> Iterator[Manifest]:
    """Seal the closed parts of an archive, the oldest first; yield the manifest of each when it is on disk.

        for manifest in seal_archive("evidence"):
            print(manifest.file, manifest.records)

    It stops at a part that does not check, which it logs. Run it again after a crash: what was begun is done again.

    Raises:
        ArchiveError: `archive.unreadable`; `archive.unusable`, a file cannot be written.
        FormatError: `manifest.malformed`, an earlier manifest does not follow on.
        ConfigurationError: `file.unwritable`; `extra.missing`.
    """
    folder = as_path(archive)
    with operating(folder):
        _remove_leftovers(folder)
        yield from _seal_parts(folder, closed_parts(folder))


def _seal_parts(folder: Path, parts: Sequence[tuple[int, str]]) -> Iterator[Manifest]:
    frontier, stream_id, previous = Frontier(), None, FIRST_PREVIOUS
    for path in list_manifests(folder):
        manifest = read_manifest(path)
        manifest.join(frontier)
        stream_id, previous = manifest.stream_id, manifest.leaf
    for first_seq, name in parts:
        if first_seq < frontier.size:  # a manifest covers it: a crash came before it was removed
            _remove(folder / name)
            continue
        try:
            manifest = _seal_part(folder, name, first_seq, frontier, stream_id, previous)
        except FormatError as e:
            _LOGGER.error("%s is not sealed, and the parts after it wait: %s", folder / name, e.message)
            return
        stream_id, previous = manifest.stream_id, manifest.leaf
        _remove(folder / name)
        yield manifest


def _seal_part(
    folder: Path, name: str, first_seq: int, frontier: Frontier, stream_id: str | None, previous: str
) -> Manifest:
    found = list[str]()
    received = list[int]()
    partial = folder / SEGMENTS / f"{first_seq:012}.part"
    stream = Stream(now=_ANY_TIME, stream_id=stream_id, next_seq=first_seq, previous=previous)
    try:
        digest = write_parquet(partial, _checked(folder, name, stream, found, received))
        if not found or stream.stream_id is None:
            raise FormatError("log.empty", "it contains no record")
        if found != [leaf for columns in read_parquet(partial, regular_only) for leaf in leaves(columns)]:
            raise ArchiveError("archive.unusable", f"{partial} does not have the records that were written to it")
        file = partial.with_name(f"{from_microseconds(received[0]):%Y-%m}-{first_seq:012}.parquet")
        partial.replace(file)
        sync(file.parent)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{partial} cannot be replaced: {e.strerror}") from e
    finally:
        partial.unlink(missing_ok=True)
    pieces = subtrees(first_seq, [bytes.fromhex(leaf) for leaf in found])
    for level, node in pieces:
        frontier.join(level, node)
    manifest = Manifest(
        stream.stream_id, first_seq, len(found), min(received), max(received), previous, found[-1],
        tuple((level, node.hex()) for level, node in pieces), frontier.root().hex(), file.name, digest,
    )  # fmt: skip
    replace_file(file.with_suffix(".json"), manifest.to_bytes(), mode=PRIVATE)
    sync(file.parent)
    return manifest


def _checked(folder: Path, name: str, stream: Stream, found: list[str], received: list[int]) -> Iterator[Columns]:
    """Yield the records of a part that are intact and follow on, and add their leaves and times of receipt.

    Raises:
        FormatError: the fault of the first record that is not.
    """
    for columns in batches(read_lines(folder, name=name)):
        for row in map(unverified, leaves(columns), entries(columns)):
            place = stream.add(row)
            fault = (place.code, place.message) if place and not place.code.startswith("log.time") else None
            for code, message in (*row.failures, *filter(None, [fault])):
                raise FormatError(code, f"line {row.line}: {message}")
            found.append(row.leaf or "")
        received += columns["received_at"]
        yield columns


def _remove_leftovers(folder: Path) -> None:
    """Remove what a crash left half written."""
    patterns = ((folder / SEGMENTS, "*.part"), (folder / SEGMENTS, ".*-*"), (folder, f".{OPERATIONS}-*"))
    for path in (path for where, pattern in patterns for path in where.glob(pattern)):
        _remove(path)


def _remove(path: Path) -> None:
    try:
        path.unlink()
        sync(path.parent)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{path} cannot be removed: {e.strerror}") from e
