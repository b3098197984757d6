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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tppkit._clock import from_microseconds, to_microseconds
from tppkit._files import PRIVATE, FilePath, as_path, locked, replace_file
from tppkit.errors import ArchiveError, ConfigurationError, Finding, FormatError, Severity
from tppkit.evidence.files import sync
from tppkit.evidence.manifest import SEGMENTS, Manifest
from tppkit.evidence.operations import Ranges, add_operation, holds, joined, missing_in, read_operations, records_of
from tppkit.evidence.record import BodyState
from tppkit.evidence.segments import Segment, list_segments
from tppkit.evidence.table import Columns, entries, leaves
from tppkit.evidence.tree import subtrees

_MONTH = re.compile("[0-9]{4}-[0-9]{2}")
_CLOCKS = timedelta(days=1)  # records are not exactly in the order of their times


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
    folder = as_path(archive)
    with _operating(folder) as receipts:
        parts: dict[str, tuple[Segment, Manifest, set[int]]] = {}
        sealed = [(one, one.manifest) for one in list_segments(folder) if one.manifest is not None]
        for seq in seqs:
            found = [(one, manifest) for one, manifest in sealed if manifest.first_seq <= seq < manifest.end]
            if len(found) != 1 or found[0][0].size is None:
                raise ArchiveError("record.unsealed", f"record {seq} is in no sealed part of {folder}, or was pruned")
            parts.setdefault(found[0][0].name, (*found[0], set()))[2].add(seq)
        wanted = joined((seq, seq) for seq in seqs)
        changed = []
        try:
            for segment, manifest, places in parts.values():
                known = records_of(receipts, "redact", manifest.stream_id)
                again = _written_again(segment, manifest, places, joined([*known, *wanted]))
                if again.sha256 != manifest.sha256 or again.sha256 != segment.sha256():
                    changed.append((segment, again))
            for stream_id in dict.fromkeys(manifest.stream_id for _, manifest, _ in parts.values()):
                known = records_of(receipts, "redact", stream_id)
                if rest := [*missing_in(known, wanted)]:
                    add_operation(folder, "redact", ground=ground, by=by, stream_id=stream_id, records=rest, now=now)
            for segment, manifest in changed:
                _replace(segment, manifest)
        finally:
            for segment, _, _ in parts.values():
                _partial(segment).unlink(missing_ok=True)
        return tuple(segment.name for segment, _ in changed)


def _partial(segment: Segment) -> Path:
    return segment.path.with_suffix(".part")


def _written_again(segment: Segment, manifest: Manifest, places: Collection[int], receipts: Ranges) -> Manifest:
    """Write a part beside itself, without the bodies of records, and return its manifest."""
    from tppkit.evidence.parquet import write_parquet  # needs the extra `audit`, as reading it

    partial, known = _partial(segment), list[bytes]()
    try:
        with open(partial, "wb", opener=_private) as file:
            write_parquet(file, _without_bodies(segment, manifest, places, receipts, known))
            file.flush()
            os.fsync(file.fileno())
        pieces = tuple((level, node.hex()) for level, node in subtrees(manifest.first_seq, known))
        if pieces != manifest.subtrees:
            raise FormatError("log.segment-changed", f"{segment.path} does not have the records of its manifest")
        with open(partial, "rb") as file:
            return replace(manifest, sha256=hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{partial} cannot be written: {e.strerror}") from e


def _without_bodies(
    segment: Segment, manifest: Manifest, places: Collection[int], receipts: Ranges, known: list[bytes]
) -> Iterator[Columns]:
    for columns in segment.read():
        found = leaves(columns)
        for leaf, entry in zip(found, entries(columns), strict=True):
            body, is_redacted = entry.body or b"", entry.body_state == BodyState.REDACTED
            is_known = not any(missing_in(receipts, [(entry.seq, entry.seq)])) if is_redacted else True
            if leaf != entry.leaf or not is_known or not (is_redacted or _is_body(body, entry.body_sha256)):
                # The new manifest would hide it.
                raise FormatError("log.segment-changed", f"record {entry.seq} of {segment.path} was changed: audit it")
        known += [bytes.fromhex(leaf or "") for leaf in found]
        is_chosen = [seq in places for seq in columns["seq"]]
        bodies, states = (list(columns[name]) for name in ("body", "body_state"))
        yield {
            **columns,
            "body": [None if chosen else body for chosen, body in zip(is_chosen, bodies, strict=True)],
            "body_state": [int(BodyState.REDACTED) if one else state for one, state in zip(is_chosen, states, strict=True)],
        }  # fmt: skip


def _is_body(body: bytes, sha256: str) -> bool:
    return hashlib.sha256(body).hexdigest() == sha256


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
        segments = list_segments(folder)
        parts = [
            (one, one.manifest) for one in segments
            if one.size is not None and one.manifest is not None and one.manifest.received_to < limit
        ]  # fmt: skip
        for stream_id in dict.fromkeys(manifest.stream_id for _, manifest in parts):
            wanted = [
                (manifest.first_seq, manifest.end - 1) for _, manifest in parts if manifest.stream_id == stream_id
            ]
            if rest := [*missing_in(records_of(receipts, "prune", stream_id), joined(wanted))]:
                add_operation(folder, "prune", ground=ground, by=by, stream_id=stream_id, records=rest, now=now)
        gone = {segment.name for segment, _ in parts}
        stay = [one for one in segments if one.size is not None and one.name not in gone]
        month = f"{min([before, *(_earliest(one) for one in stay)]) - _CLOCKS:%Y-%m}"
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
    with suppress(ArchiveError):
        for columns in segment.read():
            if (at := columns["received_at"][0]) is not None:
                return from_microseconds(at)
            break
        else:
            return from_microseconds(253_402_300_799_999_999)  # it is empty
    return from_microseconds(_CLOCKS // timedelta(microseconds=1))


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
    try:
        (folder / SEGMENTS).mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{folder / SEGMENTS} cannot be used: {e.strerror}") from e
    with locked(folder / SEGMENTS):
        receipts = read_operations(folder)
        if is_held and (grounds := holds(receipts)):
            raise ArchiveError("archive.held", f"{folder} is held: {', '.join(map(repr, grounds))}")
        yield receipts


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


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
    named = joined(range_ for one in receipts if one["operation"] == operation for range_ in one["records"])
    for first, last in missing_in(named, joined(redacted)):
        message = f"records {first} to {last} of {segment.path} {what}, and no receipt says why"
        yield Finding("log.redaction", Severity.ERROR, message)
