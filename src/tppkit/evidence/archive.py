"""An append-only archive of records: a folder with one line of JSON for each record, and each certificate once.

    records.jsonl                  the open part: one record on each line, in sequence
    records-<first seq>.jsonl      parts that were closed and do not change any more
    certs, answers, lists          the files that records name, see `files`

One process appends; it holds a lock on the folder. When `append` returns, the record and the files it names are on disk. A record that
cannot be parsed again is rejected. If a crash cut off the last line, the next opening moves it to `records.torn-N`. Records contain
bodies, so the files of a new archive are readable by their owner only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Self
from weakref import finalize

from tppkit._encoding import shown
from tppkit._files import (
    PRIVATE,
    FilePath,
    as_path,
    identity_of,
    is_still_there,
    regular_only,
    write_new,
)
from tppkit.certificates import EidasCertificate
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.evidence.columns import MAX_LINE_BYTES, read_stream_id
from tppkit.evidence.files import KeptFiles, private, sync
from tppkit.evidence.manifest import list_manifests, read_manifest
from tppkit.evidence.record import FIRST_PREVIOUS, EvidenceRecord

RECORDS = "records.jsonl"
MAX_PART_RECORDS = 65_536
_CLOSED = re.compile(r"records-([0-9]{12})\.jsonl")
_LOG = logging.getLogger("tppkit.evidence")


class EvidenceArchive:
    """The only writer of an archive.

        with EvidenceArchive("evidence", stream_id=uuid4().hex) as archive:
            archive.append(make_record(verified, http_status=201, qwac_path=caller.qwac_path))

    Args:
        folder: the archive; created if absent.
        stream_id: 32 lower-case hexadecimal digits for a new stream; an existing stream keeps its id.

    Raises:
        ConfigurationError: `archive.stream-id`, `stream_id` has another form.
        ArchiveError: `archive.locked`, `archive.unusable`; `archive.damaged`, its last complete line is not a record.

    Attributes:
        files: the files that its records name.
    """

    def __init__(self, folder: FilePath, *, stream_id: str) -> None:
        try:
            read_stream_id("stream_id", stream_id)
        except FormatError:  # every record would be unreadable
            message = f"stream_id {shown(str(stream_id))} is not 32 lower-case hexadecimal digits, as uuid4().hex is"
            raise ConfigurationError("archive.stream-id", message) from None
        self.folder = folder = as_path(folder)
        self._one_at_a_time = Lock()
        self._process = os.getpid()
        self.files = KeptFiles(folder)
        self._release = finalize(self, os.close, _lock(folder))  # at the latest with this object
        with ExitStack() as undo:
            undo.callback(self._release)
            self._open()
            undo.enter_context(self._file)
            self._repair_last_line()
            first, last = self._first(), next(self.newest(1), None)
            end = (last.stream_id, last.seq + 1, last.leaf) if last else _end_of_closed(folder)
            undo.pop_all()
        self.stream_id, self._seq, self._previous = end or (stream_id, 0, FIRST_PREVIOUS)
        self._part_seq = first.seq if first else self._seq
        self._part_day = first.received_at.date() if first else None

    def _open(self) -> None:
        try:
            # Unbuffered: bytes that could not be written must not be written later from a buffer.
            self._file = open(self.folder / RECORDS, "ab+", buffering=0, opener=private)  # noqa: SIM115  # closed by close()
            os.fsync(self._file.fileno())  # a killed writer may have left records that are not on disk yet
            sync(self.folder)
            self._identity = identity_of(self._file.fileno())
        except OSError as e:
            raise ArchiveError("archive.unusable", f"the archive {self.folder} cannot be opened: {e.strerror}") from e

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the archive for another writer."""
        with self._one_at_a_time:
            self._file.close()
            self._release()

    def rotate(self, *, now: datetime) -> bool:
        """Close the part if its first record is of an earlier UTC day, or if it has 65,536 records; begin a new one. Thread-safe.

        Records that were appended are found by their place, not by their part, so call it between appends whenever it suits.

        Args:
            now: the present, aware.

        Returns:
            Whether a part was closed.

        Raises:
            ArchiveError: `archive.unusable`, `archive.locked`.
        """
        with self._one_at_a_time:
            is_full = self._seq - self._part_seq >= MAX_PART_RECORDS
            if self._part_day is None or not (is_full or self._part_day < now.astimezone(UTC).date()):
                return False
            self._require_open()
            try:
                (self.folder / RECORDS).rename(self.folder / f"records-{self._part_seq:012}.jsonl")
                sync(self.folder)
            except OSError as e:
                raise ArchiveError("archive.unusable", f"a part of {self.folder} cannot be closed: {e.strerror}") from e
            self._file.close()
            self._open()
            self._part_seq, self._part_day = self._seq, None
            return True

    def append(self, record: EvidenceRecord, *certificates: EidasCertificate) -> EvidenceRecord:
        """Append a record and the files it names, and wait until they are on disk. Thread-safe.

        Args:
            record: from `make_record`.
            certificates: further certificates that it names, if its `files` do not contain them.

        Returns:
            The record with its place in the stream.

        Raises:
            FormatError: `EvidenceRecord.from_line` could not read the record again.
            ArchiveError: `archive.unusable`; the archive is unchanged.
        """
        self.files.keep(record.files, certificates)
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[EvidenceRecord], *, check: bool = True) -> tuple[EvidenceRecord, ...]:
        """Append records, and wait once until all are on disk. The files they name must be in the archive.

        Args:
            records: in the order of the stream.
            check: parse each line before anything is written; not needed for records that `EvidenceRecord` has just parsed.

        Returns:
            The records with their places in the stream.

        Raises:
            FormatError: `EvidenceRecord.from_line` could not read one of the records again.
            ArchiveError: `archive.unusable`; `archive.locked`, in a process forked from the one that opened the archive. In each
                case the archive is unchanged.
        """
        with self._one_at_a_time:
            return self._append(records, check)

    def _append(self, records: Iterable[EvidenceRecord], check: bool) -> tuple[EvidenceRecord, ...]:
        seq, previous = self._seq, self._previous
        placed, lines = [], []
        for record in records:
            placed.append(record.placed(stream_id=self.stream_id, seq=seq, previous=previous))
            seq, previous = seq + 1, placed[-1].leaf
            lines.append(placed[-1].to_line(leaf=previous))
            if check:
                EvidenceRecord.from_line(lines[-1])
        if not lines:
            return ()
        self._require_open()
        size = self._file.seek(0, os.SEEK_END)
        try:
            self._write(b"".join(lines))
            os.fsync(self._file.fileno())
        except OSError as e:
            self._undo(size)
            raise ArchiveError("archive.unusable", f"{self.folder} cannot be written: {e.strerror}") from e
        self._seq, self._previous = seq, previous
        self._part_day = self._part_day or placed[0].received_at.date()
        return tuple(placed)

    def newest(self, lines: int) -> Iterator[EvidenceRecord]:
        """Yield the records of the last lines, newest first. A damaged line before the last one is skipped and logged.

        Args:
            lines: the number of lines to read.

        Raises:
            ArchiveError: `archive.unusable`; `archive.damaged`, the last line is not a record.
        """
        end = None
        for number in range(lines):
            with self._one_at_a_time:
                end, line = self._line_before(end)
            if line:
                try:
                    record = EvidenceRecord.from_line(line)
                except FormatError as e:
                    message = f"the record at offset {end} of {self.folder / RECORDS} cannot be read: {e.message}"
                    if number == 0:
                        raise ArchiveError("archive.damaged", message) from e
                    _LOG.error("%s", message)
                else:
                    yield record
            if end == 0:
                return

    def _line_before(self, end: int | None) -> tuple[int, bytes]:
        self._require_open()
        try:
            end = self._file.seek(0, os.SEEK_END) if end is None else end
            return _read_last_line(self._file, end)
        except OSError as e:
            raise ArchiveError("archive.unusable", f"{self.folder} cannot be read: {e.strerror}") from e

    def _require_open(self) -> None:
        if self._process != os.getpid():  # it shares the parent's lock, and would use the same sequence numbers
            raise ArchiveError("archive.locked", f"the archive {self.folder} was opened before this process was forked")
        if self._file.closed:
            raise ArchiveError("archive.unusable", f"the archive {self.folder} is closed")
        if not is_still_there(self.folder / RECORDS, self._identity):
            raise ArchiveError(
                "archive.unusable",
                f"{self.folder / RECORDS} was moved, replaced or deleted: restore it, or open the archive again",
            )

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _undo(self, size: int) -> None:
        try:
            self._file.truncate(size)
        except OSError:
            self._file.close()  # a partial line must stay the last one, so that the next opening can move it away
            self._release()

    def _first(self) -> EvidenceRecord | None:
        """Return the first record of the open part; None if there is none, or its line is damaged."""
        try:
            self._file.seek(0)
            return EvidenceRecord.from_line(self._file.readline(MAX_LINE_BYTES + 1))
        except (OSError, FormatError):
            return None

    def _repair_last_line(self) -> None:
        end = self._file.seek(0, os.SEEK_END)
        start = _last_line_start(self._file, end)
        if start == end:
            return
        self._file.seek(start)
        try:
            EvidenceRecord.from_line(self._file.read(min(end - start, MAX_LINE_BYTES + 1)))
        except FormatError:
            self._set_aside(start, end)
        else:
            try:
                self._write(b"\n")  # the line end that a complete record lacks
            except OSError as e:
                raise ArchiveError("archive.unusable", f"{self.folder} cannot be written: {e.strerror}") from e

    def _set_aside(self, start: int, end: int) -> None:
        self._file.seek(start)
        names = (self.folder / f"records.torn-{number}" for number in count(1))
        aside = next(name for name in names if not name.exists())
        try:
            write_new(aside, self._file.read(end - start), mode=PRIVATE)
            sync(aside)
            sync(self.folder)
            self._file.truncate(start)
        except (OSError, ConfigurationError) as e:
            raise ArchiveError("archive.unusable", f"a partial line of {self.folder} cannot be moved away: {e}") from e


