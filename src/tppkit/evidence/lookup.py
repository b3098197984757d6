"""Find a record of an archive by its place, its X-Request-ID, its payment or its consent, and prove its place in the log.

(found,) = find_records("evidence", "9f0c4a3e-5d2b-4f0e-9d53-0a4de2f6a1b7")
prove_place(found).head.text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tppkit._clock import from_microseconds
from tppkit._files import FilePath
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence.columns import FORMS
from tppkit.evidence.heads import Head
from tppkit.evidence.record import EvidenceRecord
from tppkit.evidence.segments import Segment, State, list_segments
from tppkit.evidence.table import NAMES, Columns, entries, leaves
from tppkit.evidence.tree import Frontier, inclusion_path, subtrees

MAX_FOUND = 20
_PLACE = re.compile(r"(?:([0-9a-f]{32})/)?([0-9]{1,18})")
_IDS = ("x_request_id", "payment_ref", "consent_ref")


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record and where it is.

    Attributes:
        segment: its part of the archive.
        columns: the columns of this record alone, for `Checks.rows`.
    """

    segment: Segment
    columns: Columns

    @property
    def record(self) -> EvidenceRecord:
        """The record as a value."""
        values = {name: self.columns[name][0] for name in FORMS}
        values["received_at"] = from_microseconds(values["received_at"])
        extra = MappingProxyType(self.columns["extra"][0] or {})
        return EvidenceRecord(**values, extra=extra, kept_leaf=self.columns["leaf"][0])

    @property
    def where(self) -> str:
        """Its place, for a person."""
        seq, stream = self.columns["seq"][0], self.columns["stream_id"][0]
        return f"{stream}/{seq} ({self.segment.name} line {self.columns['line'][0]})"


@dataclass(frozen=True, slots=True)
class Place:
    """The proof that a record is in the log.

    Attributes:
        head: the end of its part of the archive; `head.archive` is None.
        path: the hashes from its leaf to the root of the head, from the bottom up.
        stamp: the file of the time stamp over the head, or None.
    """

    head: Head
    path: tuple[bytes, ...]
    stamp: Path | None


def find_records(archive: FilePath, wanted: str) -> tuple[FoundRecord, ...]:
    """Find the records with an id, at most 20, in their order. Lines that are not records are passed over.

    Args:
        archive: the archive.
        wanted: a sequence number, from 0, of the first stream; `STREAM/SEQ`; else an X-Request-ID, a payment or a consent.

    Raises:
        FormatError: `record.entry`, there is none.
        ArchiveError: `archive.unreadable`; a part that cannot be read is an error only if no other part has the record.
        ConfigurationError: `extra.missing`, a sealed part needs the extra `audit`.
    """
    segments = list_segments(archive)
    place = _PLACE.fullmatch(wanted)
    if place:
        seq, stream = int(place[2]), place[1]
        having: Mapping[str, Set[Any]] = {"seq": {seq}}
        segments = tuple(
            one for one in segments if one.manifest is None or one.manifest.first_seq <= seq < one.manifest.end
        )
    else:
        stream = None
        having = dict.fromkeys(_IDS, frozenset({wanted, wanted.lower(), wanted.upper()}))
    faults = list[ArchiveError]()
    found = list[FoundRecord]()
    for row in _rows(segments, having, faults):
        stream = stream or (row.columns["stream_id"][0] if place else None)
        if not place or row.columns["stream_id"][0] == stream:
            found.append(row)
        if len(found) == MAX_FOUND:
            break
    if not found and faults:
        raise faults[0]
    if not found and place and any(one.size is None for one in segments):
        raise FormatError("record.entry", f"record {wanted} of {archive} was pruned, or its part is missing")
    if not found:
        ids = "a sequence number from 0, STREAM/SEQ, an X-Request-ID, a payment id or a consent id"
        raise FormatError("record.entry", f"the archive {archive} has no record {wanted[:80]!r}; give {ids}")
    return tuple(found)


def find_record(archive: FilePath, wanted: str) -> FoundRecord:
    """Find the one record with an id.

    Raises:
        FormatError: `record.entry`, there is none or several; and as `find_records`.
    """
    found = find_records(archive, wanted)
    if len(found) > 1:
        places = ", ".join(one.where for one in found)
        more = " at least" if len(found) == MAX_FOUND else ""
        raise FormatError("record.entry", f"{wanted[:80]!r} is in{more} {len(found)} records; choose one: {places}")
    return found[0]


def _rows(
    segments: Iterable[Segment], having: Mapping[str, Set[Any]], faults: list[ArchiveError]
) -> Iterator[FoundRecord]:
    for segment in segments:
        if segment.size is None:
            continue
        try:
            for columns in segment.read(having):
                for number, fault in enumerate(columns["fault"]):
                    if fault is None and any(columns[name][number] in values for name, values in having.items()):
                        yield FoundRecord(segment, {name: [columns[name][number]] for name in NAMES})
        except ArchiveError as e:
            faults.append(e)


def prove_place(found: FoundRecord) -> Place:
    """Prove that a record is in the log, by the head at the end of its part.

    Raises:
        FormatError: `head.unknown`, a record of its part is missing or damaged; `manifest.malformed`, the parts before it do not join.
        ArchiveError: `archive.unreadable`.
    """
    frontier, segment = Frontier(), found.segment
    for before in list_segments(segment.archive):
        if before.name == segment.name:
            break
        if before.manifest is not None:
            before.manifest.join(frontier)
        else:
            for leaf in _leaves(before, frontier.size):
                frontier.add(leaf)
    known = [*_leaves(segment, frontier.size)]
    end = Frontier(frontier.size, frontier.hashes)
    for level, node in subtrees(frontier.size, known):
        end.join(level, node)
    head = Head(found.columns["stream_id"][0], end.size, end.root().hex())
    if segment.state is State.SEALED and (segment.manifest is None or segment.manifest.root != head.root):
        raise FormatError("head.unknown", f"{segment.path} does not have the records that its manifest names")
    path = inclusion_path(found.columns["seq"][0], end.size, before=frontier, leaves=known)
    stamp = segment.path.with_suffix(".tsr")
    return Place(head, path, stamp if segment.state is State.SEALED and stamp.is_file() else None)


def _leaves(segment: Segment, first_seq: int) -> Iterator[bytes]:
    for columns in segment.read():
        for leaf, entry in zip(leaves(columns), entries(columns), strict=True):
            if leaf is None or entry.leaf not in (None, leaf) or entry.seq != first_seq:
                where = f"{segment.path} line {entry.line}"
                raise FormatError("head.unknown", f"{where}: record {first_seq} is missing, moved or damaged")
            yield bytes.fromhex(leaf)
            first_seq += 1
