"""The place of records in their stream: gaps, repetitions, the chain of leaves, the order of time, and reused ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tppkit._cache import Cache
from tppkit._clock import format_time, from_microseconds, to_microseconds
from tppkit.errors import Finding, Severity
from tppkit.evidence.checks import RecordVerdict
from tppkit.evidence.record import FIRST_PREVIOUS

# Concurrent requests and clock corrections put times of receipt out of order by seconds. A larger step backwards can hide a seal
# that was made after the revocation of its certificate.
CLOCK_TOLERANCE = timedelta(minutes=5)
# Records with these codes are not part of the stream, which continues after the record before them.
NOT_IN_STREAM = frozenset({"log.repeated", "log.other-stream"})
# PSD2 document, part A section 4, payment initiation headers: the same id with another body is rejected within an hour.
HOUR = 3_600_000_000
_MAX_REQUESTS = 10_000


@dataclass(slots=True)
class Stream:
    """Where a stream has come to.

        stream = Stream(now=utc_now())
        findings = [stream.add(row) for row in rows]

    Attributes:
        now: the present, aware, after which no record can have been received.
        stream_id: the stream; None before its first record.
        next_seq: the place of the next record; None if it is not known, at the start of a part.
        previous: the leaf of the last record; None if it is not known.
        latest: the latest time of receipt so far, in microseconds since 1970.
        unusable: the lines since the last record of the stream; each may have been one of its records.
    """

    now: datetime
    stream_id: str | None = None
    next_seq: int | None = 0
    previous: str | None = FIRST_PREVIOUS
    latest: int | None = None
    unusable: int = 0
    _end: int = field(init=False)

    def __post_init__(self) -> None:
        self._end = to_microseconds(self.now + CLOCK_TOLERANCE)

    def add(self, row: RecordVerdict) -> Finding | None:
        """Move on by one record, and return what is wrong with its place.

        A record that is repeated, of another stream or not intact does not move the stream, so one fault makes one finding.
        """
        if row.seq is None or row.received_at is None or not row.is_intact:
            self.unusable += 1  # any column of a changed record may be wrong, its place and time included
            return None
        found = self._misplaced(row, row.seq, row.received_at, row.seq if self.next_seq is None else self.next_seq)
        if found is None or found.code not in NOT_IN_STREAM:
            self.stream_id, self.next_seq, self.previous = row.stream_id, row.seq + 1, row.leaf
            self.unusable = 0
            is_step = found is not None and found.code == "log.time-back" and found.severity is Severity.ERROR
            # Report a step of the clock once, not for each later record.
            self.latest = row.received_at if is_step else max(row.received_at, self.latest or row.received_at)
        return found

    def _misplaced(self, row: RecordVerdict, seq: int, received_at: int, next_seq: int) -> Finding | None:
        last = next_seq - 1
        if self.stream_id is not None and row.stream_id != self.stream_id:
            message = f"the record belongs to the stream {row.stream_id}, not to {self.stream_id}"
            return Finding("log.other-stream", Severity.ERROR, message)
        if seq < next_seq:
            message = f"record {seq} comes after record {last}: it is repeated or moved"
            return Finding("log.repeated", Severity.ERROR, message)
        if seq > next_seq + self.unusable:
            return Finding("log.gap", Severity.ERROR, missing(next_seq, seq - 1, self.unusable))
        if seq == next_seq and self.previous not in (None, row.previous):
            return broken_chain(f"record {seq}", row.previous, last)
        if received_at > self._end:
            message = f"received at {format_time(from_microseconds(received_at))}, which is after the audit"
            return Finding("log.time-future", Severity.ERROR, message)
        if self.latest is not None and received_at < self.latest:
            at, latest = from_microseconds(received_at), from_microseconds(self.latest)
            severity = Severity.ERROR if latest - at > CLOCK_TOLERANCE else Severity.NOTICE
            message = f"received at {format_time(at)}, {latest - at} before an earlier record ({format_time(latest)})"
            return Finding("log.time-back", severity, message)
        return None


def in_stream(row: RecordVerdict, stream: Stream, accepted: AcceptedRequests) -> RecordVerdict:
    """Return the row with what is wrong with its place and its id."""
    place, reused = stream.add(row), accepted.add(row)
    if place is None and reused is None:
        return row
    is_error = place is not None and place.severity is Severity.ERROR
    findings = (None if is_error else place, *row.findings, reused)
    return row._replace(
        place=place if is_error else None,
        findings=tuple(dict.fromkeys(found for found in findings if found is not None)),
    )


def broken_chain(record: str, previous: str | None, last: int) -> Finding:
    """Return that a record does not name the leaf of the record before it, whose place is -1 if there is none."""
    before = f"the leaf of record {last}" if last >= 0 else "zeros, as the first record has"
    message = f"{record} names {previous} as the leaf before it, not {before}"
    return Finding("log.chain-broken", Severity.ERROR, message)


def missing(first: int, last: int, unusable: int = 0) -> str:
    """Return which records are missing, in words."""
    if unusable:
        lines = "1 line" if unusable == 1 else f"{unusable} lines"
        missing = f"at least {last - first + 1 - unusable} of records {first} to {last} are missing"
        return f"{missing}; {lines} before this one may contain the others"
    if first == last:
        return f"record {first} is missing (1 record)"
    return f"records {first} to {last} are missing ({last - first + 1} records)"


class AcceptedRequests:
    """The last accepted requests by organisation and request id, in bounded memory."""

    def __init__(self) -> None:
        self._requests = Cache[tuple[str, str], tuple[int, str]](_MAX_REQUESTS)

    def add(self, row: RecordVerdict) -> Finding | None:
        """Add a proven record; return what `reused` finds about its id, if it was accepted before, requests within an hour."""
        owner, request_id, received_at = row.owner, row.x_request_id, row.received_at
        if not owner or not request_id or received_at is None or not 200 <= (row.http_status or 0) < 300:
            return None
        key, content = (owner, request_id.lower()), row.content or ""
        known = self._requests.get(key)
        at, before = known or (received_at, content)
        # The hour begins with the first request; a repetition does not prolong it.
        is_bound = abs(received_at - at) < HOUR or row.key is not None
        self._requests.put(key, (at, before) if is_bound else (received_at, content))
        return reused(owner, request_id, is_same=before == content) if known is not None and is_bound else None


def reused(owner: str, request_id: str, *, is_same: bool) -> Finding | None:
    """Return what is wrong with two accepted requests that have one id.

    Args:
        owner: within what the id is unique: an organisation, or the address of a callback.
        request_id: the id.
        is_same: whether method, target and body are the same. Signatures are not compared, because anyone can make a second one
            that verifies out of an ECDSA signature.
    """
    if owner.startswith("https://") and is_same:
        message = f"the callback {request_id[:40]!r} to {owner[:200]} was received more than once: it is one event"
        return Finding("record.callback-repeated", Severity.NOTICE, message)
    if is_same:
        return None
    kind = "callbacks with the requestid" if owner.startswith("https://") else "requests with the X-Request-ID"
    message = f"{owner[:200]} got two {kind} {request_id[:40]!r} accepted within an hour"
    return Finding("record.id-reused", Severity.WARNING, message)
