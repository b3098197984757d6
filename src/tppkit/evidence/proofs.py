"""What the time stamps of archives prove: that the records of sealed parts existed at a time.

    for name in stamp_archive("evidence", "http://tsa.example", fetch=make_fetch()): ...
    report = check_stamps(list_segments("evidence"), paths=PathVerifier(anchors), now=utc_now())

Needs the extra `audit`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from tppkit._clock import format_time, from_microseconds
from tppkit._files import PRIVATE, FilePath, as_path, read_bounded, regular_only, replace_file
from tppkit.certificates.algorithms import NEVER, end_of_stamp
from tppkit.errors import CertificateRejected, Finding, FormatError, Severity, VerificationError
from tppkit.evidence.algorithms import Proof
from tppkit.evidence.files import sync
from tppkit.evidence.manifest import SEGMENTS, Manifest, list_manifests, read_manifest
from tppkit.evidence.results import StampRow
from tppkit.evidence.segments import STAMP, Segment, list_segments
from tppkit.evidence.stamps import MAX_STAMP_BYTES, request_stamp, verify_stamp
from tppkit.evidence.stream import CLOCK_TOLERANCE
from tppkit.evidence.tree import Frontier
from tppkit.trust import Fetch, PathVerifier

_LATE = timedelta(days=40)


class StampReport(NamedTuple):
    """What the time stamps of archives prove.

    Attributes:
        segments: the segments, each with its proof.
        stamps: what was found about each stamp.
        findings: `log.stamp` and `log.stamp-late`.
    """

    segments: tuple[Segment, ...]
    stamps: tuple[StampRow, ...]
    findings: tuple[Finding, ...]


def stamp_archive(archive: FilePath, url: str, *, fetch: Fetch) -> Iterator[str]:
    """Ask for a time stamp for each sealed part that has none, and yield the names of the files that were written.

    It stops at the first part that cannot be stamped; run it again later.

    Args:
        archive: the archive. Its manifests must follow on, as `sealing.seal_archive` checks.
        url: the address of the time-stamping authority.
        fetch: posts the requests, such as `client.make_fetch()`.

    Raises:
        TransportError, FormatError: as `stamps.request_stamp`; `manifest.malformed`.
        ConfigurationError: `file.unwritable`.
    """
    for path in list_manifests(as_path(archive)):
        file = path.with_suffix(STAMP)
        if os.path.lexists(file):
            continue
        raw = request_stamp(read_manifest(path).head, url, fetch=fetch)
        replace_file(file, raw, mode=PRIVATE)
        sync(file.parent)
        yield f"{SEGMENTS}/{file.name}"


def check_stamps(
    segments: Iterable[Segment], *, paths: PathVerifier | None, now: datetime, at: datetime | None = None
) -> StampReport:
    """Verify the time stamps of segments. A stamp proves its segment and all before it, if their manifests give its head.

    Args:
        segments: those of any number of archives, each in its order.
        paths: the trusted authorities; None if there are none, so that no stamp can be checked.
        now: the present, aware UTC.
        at: the time to judge at, aware UTC; None for the present. A stamp whose algorithm has ended by then proves nothing.
    """
    proven, rows, findings = list[Segment](), list[StampRow](), list[Finding]()
    for _, group in groupby(segments, key=lambda segment: segment.archive):
        archive, proofs, frontier = list(group), list[Proof | None](), Frontier()
        for segment in archive:
            proofs.append(None)
            follows = _join(segment.manifest, frontier)
            if segment.manifest is not None and segment.stamp is not None:
                row, proofs[-1] = _check(segment, segment.manifest, paths if follows else None, now, at or now)
                if not follows:
                    row = row._replace(message="the manifests up to it cannot be read or do not follow on")
                rows.append(row)
                findings += _findings(row, proofs[-1], segment.manifest)
        proof: Proof | None = None
        for place in range(len(archive) - 1, -1, -1):
            own = proofs[place]
            if own is not None:
                proof = own if proof is None else Proof(min(own.at, proof.at), max(own.end, proof.end))
            if archive[place].manifest is not None:
                archive[place] = replace(archive[place], proof=proof)
        proven += archive
    return StampReport(tuple(proven), tuple(rows), tuple(findings))


def proof_of(segment: Segment, *, paths: PathVerifier | None, now: datetime) -> Proof | None:
    """Return what the time stamps of its archive prove about one segment.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    report = check_stamps(list_segments(segment.archive), paths=paths, now=now)
    return next((one.proof for one in report.segments if one.name == segment.name), None)


def _join(manifest: Manifest | None, frontier: Frontier) -> bool:
    """Whether a manifest follows on. After one that does not, none does, so no stamp proves anything there; the merge reports it."""
    try:
        if manifest is None:
            return False
        manifest.join(frontier)
    except FormatError:
        return False
    return True


def _check(
    segment: Segment, manifest: Manifest, paths: PathVerifier | None, now: datetime, judged: datetime
) -> tuple[StampRow, Proof | None]:
    row = StampRow(str(segment.archive), str(segment.stamp), manifest.end, "not-checked")
    if paths is None:
        return row._replace(message="no authority was given that it could be verified by"), None
    try:
        raw = read_bounded(segment.archive / row.file, max_bytes=MAX_STAMP_BYTES, opener=regular_only)
        stamp = verify_stamp(raw, manifest.head, paths=paths)
    except (FormatError, VerificationError) as e:
        is_open = isinstance(e, CertificateRejected) and e.code != "revocation.revoked"
        needs = "; give the certificate of its issuer in --trust, too" if e.code == "trust.no-path" else ""
        return row._replace(status="not-checked" if is_open else "fails", message=e.message + needs), None
    end, received_to = end_of_stamp(stamp.authority), from_microseconds(manifest.received_to)
    row = row._replace(
        at=format_time(stamp.at),
        authority=str(stamp.authority.subject),
        end=None if end == NEVER else format_time(end)[:10],
    )
    if stamp.at > now + CLOCK_TOLERANCE:
        return row._replace(status="fails", message=f"it states {row.at}, which is after the audit"), None
    if stamp.at < received_to - CLOCK_TOLERANCE:
        message = f"it states {row.at}, but a record that it proves was received at {format_time(received_to)}"
        return row._replace(status="fails", message=message), None
    if end <= judged:
        message = f"the algorithm of its signature ended on {row.end}, and nothing proves that it existed before"
        return row._replace(message=message), None
    return row._replace(status="holds"), Proof(stamp.at, end)


def _findings(row: StampRow, proof: Proof | None, manifest: Manifest) -> Iterator[Finding]:
    if row.status == "fails":
        yield Finding("log.stamp", Severity.ERROR, f"the time stamp {row.file} does not hold: {row.message}")
    late = None if proof is None else proof.at - from_microseconds(manifest.received_to)
    if late is not None and late > _LATE:
        message = f"{row.file} was made {late.days} days after the last record of its part"
        yield Finding("log.stamp-late", Severity.WARNING, message)