def closed_parts(folder: Path) -> tuple[tuple[int, str], ...]:
    """Return the place of the first record and the name of each closed part, in their order.

    Raises:
        OSError: the folder cannot be read.
    """
    return tuple(sorted((int(match[1]), name) for name in os.listdir(folder) if (match := _CLOSED.fullmatch(name))))


def _end_of_closed(folder: Path) -> tuple[str, int, str] | None:
    """Return the stream, the next place and the last leaf of the newest closed or sealed part, which an empty open part continues."""
    name = str(folder)
    try:
        parts, manifests = closed_parts(folder), list_manifests(folder)
        if manifests:
            name = str(manifests[-1])
            manifest = read_manifest(manifests[-1])
            if not parts or parts[-1][0] < manifest.end:
                return manifest.stream_id, manifest.end, manifest.leaf
        if not parts:
            return None
        name = str(folder / parts[-1][1])
        with open(name, "rb", opener=regular_only) as file:
            _, line = _read_last_line(file, file.seek(0, os.SEEK_END))
            last = EvidenceRecord.from_line(line)
            return last.stream_id, last.seq + 1, last.leaf
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{name} cannot be read: {e.strerror}") from e
    except FormatError as e:
        raise ArchiveError("archive.damaged", f"the end of {name} cannot be read: {e.message}") from e


