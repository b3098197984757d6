"""Join the results of segments: counts, the log from its first record to its last, and one hash for the whole report."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from tppkit._clock import format_time, from_microseconds
from tppkit.errors import Finding, FormatError, Severity
from tppkit.evidence.heads import Head
from tppkit.evidence.ledger import Ledger
from tppkit.evidence.page import count
from tppkit.evidence.record import FIRST_PREVIOUS
from tppkit.evidence.results import MAX_FIRST_FAILURES, AuditResult, Totals
from tppkit.evidence.runner import COLUMNS, open_result, read_result
from tppkit.evidence.segments import Segment, State
from tppkit.evidence.stream import CLOCK_TOLERANCE, HOUR, broken_chain, missing, reused
from tppkit.evidence.tree import HASH_BYTES, Frontier


class _Part(NamedTuple):
    """A segment in its log: by its manifest, else by what was found in it.

    A manifest outranks the content: joined with the others to a head that is held elsewhere it is proven, whatever happened to its file.
    """

    segment: Segment
    key: str | None
    stream_id: str
    first_seq: int
    end_seq: int
    previous: str
    leaf: str
    received_from: int
    received_to: int
    subtrees: Sequence[tuple[int, str]] | None
    unusable: tuple[int, int] = (0, 0)  # lines before the first record and behind the last that may have been records


@dataclass(slots=True)
class _Log:
    """A stream while its parts are joined in their order."""

    frontier: Frontier | None = field(default_factory=Frontier)
    end: _Part | None = None
    latest: int | None = None


@dataclass(slots=True)
class _Sums:
    """What segments add up to, before their logs are joined."""

    hashing: Any
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[Finding] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    tables: dict[str, Segment] = field(default_factory=dict)
    used: set[Path] = field(default_factory=set)

    def add(self, segment: Segment, key: str | None, work: Path, max_failures: int | None) -> Mapping[str, Any] | None:
        """Add one segment, and return its result."""
        if segment.state is State.SEALED and segment.manifest is None:
            message = f"the manifest of {segment.path} cannot be read, or is not one"
            self.findings.append(Finding("log.manifest", Severity.ERROR, message))
        if segment.manifest is not None:
            self.used.add(segment.archive)
        if key is None:
            return None
        result = read_result(work, key)
        totals = Totals.from_object(result["totals"])
        for row in (*totals.failures, *totals.noted):
            row["archive"] = str(segment.archive)
        self.totals.join(totals, max_failures=max_failures)
        with open_result(work, key, "csv") as file:
            self.hashing.update(hashlib.file_digest(file, "sha256").digest())
        self.tables[key] = segment
        if result["unreadable"]:
            self.unreadable.append(Finding("archive.unreadable", Severity.ERROR, result["unreadable"]))
        if totals.records or result["leaves"] or result["unreadable"]:
            self.used.add(segment.archive)
        self.findings += _compared(segment, result)
        return result

    def result(self, max_failures: int | None, heads: tuple[Head, ...] = (), report_hash: str = "") -> AuditResult:
        """Return what was found."""
        listed = tuple([*self.totals.failures, *self.totals.noted][:max_failures])
        return AuditResult(self.totals, listed, heads, tuple(self.findings), tuple(self.unreadable), report_hash)


def merge_results(
    segments: Sequence[Segment], keys: Sequence[str | None], *, work: Path, plan_digest: str, heads: Iterable[str | Head] = (),
    max_failures: int | None = MAX_FIRST_FAILURES, archives: Sequence[Path] = (), found: Iterable[Finding] = (),
    unreadable: Iterable[Finding] = (), ledger: Ledger | None = None,
) -> AuditResult:  # fmt: skip
    """Join the results of segments.

    Args:
        segments: all of them, those of an archive in its order.
        keys: their keys, in the same order; None for a sealed part without a file.
        work: the folder of the results.
        plan_digest: the digest of the plan.
        heads: what was stored elsewhere as the end of a stream: a leaf, hexadecimal, or a head.
        max_failures: how many failures to list; None for all.
        archives: the archives of the segments, in the order of their heads, and those without any.
        found: what was found before about the archives.
        unreadable: what could not be read before.
        ledger: payments that accepted records must name, and no others.

    Raises:
        ArchiveError: `archive.unreadable`, a result is missing.
        FormatError: as `Ledger`.
    """
    sums = _Sums(hashlib.sha256(plan_digest.encode()), [*found], [*unreadable])
    parts = []
    for segment, key in zip(segments, keys, strict=True):
        part = _part(segment, key, sums.add(segment, key, work, max_failures))
        if part is not None:
            parts.append(part)
    findings = sums.findings
    leaves = {head for head in heads if isinstance(head, str)}
    expected = [head for head in heads if isinstance(head, Head)]
    found_heads: set[Head] = set()
    logs: dict[str, _Log] = {}
    ends, first_seqs, heads_of = dict[Path, _Part](), dict[Path, int](), dict[Path, Head]()
    # Archives of one stream may be given in any order.
    for part in sorted(parts, key=lambda part: part.first_seq):
        log = logs.setdefault(part.stream_id, _Log())
        before = log.frontier and Frontier(log.frontier.size, log.frontier.hashes)
        findings += _join(log, part, work)
        root = None if log.frontier is None else log.frontier.root().hex()
        archive = part.segment.archive
        first_seqs.setdefault(archive, max(part.first_seq - part.unusable[0], 0))
        ends[archive] = part
        # The head of a slice, whose root is not known, counts the records that were read.
        before_it = 0 if root is not None else first_seqs[archive]
        heads_of[archive] = Head(part.stream_id, part.end_seq - before_it, root, part.leaf, archive)
        for head in expected:
            if head.stream_id == part.stream_id and part.first_seq < head.records <= part.end_seq:
                found_heads.add(head)
                known = root if head.records == part.end_seq else _root_at(before, head.records, part, work)
                if known != head.root:
                    findings.append(Finding("log.head", Severity.ERROR, _other_root(head, archive)))
    for archive in archives:
        if archive not in sums.used:
            findings.append(Finding("log.empty", Severity.ERROR, f"the archive {archive} contains no record"))
    for head in expected:
        if head not in found_heads:
            findings.append(Finding("log.head", Severity.ERROR, _absent_head(head, ends.values())))
    for leaf in sorted(leaves.difference(end.leaf for end in ends.values())):
        findings.append(Finding("log.head", Severity.ERROR, _lost_head(leaf, sums.tables, ends, work)))
    if ledger is not None:
        findings += ledger.compare(row[4] for key in sums.tables for row in _requests(work, key) if row[4])
    sums.hashing.update(json.dumps([[one.code, one.severity.value] for one in findings]).encode())
    ordered = tuple(heads_of[archive] for archive in archives if archive in heads_of)
    return sums.result(max_failures, ordered, sums.hashing.hexdigest())


def shard_result(
    segments: Sequence[Segment], keys: Sequence[str | None], *, work: Path, max_failures: int | None = MAX_FIRST_FAILURES,
    unreadable: Iterable[Finding] = (),
) -> AuditResult:  # fmt: skip
    """Return what a share of the segments shows, without the log that they are in.

    Raises:
        ArchiveError: `archive.unreadable`, a result is missing.
    """
    sums = _Sums(hashlib.sha256(), unreadable=[*unreadable])
    for segment, key in zip(segments, keys, strict=True):
        if key is not None:
            sums.add(segment, key, work, max_failures)
    return sums.result(max_failures)


def _part(segment: Segment, key: str | None, result: Mapping[str, Any] | None) -> _Part | None:
    manifest = segment.manifest
    if manifest is not None:
        return _Part(
            segment, key, manifest.stream_id, manifest.first_seq, manifest.end, manifest.previous, manifest.leaf, manifest.received_from,
            manifest.received_to, manifest.subtrees,
        )  # fmt: skip
    if result is None or result["first"] is None:
        return None
    first, end = result["first"], result["end"]
    is_whole = result["leaves"] == end["seq"] - first["seq"]
    return _Part(
        segment, key, end["stream_id"], first["seq"], end["seq"], first["previous"], end["leaf"], first["received_at"], end["latest"],
        result["subtrees"] if is_whole else None, (result["unusable_before"], end["unusable"]),
    )  # fmt: skip


def _compared(segment: Segment, result: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare what was found in a sealed part with its manifest."""
    manifest = segment.manifest
    if manifest is None or result["unreadable"]:
        return
    first, end, received = result["first"] or {}, result["end"], result["received"] or [None, None]
    same = segment.name.rpartition("/")[2] == manifest.file and (
        result["sha256"], result["leaves"], tuple((level, node) for level, node in result["subtrees"]), first.get("previous"),
        end["leaf"], *received,
    ) == (
        manifest.sha256, manifest.records, manifest.subtrees, manifest.previous, manifest.leaf, manifest.received_from,
        manifest.received_to,
    )  # fmt: skip
    if not same:
        message = f"{segment.path} does not have the records that its manifest names"
        yield Finding("log.segment-changed", Severity.ERROR, message)


