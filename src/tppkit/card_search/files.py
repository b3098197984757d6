"""Search what is on a disk: text, SQLite databases, and gzip, zip and tar files, also within each other."""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tppkit._files import regular_only
from tppkit.card_search.forms import CODE, Forms, Hit

MAX_DEPTH = 4  # archives within each other
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024  # of all that one file contains
MAX_HELD_BYTES = 64 * 1024 * 1024  # of a database or zip file in an archive, which is held in memory
MAX_LIST_BYTES = 16 * 1024 * 1024  # of the list of a zip file's members, which zipfile holds in memory several times
MAX_MEMBERS = 100_000
MAX_HITS = 100  # of one place

_MAX_ZIP_END = 22 + 65_535  # with its comment
_BLOCK = 512  # of tar, and more than any mark at the begin of a file
_SQLITE, _GZIP = b"SQLite format 3\0", b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK00PK\x03\x04", b"PK\x07\x08PK\x03\x04")  # the others were to be split
_ZIP_END = b"PK\x05\x06"
_JOURNALS = ("-wal", "-journal")
_OTHER_FORMATS = {
    b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"(\xb5/\xfd": "Zstandard", b"7z\xbc\xaf'\x1c": "7z", b"Rar!\x1a\x07": "RAR",
    b"\x04\"M\x18": "LZ4", b"\x1f\x9d": "compress",
}  # fmt: skip
_DAMAGED = (EOFError, OSError, RuntimeError, ValueError, zlib.error, zipfile.BadZipFile)  # zipfile's too
_Read = Callable[[int], bytes]


class SkipReason(StrEnum):
    """Why a place was not searched."""

    LINK = "link"  # or a special file: it has no content of its own
    UNSUPPORTED = "unsupported"  # or beyond a limit
    UNREADABLE = "unreadable"


class Place(NamedTuple):
    """A place that was searched.

    Attributes:
        name: the path, with the member of an archive or the column of a database. Digits are masked if it contains a card.
        hits: at most 100, each with its position; of the same card in the same form only the first.
    """

    name: str
    hits: tuple[tuple[Hit, str], ...]


class Skipped(NamedTuple):
    """A place that was not searched.

    Attributes:
        name: as in `Place`.
        why: the kind of reason.
        reason: the reason as a text.
    """

    name: str
    why: SkipReason
    reason: str


class _Unsupported(Exception):
    pass


def search_path(path: Path, forms: Forms) -> Iterator[Place | Skipped]:
    """Search a file, or every file below a folder; links below a folder are not followed.

    Each file is searched as it is. Gzip, zip and tar files are also unpacked (4 within each other, 1 GiB of each file), and SQLite
    databases also read by SQL, with their journals; no other process may write to a database. Names are searched too.
    """
    if not path.is_dir():
        yield from _named(path.parent, path.name, forms)
        for file in (path.resolve(), *(side for end in _JOURNALS if (side := Path(f"{path}{end}")).is_file())):
            yield from _file(file, forms)
        return
    refused: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=refused.append):
        folders.sort()
        for name in sorted(folders + files):
            yield from _named(Path(folder), name, forms)
        for name in sorted(files):
            if (file := Path(folder, name)).is_symlink() or not file.is_file():
                yield Skipped(masked(str(file), forms), SkipReason.LINK, "a link or special file")
            else:
                yield from _file(file, forms)
        while refused:
            error = refused.pop()
            yield Skipped(masked(str(error.filename), forms), SkipReason.UNREADABLE, error.strerror or "unreadable")


def distinct(hits: Iterable[Hit], at: str = "") -> tuple[tuple[Hit, str], ...]:
    """Return the first hit of each card and form with its position, at most 100."""
    first: dict[tuple[str, str], tuple[Hit, str]] = {}
    for hit in hits:
        first.setdefault((hit.card, hit.form), (hit, at or f"byte {hit.offset}"))
        if len(first) == MAX_HITS:
            break
    return tuple(first.values())


def masked(name: str, forms: Forms) -> str:
    """Return a name with its digits masked if it contains a card."""
    return re.sub("[0-9]", "*", name) if any(forms.in_text(name)) else name


def searched(name: str, hits: Iterable[Hit], forms: Forms) -> Place:
    """Return a place with the first hit of each card and form."""
    return Place(masked(name, forms), distinct(hits))


def _named(place: object, name: str, forms: Forms) -> Iterator[Place]:
    if hits := [hit for hit in forms.in_text(name) if not hit.form.startswith(CODE)]:
        yield searched(f"a name in {place}", hits, forms)