def _lock(folder: Path) -> int:
    """Take the lock of the writer, on the folder, because the open part is replaced; return its descriptor."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as e:
        raise ArchiveError("archive.unusable", f"the archive {folder} cannot be opened: {e.strerror}") from e
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        os.close(descriptor)
        raise ArchiveError("archive.locked", f"another process writes to the archive {folder}") from e
    return descriptor


def _read_last_line(file: BinaryIO, end: int) -> tuple[int, bytes]:
    """Return the offset and the bytes, as many as a line may have and one more, of the line that ends at `end`."""
    start = _last_line_start(file, max(end - 1, 0))
    file.seek(start)
    return start, file.read(min(end - start, MAX_LINE_BYTES + 1))


def _last_line_start(file: BinaryIO, end: int) -> int:
    """Return the offset after the last line feed before `end`; 0 if there is none."""
    position = end
    while position > 0:
        size = min(64 * 1024, position)
        position -= size
        file.seek(position)
        found = file.read(size).rfind(b"\n")
        if found >= 0:
            return position + found + 1
    return 0


def read_lines(folder: FilePath, *, name: str | None = None, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield each line of an archive with its number, from 1, without the line feed, in bounded memory.

    A last line without a line feed is included. An empty folder is an archive without records. Sealed parts have no lines.

    Args:
        folder: the archive.
        name: the part to read; None: the closed parts, and then the open one.
        end: where to stop reading a part, in bytes; None for its end.

    Raises:
        ArchiveError: `archive.unreadable`, also at a line that is too long, which ends the reading.
    """
    folder = as_path(folder)
    number = 0
    try:
        parts = [one for _, one in closed_parts(folder)] if name is None and folder.is_dir() else []
        for part in [*parts, RECORDS] if name is None else [name]:
            with open(folder / part, "rb", opener=regular_only) as file:
                room = MAX_LINE_BYTES + 1
                while line := file.readline(room if end is None else min(room, end - file.tell())):
                    number += 1
                    if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                        raise ArchiveError(
                            "archive.unreadable",
                            f"line {number} is longer than {MAX_LINE_BYTES} bytes; it and the rest of {folder} are not read",
                        )
                    yield number, line.removesuffix(b"\n")
    except OSError as e:
        if isinstance(e, FileNotFoundError) and name is None and (parts or _is_empty(folder)):
            return
        raise ArchiveError("archive.unreadable", f"{e.filename or folder} cannot be read: {e.strerror}") from e


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except OSError:  # absent, or not readable
        return False
