"""Redact bodies and prune parts of an archive, or hold both. A receipt is written first; leaves, heads and stamps do not change.

    redact("evidence", [41, 42], ground="erasure request 7", by="Ada", now=utc_now())
    prune("evidence", before=datetime(2020, 1, 1, tzinfo=UTC), ground="retention", by="Ada", now=utc_now())

Run an operation again after a crash: what was begun is completed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tppkit._clock import from_microseconds, to_microseconds
from tppkit._files import PRIVATE, FilePath, as_path, replace_file
from tppkit.certificates.algorithms import NEVER
from tppkit.errors import ArchiveError, ConfigurationError, Finding, FormatError, Severity
from tppkit.evidence.files import sync
from tppkit.evidence.manifest import Manifest
from tppkit.evidence.operations import (
    Ranges,
    add_operation,
    holds,
    joined,
    missing_in,
    operating,
    read_operations,
    records_of,
)
from tppkit.evidence.record import BodyState
from tppkit.evidence.segments import Segment, list_segments
from tppkit.evidence.table import Columns, entries, leaves
from tppkit.evidence.tree import subtrees

_MONTH = re.compile("[0-9]{4}-[0-9]{2}")
_CLOCKS = timedelta(days=1)  # records are not exactly in the order of their times
_UNKNOWN = datetime(1970, 1, 2, tzinfo=UTC)


def redact(archive: FilePath, seqs: Collection[int], *, ground: str, by: str, now: datetime) -> tuple[str, ...]:
    """Remove the bodies of records. Their digests stay, in the record and under the seal.

    Args:
        archive: the archive.
        seqs: the places of the records, which are in sealed parts.
        ground: why, for the receipt.
        by: who, for the receipt.
        now: the present, aware UTC.

    Returns:
        The files that were written again.

    Raises:
        ArchiveError: `archive.held`; `record.unsealed`, a record is in no sealed part; `archive.unreadable`, `archive.unusable`.
        FormatError: `log.segment-changed`, a part does not have the records of its manifest; `operations.malformed`.
        ConfigurationError: `operations.text`, `file.unwritable`, `extra.missing`.
    """
    folder, wanted = as_path(archive), joined((seq, seq) for seq in seqs)
    with _operating(folder) as receipts:
        parts = [one for one in _sealed(folder) if any(seq in _places(one[1]) for seq in seqs)]
        for seq in seqs:
            if sum(seq in _places(manifest) for _, manifest in parts) != 1:
                raise ArchiveError("record.unsealed", f"record {seq} is in no sealed part of {folder}, or was pruned")
        known = records_of(receipts, "redact")
        changed = []
        try:
            for segment, manifest in parts:
                again = _written_again(segment, manifest, frozenset(seqs), joined([*known, *wanted]))
                if again.sha256 != manifest.sha256 or again.sha256 != segment.sha256():
                    changed.append((segment, again))
            _add_receipt(folder, "redact", parts, missing_in(known, wanted), ground=ground, by=by, now=now)
            for segment, manifest in changed:
                _replace(segment, manifest)
        finally:
            for segment, _ in parts:
                _partial(segment).unlink(missing_ok=True)
        return tuple(segment.name for segment, _ in changed)


def _sealed(folder: Path) -> list[tuple[Segment, Manifest]]:
    """Return the sealed parts that have their file, each with its manifest."""
    return [(one, one.manifest) for one in list_segments(folder) if one.manifest is not None and one.size is not None]


def _places(manifest: Manifest) -> range:
    return range(manifest.first_seq, manifest.end)


def _add_receipt(
    folder: Path, operation: str, parts: Sequence[tuple[Segment, Manifest]], records: Iterable[tuple[int, int]], *,
    ground: str, by: str, now: datetime,
) -> None:  # fmt: skip
    """Add the receipt of records that have none yet."""
    if rest := [*records]:
        stream_id = parts[0][1].stream_id
        add_operation(folder, operation, ground=ground, by=by, stream_id=stream_id, records=rest, now=now)


def _partial(segment: Segment) -> Path:
    return segment.path.with_suffix(".part")


def _written_again(segment: Segment, manifest: Manifest, seqs: Collection[int], receipts: Ranges) -> Manifest:
    """Write a part beside itself, without the bodies of records, and return its manifest."""
    from tppkit.evidence.parquet import write_parquet  # needs the extra `audit`, as reading it

    known = list[bytes]()
    digest = write_parquet(_partial(segment), _without_bodies(segment, seqs, receipts, known))
    if not manifest.has_subtrees(subtrees(manifest.first_seq, known)):
        raise FormatError("log.segment-changed", f"{segment.path} does not have the records of its manifest")
    return replace(manifest, sha256=digest)


def _without_bodies(segment: Segment, seqs: Collection[int], receipts: Ranges, known: list[bytes]) -> Iterator[Columns]:
    for columns in segment.read():
        bodies, states = list(columns["body"]), list(columns["body_state"])
        for number, (leaf, entry) in enumerate(zip(leaves(columns), entries(columns), strict=True)):
            if entry.body_state == BodyState.REDACTED:
                is_intact = not any(missing_in(receipts, [(entry.seq, entry.seq)]))
            else:
                is_intact = hashlib.sha256(entry.body or b"").hexdigest() == entry.body_sha256
            if leaf is None or leaf != entry.leaf or not is_intact:  # the new manifest would hide it
                raise FormatError("log.segment-changed", f"record {entry.seq} of {segment.path} was changed: audit it")
            known.append(bytes.fromhex(leaf))
            if entry.seq in seqs:
                bodies[number], states[number] = None, int(BodyState.REDACTED)
        yield {**columns, "body": bodies, "body_state": states}


def _replace(segment: Segment, manifest: Manifest) -> None:
    try:
        _partial(segment).replace(segment.path)
        sync(segment.path.parent)
        replace_file(segment.path.with_suffix(".json"), manifest.to_bytes(), mode=PRIVATE)
        sync(segment.path.parent)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{segment.path} cannot be replaced: {e.strerror}") from e


def prune(archive: FilePath, *, before: datetime, ground: str, by: str, now: datetime) -> tuple[str, ...]:
    """Remove the sealed parts of which every record was received before a time, and answers of the months that are then over.

    Manifests and stamps stay, so every later head proves what was there. Parts that are not sealed stay.

    Args:
        archive: the archive.
        before: the time, aware UTC, not after the present.
        ground: why, for the receipt.
        by: who, for the receipt.
        now: the present, aware UTC.

    Returns:
        What was removed.

    Raises:
        ArchiveError: `archive.held`; `archive.unreadable`, `archive.unusable`.
        FormatError: `operations.malformed`.
        ConfigurationError: `operations.text`; `operations.future`, the time is after the present; `file.unwritable`.
    """
    if before > now:
        raise ConfigurationError("operations.future", "records that are yet to be received cannot be pruned")
    folder, limit = as_path(archive), to_microseconds(before)
    with _operating(folder) as receipts:
        parts = [(segment, manifest) for segment, manifest in _sealed(folder) if manifest.received_to < limit]
        gone = [segment.name for segment, _ in parts]
        stay = [one for one in list_segments(folder) if one.size is not None and one.name not in gone]
        month = f"{min([before, *map(_earliest, stay)]) - _CLOCKS:%Y-%m}"
        wanted = joined((manifest.first_seq, manifest.end - 1) for _, manifest in parts)
        rest = missing_in(records_of(receipts, "prune"), wanted)
        _add_receipt(folder, "prune", parts, rest, ground=ground, by=by, now=now)
        try:
            for segment, _ in parts:
                segment.path.unlink()
                sync(segment.path.parent)
            return (*gone, *_remove_answers(folder / "answers", month))
        except OSError as e:
            raise ArchiveError("archive.unusable", f"{e.filename} cannot be removed: {e.strerror}") from e


def _earliest(segment: Segment) -> datetime:
    """Return about when the first record of a part was received; the beginning of time if that is not known."""
    if segment.manifest is not None:
        return from_microseconds(segment.manifest.received_from)
    try:
        columns = next(segment.read(), None)
    except ArchiveError:
        return _UNKNOWN
    if columns is None:
        return NEVER  # it is empty
    at = columns["received_at"][0]
    return _UNKNOWN if at is None else from_microseconds(at)


def _remove_answers(folder: Path, month: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)) if folder.is_dir() and not folder.is_symlink() else ():
        if _MONTH.fullmatch(name) and name < month:
            shutil.rmtree(folder / name)
            yield f"{folder.name}/{name}"


def hold(archive: FilePath, *, ground: str, by: str, now: datetime) -> None:
    """Refuse to redact and prune, until the hold with this ground is released.

    Raises:
        ArchiveError: `archive.unusable`, `archive.unreadable`.
        FormatError: `operations.malformed`.
        ConfigurationError: `operations.text`, `file.unwritable`.
    """
    with _operating(as_path(archive), is_held=False) as receipts:
        if ground not in holds(receipts):
            add_operation(archive, "hold", ground=ground, by=by, stream_id="", records=(), now=now)


def release(archive: FilePath, *, ground: str, by: str, now: datetime) -> None:
    """End a hold. Others stay.

    Raises:
        ArchiveError: `archive.held`, no hold has this ground; and as `hold`.
    """
    with _operating(as_path(archive), is_held=False) as receipts:
        if ground not in holds(receipts):
            known = ", ".join(map(repr, holds(receipts))) or "none"
            raise ArchiveError("archive.held", f"there is no hold with the ground {ground!r}; there are: {known}")
        add_operation(archive, "release", ground=ground, by=by, stream_id="", records=(), now=now)


@contextmanager
def _operating(folder: Path, *, is_held: bool = True) -> Iterator[tuple[Mapping[str, Any], ...]]:
    """Let one process at a time seal, redact, prune or hold; give the receipts so far."""
    with operating(folder):
        receipts = read_operations(folder)
        if is_held and (grounds := holds(receipts)):
            raise ArchiveError("archive.held", f"{folder} is held: {', '.join(map(repr, grounds))}")
        yield receipts


def check_receipts(segment: Segment, redacted: Ranges, receipts: Collection[Mapping[str, Any]]) -> Iterator[Finding]:
    """Find bodies and parts of an archive that are gone without a receipt.

    Args:
        segment: a part.
        redacted: the records in it whose bodies were redacted.
        receipts: of its archive.
    """
    operation, what = "redact", "have redacted bodies"
    if segment.size is None and segment.manifest is not None:
        operation, what = "prune", "are missing"
        redacted = [(segment.manifest.first_seq, segment.manifest.end - 1)]
    for first, last in missing_in(records_of(receipts, operation), joined(redacted)):
        message = f"records {first} to {last} of {segment.path} {what}, and no receipt says why"
        yield Finding("log.redaction", Severity.ERROR, message)
