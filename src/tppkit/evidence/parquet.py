"""Sealed parts of an archive: Parquet files with the columns of their records and the leaf of each.

Needs the extra `audit`. Hashes are binary, times microseconds in UTC, lists of hashes comma-joined text, unknown columns JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tppkit._encoding import parse_json
from tppkit._extras import needs_extra
from tppkit._files import flush
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence.columns import BYTES, FORMS, MAX_LINE_BYTES
from tppkit.evidence.files import private
from tppkit.evidence.table import NAMES, Columns

with needs_extra("audit"):
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_RECORDS = 8_192
GROUP_BYTES = 64 * 1024 * 1024
MAX_RECORDS = 65_536
# A group may exceed GROUP_BYTES by one record, and the columns besides the body are small.
_MAX_GROUP_BYTES = 2 * GROUP_BYTES + 2 * MAX_LINE_BYTES
_LATEST = 253_402_300_799_999_999  # the end of the year 9999, in microseconds
_HEX = MappingProxyType({
    "stream_id": 16, "previous": 32, "signing_input_sha256": 32, "body_sha256": 32, "body_sha512": 64, "seal_cert": 32, "qwac_cert": 32,
    "leaf": 32,
})  # fmt: skip
_LISTS = ("chain", "answers", "lists")
_NUMBERS = ("v", "kind", "seq", "body_state", "body_len", "http_status")


def _type(name: str) -> pa.DataType:
    if name in _HEX:
        return pa.binary(_HEX[name])
    if name == "received_at":
        return pa.timestamp("us", tz="UTC")
    if name in BYTES:
        return pa.binary()
    return pa.int64() if name in _NUMBERS else pa.string()


SCHEMA = pa.schema([
    *(pa.field(name, _type(name), nullable=optional) for name, (_, optional, _) in FORMS.items()),
    pa.field("extra", pa.string()),
    pa.field("leaf", pa.binary(32), nullable=False),
])  # fmt: skip


def write_parquet(path: Path, batches: Iterable[Columns]) -> str:
    """Write records, each with its leaf, in groups of bounded size into a file, and wait until it is on disk.

    Returns:
        SHA-256 of the file, hexadecimal.

    Raises:
        ArchiveError: `archive.unusable`.
    """
    try:
        with open(path, "wb", opener=private) as file:
            with pq.ParquetWriter(file, SCHEMA, compression="zstd", write_page_checksum=True) as writer:
                group = SCHEMA.empty_table()
                for table in map(_to_table, batches):
                    if group.num_rows + table.num_rows > GROUP_RECORDS or group.nbytes + table.nbytes > GROUP_BYTES:
                        writer.write_table(group)
                        group = SCHEMA.empty_table()
                    group = pa.concat_tables([group, table])
                writer.write_table(group)
            flush(file)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as e:
        raise ArchiveError("archive.unusable", f"{path} cannot be written: {e.strerror}") from e


def _to_table(columns: Columns) -> pa.Table:
    arrays = [pa.array([_packed(field.name, value) for value in columns[field.name]], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _packed(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _HEX:
        return bytes.fromhex(value)
    if name in _LISTS:
        return ",".join(value)
    if name == "extra":
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":")) if value else None
    return value


def read_parquet(
    path: Path, opener: Callable[[str, int], int], having: Mapping[str, Set[Any]] | None = None
) -> Iterator[Columns]:
    """Read the records of a file, a group at a time. Sizes are compared with the limits before anything is read.

    Args:
        path: the file.
        opener: opens it.
        having: names of columns with values; groups without such a value are left out. None for all groups.

    Raises:
        ArchiveError: `archive.unreadable`, it is no such file, too large or damaged.
    """
    try:
        with open(path, "rb", opener=opener) as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
            metadata = file.metadata
            if metadata.num_rows > MAX_RECORDS or not file.schema_arrow.equals(SCHEMA):
                raise ArchiveError(
                    "archive.unreadable", f"{path} is not a sealed part: other columns, or too many records"
                )
            line = 1
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                sizes = [group.column(place).total_uncompressed_size for place in range(group.num_columns)]
                if sum(sizes) > _MAX_GROUP_BYTES or group.num_rows > MAX_RECORDS:
                    raise ArchiveError(
                        "archive.unreadable", f"group {number} of {path} is larger than a sealed part may be"
                    )
                if having is None or _has(file.read_row_group(number, columns=list(having)), having):
                    yield from_table(file.read_row_group(number), line)
                line += group.num_rows
    except (pa.ArrowException, OSError, ValueError, FormatError) as e:
        raise ArchiveError("archive.unreadable", f"{path} cannot be read: {str(e)[:200]}") from e


def _has(table: pa.Table, having: Mapping[str, Set[Any]]) -> bool:
    return any(not values.isdisjoint(table.column(name).to_pylist()) for name, values in having.items())


def from_table(table: pa.Table, line: int = 1) -> Columns:
    """Return the columns of records in Arrow, the first of which has this number.

    Raises:
        FormatError: `record.malformed`, `json.*`.
    """
    columns: dict[str, list[Any]] = {}
    for field in SCHEMA:
        column = table.column(field.name)
        if column.null_count and not field.nullable:
            raise FormatError("record.malformed", f"a record has no {field.name}")
        if column.null_count == len(column):
            columns[field.name] = [None] * len(column)
            continue
        values = (column.cast(pa.int64()) if field.name == "received_at" else column).to_pylist()
        if field.name == "received_at":
            if not all(0 <= value <= _LATEST for value in values):
                raise FormatError("record.malformed", "a record's received_at is not a time")
        elif field.name in _HEX:
            values = [None if value is None else value.hex() for value in values]
        elif field.name in _LISTS:
            known = {value: value and tuple(value.split(",")) for value in set(values)}
            known |= {"": ()}
            values = [known[value] for value in values]
        elif field.name == "extra":
            values = [None if value is None else _parse_extra(value) for value in values]
        columns[field.name] = values
    count = table.num_rows
    columns |= {"line": list(range(line, line + count)), "fault": [None] * count}
    return {name: columns[name] for name in NAMES}


def _parse_extra(value: str) -> Any:
    return parse_json(value.encode(), what="the record's extra columns", max_bytes=MAX_LINE_BYTES)