def _file(path: Path, forms: Forms) -> Iterator[Place | Skipped]:
    try:
        with open(path, "rb", opener=regular_only) as file:
            yield searched(str(path), forms.in_stream(file.read), forms)
            file.seek(0)
            yield from _Unpacking(forms).parts(str(path), file.read, 0, (path, file))
    except OSError as e:
        yield Skipped(masked(str(path), forms), SkipReason.UNREADABLE, e.strerror or "unreadable")


class _Unpacking:
    """What one file contains, within the limits that hold for all of it."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._bytes = MAX_UNPACKED_BYTES
        self._members = MAX_MEMBERS

    def parts(
        self, name: str, read: _Read, depth: int, whole: tuple[Path, BinaryIO] | None = None
    ) -> Iterator[Place | Skipped]:
        """Search a stream.

        Args:
            name: the place.
            read: reads the stream.
            depth: in how many archives it is.
            whole: the path and file of the stream, which was searched as it is.
        """
        head = _exactly(read, _BLOCK)
        joined = _Joined(head, read)
        other = next((kind for begin, kind in _OTHER_FORMATS.items() if head.startswith(begin)), None)
        is_zip, is_tar = head.startswith(_ZIP), _is_tar(head)
        try:
            if depth >= MAX_DEPTH and (is_zip or is_tar or head.startswith(_GZIP)):
                raise _Unsupported(f"an archive in {MAX_DEPTH} others")
            if head.startswith(_SQLITE):
                yield from self._database(name, joined.read, whole)
            elif head.startswith(_GZIP):
                unpacked = gzip.GzipFile(fileobj=joined)  # type: ignore[call-overload]  # it only reads
                yield from self.parts(f"{name}: unpacked", self._counted(unpacked.read), depth + 1)
            elif is_tar:
                yield from self._tar(name, joined.read, depth)
            elif other:
                raise _Unsupported(f"{other} is not unpacked")
            elif is_zip or (whole and _is_zip_end(_zip_end(whole[1]))):  # a program that unpacks itself
                yield from self._zip(name, whole[1] if whole else BytesIO(self._held(joined.read)), depth)
            elif whole is None:
                last = bytearray()

                def kept(size: int) -> bytes:
                    last.extend(data := joined.read(size))
                    del last[:-_MAX_ZIP_END]
                    return data

                yield searched(name, self._forms.in_stream(kept), self._forms)
                _drain(kept)
                if _is_zip_end(last):
                    raise _Unsupported("a zip file behind other data, in an archive")
        except _Unsupported as e:
            yield Skipped(masked(name, self._forms), SkipReason.UNSUPPORTED, str(e))
        except _DAMAGED as e:
            yield Skipped(masked(name, self._forms), SkipReason.UNREADABLE, f"damaged: {type(e).__name__}")

    def _counted(self, read: _Read) -> _Read:
        def counted(size: int) -> bytes:
            data = read(size)
            self._bytes -= len(data)
            if self._bytes < 0:
                raise _Unsupported(f"more than {MAX_UNPACKED_BYTES} bytes unpacked")
            return data

        return counted

    def _held(self, read: _Read) -> bytes:
        data = _exactly(read, MAX_HELD_BYTES + 1)
        if len(data) > MAX_HELD_BYTES:
            raise _Unsupported(f"more than {MAX_HELD_BYTES} bytes in an archive")
        return data

    def _member(self) -> None:
        self._members -= 1
        if self._members < 0 or self._bytes < 0:
            raise _Unsupported(f"more than {MAX_MEMBERS} members or {MAX_UNPACKED_BYTES} bytes")

    def _zip(self, name: str, file: BinaryIO, depth: int) -> Iterator[Place | Skipped]:
        _require_short_list(file)
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                self._member()
                inside = f"{name}: {member.filename}"
                yield from _named(name, member.filename, self._forms)
                # zipfile reads all that a piece of bzip2 or LZMA unpacks to at once.
                if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    yield Skipped(masked(inside, self._forms), SkipReason.UNSUPPORTED, "encrypted, or not deflated")
                    continue
                try:
                    with archive.open(member) as content:
                        yield from self.parts(inside, self._counted(content.read), depth + 1)
                except _DAMAGED as e:
                    yield Skipped(masked(inside, self._forms), SkipReason.UNREADABLE, f"damaged: {type(e).__name__}")

    def _tar(self, name: str, read: _Read, depth: int) -> Iterator[Place | Skipped]:
        # tarfile holds extended headers of any size in memory. Here they are members, and are searched.
        while (header := _exactly(read, _BLOCK)).strip(b"\0"):
            self._member()
            digits = header[124:136]
            size = int.from_bytes(digits[1:], "big") if digits[:1] == b"\x80" else int(digits.strip(b" \0") or b"0", 8)
            if len(header) < _BLOCK or size < 0:
                raise EOFError
            inside = f"{name}: {header[:100].rstrip(bytes(1)).decode('utf-8', 'replace')}"
            yield from _named(name, header.decode("latin-1"), self._forms)
            member = _Part(read, size)
            yield from self.parts(inside, member.read, depth + 1)
            _drain(_Part(read, member.left + -size % _BLOCK).read)
        yield searched(f"{name}: after its end", self._forms.in_stream(read), self._forms)

    def _database(self, name: str, read: _Read, whole: tuple[Path, BinaryIO] | None) -> Iterator[Place | Skipped]:
        """Search every cell of a database; the file has values longer than a page in several pieces."""
        try:
            with closing(sqlite3.connect(_address(whole[0]) if whole else ":memory:", uri=True)) as database:
                if whole is None:
                    data = self._held(read)
                    yield searched(name, self._forms.in_bytes(data), self._forms)
                    # The two bytes say that there is a write-ahead log, which a copy in memory cannot have.
                    database.deserialize(data[:18] + b"\1\1" + data[20:])
                yield from self._cells(name, database)
        except sqlite3.Error as e:
            reason = f"a SQLite database that cannot be read: {e}"
            yield Skipped(masked(name, self._forms), SkipReason.UNREADABLE, reason)

    def _cells(self, name: str, database: Any) -> Iterator[Place]:
        forms = self._forms
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_HELD_BYTES)  # a value may be computed
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        # Virtual tables have no pages; their data is in other tables.
        for (table,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        ).fetchall():
            quoted = table.replace('"', '""')
            rows = database.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608  # of the database's own schema
            columns = [column[0] for column in rows.description]
            for row in rows:  # one at a time: each value may be as long as the limit
                texts = "\x1f".join(str(cell) for cell in row if not isinstance(cell, bytes))
                has_hits = any(forms.in_text(texts))
                for column, cell in zip(columns, row, strict=True):
                    is_bytes = isinstance(cell, bytes)
                    if is_bytes or has_hits:
                        hits = forms.in_bytes(cell) if is_bytes else forms.in_text(str(cell))
                        if found := distinct(hits, "a cell"):
                            yield Place(masked(f"{name}, {table}.{column}", forms), found)


class _Joined:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, read: _Read) -> None:
        self._head, self._read = head, read

    def read(self, size: int) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        return data or self._read(size)


class _Part:
    """The next `left` bytes of a stream."""

    def __init__(self, read: _Read, left: int) -> None:
        self._read, self.left = read, left

    def read(self, size: int) -> bytes:
        data = self._read(min(size, self.left))
        if self.left and size and not data:
            raise EOFError
        self.left -= len(data)
        return data


def _exactly(read: _Read, size: int) -> bytes:
    """Read so many bytes, or those until the end."""
    pieces = []
    while size and (data := read(min(size, 1 << 20))):
        size -= len(data)
        pieces.append(data)
    return b"".join(pieces)


def _drain(read: _Read) -> None:
    while read(1 << 20):
        pass


def _address(path: Path) -> str:
    # SQLite creates files next to a database in WAL mode, unless it opens the database as immutable.
    mode = "mode=ro" if any(Path(f"{path}{end}").exists() for end in _JOURNALS) else "immutable=1"
    return f"{path.resolve().as_uri()}?{mode}"


def _is_tar(head: bytes) -> bool:
    """Whether a block is the header of a tar file's member; those of old forms have a checksum only."""
    stated = head[148:156].strip(b" \0")
    is_old = re.fullmatch(b"[0-7]{1,7}", stated) and int(stated, 8) == sum(head[:148] + b" " * 8 + head[156:])
    return head[257:262] == b"ustar" or bool(is_old)


def _zip_end(file: BinaryIO) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_ZIP_END))
    return file.read()


def _is_zip_end(end: bytes | bytearray) -> bool:
    mark = end.rfind(_ZIP_END)
    return mark >= 0 and int.from_bytes(end[mark + 20 : mark + 22], "little") == len(end) - mark - 22


def _require_short_list(file: BinaryIO) -> None:
    """Raise unless the list of members, which zipfile holds in memory, is short; ZIP64 allows any length."""
    end = _zip_end(file)
    mark = end.rfind(_ZIP_END)
    if mark < 0 or len(end) < mark + 22:
        raise zipfile.BadZipFile
    if end[max(0, mark - 20) : mark].startswith(b"PK\x06\x07"):
        raise _Unsupported("a ZIP64 file")
    if int.from_bytes(end[mark + 12 : mark + 16], "little") > MAX_LIST_BYTES:
        raise _Unsupported("too many members")
