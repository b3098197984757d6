"""Records by column: what is read from lines, and the leaf hash of every record computed column by column.

The audit works on columns, because making an object of each record would take longer than its leaf. A column is a list with a value
for each record, in the types of `EvidenceRecord`; `received_at` is in microseconds since 1970. Further columns:

    line      the number of the line, from 1
    leaf      the leaf hash that was stored with the record, or None
    fault     the error of a line that is not a record, or None; all other columns of that line are None
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from tppkit._clock import to_microseconds
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence.columns import BYTES, FORMS, encode_cbor, encode_head, parse_object, read_columns, read_hash

Columns = Mapping[str, list[Any]]

MAX_BATCH = 64
_MAX_BATCH_BYTES = 16 * 1024 * 1024
_NOT_HASHED = ("body", "body_state")
# In the order of deterministic CBOR, in which a map is sorted by its encoded names.
_HASHED = sorted((name for name in FORMS if name not in _NOT_HASHED), key=encode_cbor)
_OPTIONAL = tuple(name for name in _HASHED if FORMS[name][1])
# Columns with a value of their own in each record; the values of all others repeat.
_UNIQUE = frozenset({
    "seq", "previous", "received_at", "x_request_id", "payment_ref", "header_block", "signature_raw", "signing_input_sha256",
    "body_sha256", "body_sha512", "consent_ref", "outbox_id",
})  # fmt: skip
NAMES = (*FORMS, "extra", "leaf", "line", "fault")


class Entry(NamedTuple):
    """The columns of one record that a check needs, with the names and types of `Columns`. In one with a `fault` they are None."""

    fault: FormatError | None
    line: int
    leaf: str | None
    seq: int
    stream_id: str
    previous: str
    received_at: int
    x_request_id: str
    payment_ref: str | None
    method: str
    target: str
    http_status: int | None
    kind: int
    profile: str
    verdict: str
    header_block: bytes
    signature_raw: bytes
    signing_input_sha256: str
    body: bytes | None
    body_state: int
    body_len: int
    body_sha256: str
    body_sha512: str
    seal_cert: str | None
    qwac_cert: str | None
    chain: tuple[str, ...]
    answers: tuple[str, ...] | None
    lists: tuple[str, ...] | None
    key_name: str | None
    public_key: bytes | None
    url_form: str | None
    clock_source: str


def entries(columns: Columns) -> Iterator[Entry]:
    """Return the records one by one."""
    return map(Entry._make, zip(*(columns[name] for name in Entry._fields), strict=True))


def columns_of_lines(lines: Iterable[tuple[int, bytes]]) -> Columns:
    """Read numbered lines of an archive. A line that is not a record has its error in the column `fault`."""
    columns: dict[str, list[Any]] = {name: [] for name in NAMES}
    for number, line in lines:
        try:
            values = parse_object(line)
            leaf = values.pop("leaf", None)
            known: dict[str, Any] = read_columns(values)
            known["received_at"] = to_microseconds(known["received_at"])
            known |= {"leaf": read_hash("leaf", leaf), "line": number}
        except FormatError as e:
            known = {"line": number, "fault": e}
        for name, column in columns.items():
            column.append(known.get(name))
    return columns


def batches(lines: Iterable[tuple[int, bytes]]) -> Iterator[Columns]:
    """Read lines in batches of bounded size. If the reading ends with an error, what was read before comes first.

    Raises:
        ArchiveError: as the lines.
    """
    batch: list[tuple[int, bytes]] = []
    size, fault = 0, None
    try:
        for number, line in lines:
            batch.append((number, line))
            size += len(line)
            if len(batch) == MAX_BATCH or size > _MAX_BATCH_BYTES:
                yield columns_of_lines(batch)
                batch, size = [], 0
    except ArchiveError as e:
        fault = e
    if batch:
        yield columns_of_lines(batch)
    if fault is not None:
        raise fault


def leaves(columns: Columns) -> list[str | None]:
    """Return the leaf hash of each record, hexadecimal, as `EvidenceRecord.leaf` computes it; None for a line that is not one."""
    records = len(columns["fault"])
    heads = [b"\x00" + encode_head(5, count) for count in range(len(_HASHED) + 1)]
    # Most columns are the same in all records, so those that follow each other are encoded as one.
    encoded: list[Iterable[bytes]] = []
    same = b""
    for name in _HASHED:
        part = _encoded(name, columns[name])
        if isinstance(part, bytes):
            same += part
        else:
            encoded += repeat(same, records), part
            same = b""
    encoded.append(repeat(same, records))
    found: list[str | None] = []
    for fault, count, extra, *parts in zip(columns["fault"], _counts(columns), columns["extra"], *encoded, strict=True):
        if fault is not None:
            found.append(None)
        elif extra:
            found.append(_with_extra(columns, len(found), extra))
        else:
            found.append(hashlib.sha256(heads[count] + b"".join(parts)).hexdigest())
    return found


def _counts(columns: Columns) -> list[int]:
    """Return the number of hashed columns that each record has."""
    records = len(columns["fault"])
    counts = [len(_HASHED)] * records
    for name in _OPTIONAL:
        absent = columns[name].count(None)
        if absent == records:
            counts = [count - 1 for count in counts]
        elif absent:
            counts = [count - (value is None) for count, value in zip(counts, columns[name], strict=True)]
    return counts


def _encoded(name: str, values: list[Any]) -> list[bytes] | bytes:
    """Return the encoded column of each record; once, if it is the same in all."""
    key, is_bytes = encode_cbor(name), name in BYTES
    if not values or values.count(values[0]) == len(values):
        return _single(key, values[0] if values else None)
    if name not in _UNIQUE:
        known = {value: _single(key, value) for value in set(values)}
        return [known[value] for value in values]
    if is_bytes or (FORMS[name][0] is str and name != "received_at"):
        raw = values if is_bytes else [None if value is None else value.encode() for value in values]
        heads = {
            size: key + encode_head(2 if is_bytes else 3, size) for size in {len(one) for one in raw if one is not None}
        }
        return [b"" if one is None else heads[len(one)] + one for one in raw]
    return [_single(key, value) for value in values]


def _single(key: bytes, value: Any) -> bytes:
    return b"" if value is None else key + encode_cbor(value)


def _with_extra(columns: Columns, place: int, extra: Mapping[str, Any]) -> str:
    values = {name: columns[name][place] for name in _HASHED if columns[name][place] is not None}
    return hashlib.sha256(b"\x00" + encode_cbor({**values, **extra})).hexdigest()