def _join(log: _Log, part: _Part, work: Path) -> Iterator[Finding]:
    """Move a log on by one part, and report what is wrong between the two."""
    last, path = log.end, part.segment.path
    next_seq = 0 if last is None else last.end_seq
    if part.first_seq < next_seq and last is not None:
        message = (
            f"{last.segment.path} and {path} both have the record {part.first_seq} of the stream {part.stream_id}: one is a copy or a"
            " fork of the other"
        )
        yield Finding("log.same-stream", Severity.ERROR, message)
        return
    unusable = part.unusable[0] + (0 if last is None else last.unusable[1])
    if part.first_seq > next_seq + unusable:
        message = f"before {path}: {missing(next_seq, part.first_seq - 1, unusable)}"
        yield Finding("log.gap", Severity.ERROR, message)
    leaf = FIRST_PREVIOUS if last is None else last.leaf
    if part.first_seq == next_seq and part.previous != leaf:
        yield broken_chain(f"record {part.first_seq} of {path}", part.previous, next_seq - 1)
    received = from_microseconds(part.received_from)
    latest = received if log.latest is None else from_microseconds(log.latest)
    if latest - received > CLOCK_TOLERANCE:
        times = format_time(received), format_time(latest)
        message = f"the first record of {path} was received at {times[0]}, before an earlier record ({times[1]})"
        yield Finding("log.time-back", Severity.ERROR, message)
    if last is not None and last.key is not None and part.key is not None:
        yield from _reused_ids(_requests(work, last.key), _requests(work, part.key), part.received_from)
    yield from _grow(log, part)
    log.end, log.latest = part, max(part.received_to, log.latest or part.received_to)


