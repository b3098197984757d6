"""The receipts of an archive: who redacted, pruned or held records, when and on which ground, in `operations.jsonl`.

    for receipt in read_operations("evidence"):
        print(receipt["time"], receipt["operation"], receipt["by"], receipt["ground"], receipt["records"])

Each line contains a hash of itself and of the line before it, so a changed or missing line before the last is found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tppkit._clock import format_time
from tppkit._encoding import parse_json
from tppkit._files import PRIVATE, FilePath, as_path, locked, read_bounded, regular_only, replace_file
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.evidence.files import sync
from tppkit.evidence.manifest import SEGMENTS
from tppkit.evidence.segments import list_segments

OPERATIONS = "operations.jsonl"
_MAX_BYTES = 64 * 1024 * 1024
_MAX_TEXT = 500
_MEMBERS = {
    "time": str, "operation": str, "by": str, "ground": str, "stream_id": str, "records": list, "sha256": str,
}  # fmt: skip
Ranges = Sequence[tuple[int, int]]
"""The first and the last place of records that follow on, in their order."""


@contextmanager
def operating(archive: Path) -> Iterator[None]:
    """Let one process at a time seal, redact, prune or hold.

    Raises:
        ArchiveError: `archive.unreadable`, also if it is no archive; `archive.unusable`.
        ConfigurationError: `file.unwritable`.
    """
    if not list_segments(archive):  # a hold there would hold nothing
        raise ArchiveError(
            "archive.unreadable", f"{archive} is an empty folder and no archive: give that of the records"
        )
    folder = archive / SEGMENTS
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{folder} cannot be used: {e.strerror}") from e
    with locked(folder):
        yield


def read_operations(archive: FilePath) -> tuple[Mapping[str, Any], ...]:
    """Return the receipts, the oldest first: `time`, `operation`, `by`, `ground`, `stream_id`, `records`, `sha256`.

    Raises:
        FormatError: `operations.malformed`, a line was changed or one before it is missing; `file.unreadable`, `file.too-large`.
    """
    path = as_path(archive) / OPERATIONS
    if not path.is_symlink() and not path.exists():
        return ()
    raw = read_bounded(path, max_bytes=_MAX_BYTES, opener=regular_only)
    receipts = list[Mapping[str, Any]]()
    before = ""
    for number, line in enumerate(raw.splitlines(keepends=True), 1):
        try:
            value = parse_json(line, what=f"line {number}", max_bytes=_MAX_BYTES)
            _require_receipt(value)
        except FormatError as e:
            raise FormatError("operations.malformed", f"{path} line {number} is not a receipt: {e.message}") from e
        if line != _line(value, before):
            raise FormatError(
                "operations.malformed", f"{path} line {number} was changed, or a line before it is missing"
            )
        before = value["sha256"]
        receipts.append(value)
    return tuple(receipts)


def _require_receipt(value: Any) -> None:
    if not isinstance(value, dict) or value.keys() != _MEMBERS.keys():
        raise FormatError("operations.malformed", "it has other members")
    ranges = value["records"]
    if (
        any(type(value[name]) is not kind for name, kind in _MEMBERS.items())
        or not all(isinstance(one, list) and [type(place) for place in one] == [int, int] for one in ranges)
        or not all(0 <= first <= last < 1 << 63 for first, last in ranges)
    ):
        raise FormatError("operations.malformed", "a member has another type")


def _line(value: Mapping[str, Any], before: str) -> bytes:
    value = {name: one for name, one in value.items() if name != "sha256"}
    content = json.dumps(value, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256((before + content).encode()).hexdigest()
    return (json.dumps({**value, "sha256": digest}, sort_keys=True, separators=(",", ":")) + "\n").encode()


def add_operation(
    archive: FilePath, operation: str, *, ground: str, by: str, stream_id: str, records: Ranges, now: datetime
) -> None:
    """Add a receipt, and wait until it is on disk. The caller holds the lock of the archive's operations.

    Raises:
        ConfigurationError: `operations.text`, ground or name is empty or too long; `file.unwritable`.
        FormatError: as `read_operations`.
    """
    for name, text in (("ground", ground), ("name", by)):
        if not text.strip() or len(text) > _MAX_TEXT:
            raise ConfigurationError("operations.text", f"the {name} is empty or has more than {_MAX_TEXT} characters")
    path, known = as_path(archive) / OPERATIONS, read_operations(archive)
    value = {
        "time": format_time(now), "operation": operation, "by": by, "ground": ground, "stream_id": stream_id,
        "records": [list(one) for one in records],
    }  # fmt: skip
    raw = read_bounded(path, max_bytes=_MAX_BYTES, opener=regular_only) if known else b""
    replace_file(path, raw + _line(value, known[-1]["sha256"] if known else ""), mode=PRIVATE)
    sync(path.parent)


def holds(receipts: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the holds that were not released, by their grounds."""
    found: dict[str, Mapping[str, Any]] = {}
    for one in receipts:
        if one["operation"] == "hold":
            found.setdefault(one["ground"], one)
        elif one["operation"] == "release":
            found.pop(one["ground"], None)
    return found


def records_of(receipts: Iterable[Mapping[str, Any]], operation: str) -> Ranges:
    """Return the records that an operation names, by all its receipts."""
    return joined(range_ for one in receipts if one["operation"] == operation for range_ in one["records"])


def joined(ranges: Iterable[Sequence[int]]) -> Ranges:
    """Return ranges sorted, with those that touch joined."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((first, last) for first, last in ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def missing_in(ranges: Ranges, wanted: Ranges) -> Iterator[tuple[int, int]]:
    """Yield the parts of the second ranges that the first do not have."""
    for first, last in wanted:
        for known_first, known_last in ranges:
            if known_last < first or known_first > last:
                continue
            if known_first > first:
                yield first, known_first - 1
            first = known_last + 1
        if first <= last:
            yield first, last
