"""Whether an archive of evidence is consistent at its end, in bounded time: `tppkit audit log verify` reads all of it."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from tppkit._files import regular_only
from tppkit.cli.doctor_row import CRITICAL, OK, WARNING, Row
from tppkit.cli.output import counted
from tppkit.errors import ArchiveError, Finding, Severity
from tppkit.evidence.checks import unverified
from tppkit.evidence.columns import MAX_LINE_BYTES
from tppkit.evidence.segments import Segment, State, list_segments
from tppkit.evidence.stream import Stream
from tppkit.evidence.table import batches, entries, leaves

_LINES = 1000
_PAUSE_S = 0.2  # a writer completes a line in less


def check_archive(folder: Path, now: datetime) -> list[Row]:
    """Check that the last records of an archive follow on from each other, also while another process writes it.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    stream, records, errors = _examine(folder, now)
    if errors:  # the writer may have begun a line or a part meanwhile
        time.sleep(_PAUSE_S)
        stream, records, errors = _examine(folder, now)
    todo = f"tppkit audit log verify {folder}"
    if errors:
        found = f"{counted(len(errors), 'fault')} in the last {counted(records, 'record')} of {folder}"
        if not records:
            found = f"no line at the end of {folder} is a record"
        return [Row("archive", CRITICAL, f"{found}: {errors[0].message} [{errors[0].code}]: {todo}")]
    if not stream.next_seq:
        message = f"{folder} has no records: check that it is the archive of the application"
        return [Row("archive", WARNING, message)]
    total = counted(stream.next_seq, "record")
    return [Row("archive", OK, f"{total}, of which the last {records} follow on; {todo} checks all")]


def _examine(folder: Path, now: datetime) -> tuple[Stream, int, list[Finding]]:
    """Return where the stream ends, how many records were read, and the errors among them."""
    stream, records, errors = Stream(now=now, next_seq=None, previous=None), 0, list[Finding]()
    segments = list_segments(folder)
    for segment in segments:
        if segment.state is State.SEALED and (segment.manifest is None or segment.size is None):
            lost = "manifest is unreadable" if segment.size else "file is missing"
            errors.append(_error("archive.unreadable", f"{segment.name} is sealed, but its {lost}"))
    for segment in segments[-2:]:
        if segment.state is State.SEALED:
            if (manifest := segment.manifest) is not None:
                stream = Stream(now, manifest.stream_id, manifest.end, manifest.leaf)
            continue
        lines, is_whole, is_torn = _last_lines(segment)
        if not is_whole:
            stream = Stream(now=now, next_seq=None, previous=None)
        for columns in batches(lines):
            for row in map(unverified, leaves(columns), entries(columns)):
                records += row.seq is not None
                misplaced = stream.add(row)
                errors += [_error(code, message) for code, message in row.failures]
                errors += [misplaced] if misplaced is not None and misplaced.severity is Severity.ERROR else []
        if is_torn:
            message = f"the last line of {segment.name} is incomplete: its writer ended, and repairs it when it starts"
            errors.append(_error("archive.damaged", message))
    return stream, records, errors


def _error(code: str, message: str) -> Finding:
    return Finding(code, Severity.ERROR, message)


def _last_lines(segment: Segment) -> tuple[list[tuple[int, bytes]], bool, bool]:
    """Return the last lines of a part, whether these are all of its lines, and whether its last line is incomplete."""
    try:
        with open(segment.path, "rb", opener=regular_only) as file:
            start = max(0, file.seek(0, 2) - MAX_LINE_BYTES)
            file.seek(start)
            *lines, rest = file.read(MAX_LINE_BYTES).split(b"\n")
    except OSError as e:
        raise ArchiveError("archive.unreadable", f"{segment.path} cannot be read: {e.strerror}") from e
    is_torn = bool(rest) or bool(start and not lines)  # without an end, it is longer than any record
    if start:
        del lines[:1]  # its beginning was not read
    return list(enumerate(lines[-_LINES:], 1)), not start and len(lines) <= _LINES, is_torn