def _grow(log: _Log, part: _Part) -> Iterator[Finding]:
    """Add the leaves of a part to the tree. After damage the tree stays unknown: a forged part before it must not count."""
    if log.frontier is None or part.first_seq != log.frontier.size or part.subtrees is None:
        log.frontier = None
        return
    try:
        if part.segment.manifest is not None:
            part.segment.manifest.join(log.frontier)
        else:
            for level, node in part.subtrees:
                log.frontier.join(level, bytes.fromhex(node))
    except FormatError as e:
        log.frontier = None
        yield Finding("log.manifest", Severity.ERROR, e.message)


def _reused_ids(before: Iterable[list[str]], after: Iterable[list[str]], boundary: int) -> Iterator[Finding]:
    """Compare the accepted requests of the last hour before a part with those of its first hour."""
    known: dict[tuple[str, str], tuple[int, str]] = {}
    for at, owner, request_id, content, _ in before:
        if owner and int(at) > boundary - HOUR:
            known.setdefault((owner, request_id.lower()), (int(at), content))
    for at, owner, request_id, content, _ in after if known else ():
        if int(at) > boundary + HOUR:
            return
        was = known.get((owner, request_id.lower()))
        found = None if was is None else reused(owner, request_id, is_same=was[1] == content)
        if was is not None and found is not None and int(at) - was[0] < HOUR:
            yield found


def table_lines(keys: Sequence[str | None], work: Path) -> Iterator[bytes]:
    """Yield the table of all records, a line each, with the names of its columns first."""
    yield (",".join(COLUMNS) + "\r\n").encode()
    for key in filter(None, keys):
        with open_result(work, key, "csv") as file:
            yield from file


def _requests(work: Path, key: str) -> Iterator[list[str]]:
    with TextIOWrapper(open_result(work, key, "ids"), "utf-8", newline="") as file:
        yield from csv.reader(file)


def _root_at(before: Frontier | None, records: int, part: _Part, work: Path) -> str | None:
    """Return the root over the first records of a log, the last of which are in a part; None if it is not known."""
    if before is None or part.key is None or part.subtrees is None:
        return None
    frontier = Frontier(before.size, before.hashes)
    for leaf in _leaves(work, part.key)[: records - part.first_seq]:
        frontier.add(leaf)
    return frontier.root().hex() if frontier.size == records else None


def _leaves(work: Path, key: str) -> list[bytes]:
    with open_result(work, key, "leaves") as file:
        raw = file.read()
    return [raw[start : start + HASH_BYTES] for start in range(0, len(raw), HASH_BYTES)]


def _other_root(head: Head, archive: Path) -> str:
    return (
        f"the first {head.records} records of {archive} are not those of the expected head: its root is {head.root}. They were"
        " rewritten, or one of them is missing or damaged"
    )


def _absent_head(head: Head, ends: Iterable[_Part]) -> str:
    found = [end for end in ends if end.stream_id == head.stream_id]
    if not found:
        return f"the expected head is of the stream {head.stream_id}, which no archive has"
    return (
        f"the expected head has {count(head.records, 'record', 'records')} of the stream {head.stream_id}, but"
        f" {found[-1].segment.archive} ends after {found[-1].end_seq}: records were cut off the end"
    )


def _lost_head(leaf: str, tables: Mapping[str, Segment], ends: Mapping[Path, _Part], work: Path) -> str:
    for key, segment in tables.items():
        found = _leaves(work, key)
        if bytes.fromhex(leaf) in found and segment.archive in ends:
            end, first_seq = ends[segment.archive], read_result(work, key)["first"]["seq"]
            return (
                f"the expected head {leaf} is record {first_seq + found.index(bytes.fromhex(leaf))} of {segment.archive}, which now ends"
                f" with record {end.end_seq - 1}, leaf {end.leaf}: records were added after the head was kept"
            )
    known = "; ".join(
        f"{end.segment.archive} ends with record {end.end_seq - 1}, leaf {end.leaf}" for end in ends.values()
    )
    return (
        f"the expected head {leaf} is not in any archive (found: {known or 'none'}): records were cut off the end,"
        " the archive was rewritten, or it is another archive"
    )
