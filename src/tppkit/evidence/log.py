"""The log of an archive by itself: whether its records follow on, and its head. No signature is verified."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from tppkit._files import FilePath
from tppkit.errors import Finding, Severity
from tppkit.evidence.checks import unverified
from tppkit.evidence.heads import Head
from tppkit.evidence.segments import list_segments
from tppkit.evidence.stream import Stream
from tppkit.evidence.table import entries, leaves
from tppkit.evidence.tree import Frontier


@dataclass(frozen=True, slots=True)
class LogReport:
    """What was found in the log of an archive.

        report = check_log("evidence", now=utc_now())
        report.head.text

    Attributes:
        records: the number of records.
        head: the end of the log; None without records.
        findings: what is wrong, each with the line in its message; errors and, for small steps back in time, notices.
    """

    records: int
    head: Head | None
    findings: tuple[Finding, ...]


def check_log(archive: FilePath, *, now: datetime) -> LogReport:
    """Compute the leaves of an archive again, and check that each record follows on from the one before.

    Args:
        archive: the archive.
        now: the present, aware UTC, after which no record can have been received.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    stream, frontier, records = Stream(now=now), Frontier(), 0
    findings = list[Finding]()
    for segment in list_segments(archive):
        for row in chain.from_iterable(
            map(unverified, leaves(columns), entries(columns)) for columns in segment.read()
        ):
            records += row.seq is not None
            misplaced = stream.add(row)
            found = [Finding(code, Severity.ERROR, message) for code, message in row.failures]
            found += [misplaced] if misplaced is not None else []
            findings += [
                Finding(one.code, one.severity, f"{segment.name} line {row.line}: {one.message}") for one in found
            ]
            # What does not move the stream, or comes behind a gap, is no leaf of the tree that is known.
            if row.leaf is not None and row.seq == frontier.size and stream.next_seq == frontier.size + 1:
                frontier.add(bytes.fromhex(row.leaf))
    if stream.stream_id is None or stream.next_seq is None:
        return LogReport(records, None, tuple(findings))
    root = frontier.root().hex() if frontier.size == stream.next_seq else None
    size = stream.next_seq if root is not None else min(records, stream.next_seq)
    return LogReport(records, Head(stream.stream_id, size, root, stream.previous), tuple(findings))
