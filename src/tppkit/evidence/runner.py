"""The audit of segments, each alone, in any order, in any process. A result file is the mark that a segment is done.

keys = run_audit(list_segments("evidence"), plan, work=Path("work"))
result = merge_results(segments, keys, work=Path("work"))
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from io import BufferedReader, StringIO
from pathlib import Path
from typing import Any, BinaryIO

from tppkit import __version__
from tppkit._clock import format_time, from_microseconds, optional_microseconds
from tppkit._files import PRIVATE, replace_file, replacing
from tppkit.certificates import OrganizationPolicy
from tppkit.certificates.algorithms import policy_digest
from tppkit.errors import ArchiveError
from tppkit.evidence.checks import Checks, RecordVerdict, Selection
from tppkit.evidence.record import Kind
from tppkit.evidence.results import MAX_FIRST_FAILURES, Totals
from tppkit.evidence.segments import Progress, Segment, State
from tppkit.evidence.stream import NOT_IN_STREAM, AcceptedRequests, Stream, in_stream
from tppkit.evidence.table import Columns
from tppkit.evidence.tree import subtrees
from tppkit.evidence.verdicts import sub_indication
from tppkit.seals.policy import Paths
from tppkit.trust import TrustMaterial, load_revocation, load_trust

COLUMNS = (
    "stream_id", "seq", "received_at", "x_request_id", "payment_ref", "organization_identifier", "claimed_by", "method", "target",
    "http_status", "profile", "verdict", "sub_indication", "code", "codes", "log_code", "findings",
)  # fmt: skip
"""The columns of `results.csv`."""
_MISSING_FILES = frozenset({"record.answer", "record.certificate", "file.unreadable"})
_FORMULA = "=+-@\t\r"
_MAX_CELL = 1_000
_PAYS = (None, "PSP_PI")  # roles of the endpoints whose `payment_ref` names a payment, not a consent


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What records are judged by. It can be sent to other processes and machines that have the same files.

        plan = AuditPlan(trust="pki", now=utc_now(), endpoints=endpoints_of(PSD2))

    Attributes:
        now: the present, aware UTC, after which no record can have been received.
        trust: authorities, a file or folder.
        trusted_lists: a folder of trusted lists, by which certificates must be qualified.
        answers: files of CRLs and OCSP responses.
        at: the time to judge at, aware UTC; None for the time of receipt of each record.
        organizations: the accepted organizationIdentifiers.
        endpoints: method, path and role of each endpoint; a path has parameters as `{name}`.
        max_failures: how many failed records to list; None for all.
        received_from: examine only records received at this time or later, aware UTC.
        received_to: examine only records received before this time, aware UTC.
        selected: examine only records whose seal certificate names one of these organizationIdentifiers; empty for all.
    """

    now: datetime
    trust: str | None = None
    trusted_lists: str | None = None
    answers: tuple[str, ...] = ()
    at: datetime | None = None
    organizations: OrganizationPolicy = OrganizationPolicy()  # noqa: RUF009  # frozen
    endpoints: tuple[tuple[str, str, str | None], ...] = ()
    max_failures: int | None = MAX_FIRST_FAILURES
    received_from: datetime | None = None
    received_to: datetime | None = None
    selected: tuple[str, ...] = ()

    @property
    def selection(self) -> Selection:
        """The records to examine."""
        times = optional_microseconds(self.received_from), optional_microseconds(self.received_to)
        return Selection(*times, frozenset(self.selected))

    def digest(self) -> str:
        """Return a hash of all that decides about records: the content of the files, not their paths, and no time of day."""
        files = {
            name: _content(path)
            for name, path in (("trust", self.trust), ("trusted_lists", self.trusted_lists))
            if path
        }
        answers = sorted(digest for path in self.answers for digest in _content(path))
        plan = {
            "version": __version__, "files": files, "answers": answers, "at": optional_microseconds(self.at),
            "schemes": sorted(self.organizations.schemes), "match_authority": self.organizations.match_authority,
            "algorithms": policy_digest(self.at or self.now), "endpoints": self.endpoints, "max_failures": self.max_failures,
            "selection": [self.selection.received_from, self.selection.received_to, sorted(self.selected)],
        }  # fmt: skip
        return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()

    def load(self) -> TrustMaterial:
        """Read the files.

        Raises:
            ConfigurationError, FormatError, VerificationError: as `trust.load_trust` and `trust.load_revocation`.
        """
        if not (self.trust or self.trusted_lists or self.answers):
            return TrustMaterial()
        answers = load_revocation(self.answers) if self.answers else None
        now = max(self.now, self.at or self.now)
        return load_trust(trust=self.trust, trusted_lists=self.trusted_lists, answers=answers, now=now)


def _content(path: str) -> list[str]:
    files = [path] if os.path.isfile(path) else [
        os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names
    ]  # fmt: skip
    found = []
    for name in files:
        with suppress(OSError), open(name, "rb") as file:  # what cannot be read is reported when it is loaded
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several equal shares of the segments, for as many machines: every `count`th segment from `index`, which counts from 0."""

    index: int
    count: int


@lru_cache(maxsize=1)
def load_material(plan: AuditPlan) -> TrustMaterial:
    """Do as `AuditPlan.load`, once in a process."""
    return plan.load()


class Endpoints:
    """Finds the endpoint of a request, and the role that it needs."""

    def __init__(self, rows: Iterable[tuple[str, str, str | None]]) -> None:
        self._rows: dict[tuple[str, int], list[tuple[list[str], str, str | None]]] = {}
        for method, path, role in rows:
            self._rows.setdefault((method, path.count("/")), []).append((path.split("/"), path, role))
        self.find = lru_cache(maxsize=4_096)(self._find)

    def _find(self, method: str, target: str) -> tuple[str, str | None]:
        path = target.partition("?")[0]
        parts = path.split("/")
        for pattern, name, role in self._rows.get((method, len(parts) - 1), ()):
            if all(one == other or (one.startswith("{") and other) for one, other in zip(pattern, parts, strict=True)):
                return f"{method} {name}", role
        return f"{method[:20]} (other)", None

    def role(self, method: str, target: str) -> str | None:
        """Return the role that a QWAC needs for a request, or None."""
        return self.find(method, target)[1]


def _hash_of(segment: Segment) -> str:
    try:
        return segment.sha256()
    except ArchiveError:  # its result says so, and is not used again when it can be read
        return f"unreadable {segment.name}"


def _key_of(segment: Segment, content: str, plan_digest: str) -> str:
    """Return the name of a segment's result: a hash of its bytes, of its proof of time, of the plan and of this version."""
    proven = b"" if segment.manifest is None else repr(segment.proof).encode() + segment.manifest.to_bytes()
    return hashlib.sha256(f"{content} {plan_digest} {__version__} ".encode() + proven).hexdigest()


def audit_segment(
    segment: Segment, plan: AuditPlan, work: Path, *, plan_digest: str | None = None, resume: bool = False, material: Paths | None = None,
    progress: Progress | None = None,
) -> str:  # fmt: skip
    """Verify the records of one segment, and write what was found into `work`.

    Args:
        segment: the segment.
        plan: what records are judged by.
        work: a folder for the results.
        plan_digest: what `plan.digest` returned; None to read its files again.
        resume: use the result that is there.
        material: what `plan.load` returned; None to load it once in this process.
        progress: is called while records are verified.

    Returns:
        The key: `<key>.csv` has a row for each record, `<key>.ids` the accepted requests, `<key>.leaves` the leaves of the log, and
        `<key>.json`, which is written last, counts, places and subtrees.

    Raises:
        ConfigurationError, FormatError, VerificationError: as `AuditPlan.load`.
    """
    content = _hash_of(segment)
    key = _key_of(segment, content, plan_digest or plan.digest())
    if not (resume and _is_final(work, key)):
        _write_result(segment, segment.read(), plan, work, key, content, material or load_material(plan), progress)
    return key


def mark_unread(segment: Segment, plan: AuditPlan, work: Path, plan_digest: str, message: str) -> str:
    """Write the result of a segment whose process ended. It is not used again: the next audit reads the segment."""
    segment = replace(segment, proof=None)  # of which no record was compared with it
    key = _key_of(segment, f"unread {segment.name}", plan_digest)
    _write_result(
        segment, _unread(f"{segment.path} was not verified: {message}"), plan, work, key, "", load_material(plan), None
    )
    return key


def _unread(message: str) -> Iterator[Columns]:
    yield from ()
    raise ArchiveError("archive.unreadable", message)


def make_checks(archive: Path, plan: AuditPlan, material: Paths, endpoints: Endpoints) -> Checks:
    """Return the checks of a plan for the records of an archive."""
    return Checks(
        material, archive=archive, now=plan.now, at=plan.at, organizations=plan.organizations, role_of=endpoints.role,
        selection=plan.selection,
    )  # fmt: skip


def _write_result(
    segment: Segment, batches: Iterable[Columns], plan: AuditPlan, work: Path, key: str, content: str, material: Paths,
    progress: Progress | None,
) -> None:  # fmt: skip
    endpoints = Endpoints(plan.endpoints)
    checks = make_checks(segment.archive, plan, material, endpoints)
    # An engine may run a task twice at a time, so each file has a random name until it is complete; the JSON comes last.
    with (
        replacing(work / f"{key}.csv", mode=PRIVATE) as rows,
        replacing(work / f"{key}.ids", mode=PRIVATE) as ids,
        replacing(work / f"{key}.leaves", mode=PRIVATE) as leaves,
    ):
        files = rows, ids, leaves
        value = _examine(segment, batches, plan, checks, endpoints, files, progress)
        if segment.proof and segment.manifest and not segment.manifest.has_subtrees(value["subtrees"]):
            # The stamp is over other records, so it proves nothing about these.
            for file in files:
                file.seek(0)
                file.truncate()
            value = _examine(replace(segment, proof=None), segment.read(), plan, checks, endpoints, files, None)
    value |= {"segment": segment.name, "sha256": content}
    value["subtrees"] = [[level, node.hex()] for level, node in value["subtrees"]]
    replace_file(work / f"{key}.json", json.dumps(value).encode(), mode=PRIVATE)


def _examine(
    segment: Segment, batches: Iterable[Columns], plan: AuditPlan, checks: Checks, endpoints: Endpoints,
    files: tuple[BinaryIO, BinaryIO, BinaryIO], progress: Progress | None,
) -> dict[str, Any]:  # fmt: skip
    """Verify the records of a segment, and return its result; the rows, accepted requests and leaves go to files."""
    archive, totals, accepted, leaves = str(segment.archive), Totals(), AcceptedRequests(), list[bytes]()
    stream = Stream(now=plan.now, next_seq=None, previous=None)  # the merge compares the ends of segments
    unreadable: str | None = None
    first: RecordVerdict | None = None
    received: tuple[int, int] | None = None
    unusable_before = 0
    try:
        for columns in batches:
            lines, requests = list[Sequence[object]](), list[Sequence[object]]()
            for row in checks.rows(columns, proof=segment.proof):
                if stream.stream_id is None:
                    unusable_before = stream.unusable
                row = in_stream(row, stream, accepted)
                if row.is_intact and row.leaf and (row.place is None or row.place.code not in NOT_IN_STREAM):
                    leaves.append(bytes.fromhex(row.leaf))
                    first = first or row
                    at = row.received_at or 0
                    received = (at, at) if received is None else (min(received[0], at), max(received[1], at))
                if not row.is_selected and row.is_intact and row.place is None and not row.findings:
                    continue
                endpoint, role = "", None
                if row.method is not None and row.target is not None:
                    endpoint, role = endpoints.find(row.method, row.target)
                    endpoint = f"answer to {endpoint}" if row.kind == Kind.ANSWER else endpoint
                totals.add(row, archive=archive, endpoint=endpoint, max_failures=plan.max_failures)
                totals.unstamped += segment.proof is None
                lines.append(cells(row))
                payment = row.payment_ref if row.is_intact and role in _PAYS else None
                if 200 <= (row.http_status or 0) < 300 and (row.owner or payment):
                    content = hashlib.sha256((row.content or "").encode()).hexdigest()[:32]
                    proven = (row.owner, row.x_request_id, content, payment)
                    requests.append((row.received_at, *map(_shortened, proven)))
            files[0].write(_csv(lines))
            files[1].write(_csv(requests))
            if progress is not None:
                progress(len(columns["line"]))
    except ArchiveError as e:
        unreadable = e.message
    files[2].write(b"".join(leaves))
    return {
        "first": first and {"seq": first.seq, "previous": first.previous, "received_at": first.received_at},
        "end": {
            "stream_id": stream.stream_id, "seq": stream.next_seq, "leaf": stream.previous, "latest": stream.latest,
            "unusable": stream.unusable,
        },
        "unusable_before": unusable_before,
        "received": received,
        "leaves": len(leaves),
        "subtrees": () if first is None else subtrees(first.seq or 0, leaves),
        "unreadable": unreadable,
        "totals": totals.to_object(),
    }  # fmt: skip


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _shortened(text: str | None) -> str | None:
    """Return a long text by its hash: the reader of CSV has a limit, and columns of a record have none of their own."""
    return text if text is None or len(text) <= _MAX_CELL else hashlib.sha256(text.encode()).hexdigest()


def cells(row: RecordVerdict) -> tuple[object, ...]:
    """Return the cells of a record in `results.csv`."""
    at = None if row.received_at is None else format_time(from_microseconds(row.received_at))
    codes = " ".join(dict.fromkeys(code for code, _ in row.failures)) if row.failures else ""
    findings = " ".join(found.code for found in row.findings) if row.findings else ""
    return (
        row.stream_id, row.seq, at, _plain(row.x_request_id), _plain(row.payment_ref), _plain(row.organization_identifier),
        _plain(row.claimed_by), _plain(row.method), _plain(row.target), row.http_status, _plain(row.profile), row.verdict.value,
        row.code and sub_indication(row.code), row.code, codes, row.place and row.place.code, findings,
    )  # fmt: skip


def _plain(text: str | None) -> str | None:
    """Return what a peer may have chosen as text: a spreadsheet would carry out a formula."""
    return f"'{text}" if text and text[0] in _FORMULA else text


def run_audit(
    segments: Sequence[Segment], plan: AuditPlan, *, work: Path, resume: bool = False, workers: int = 1, engine: str = "local",
    shard: Shard | None = None, material: Paths | None = None, progress: Progress | None = None,
) -> tuple[str | None, ...]:  # fmt: skip
    """Audit segments, and return their keys in the same order; None for a sealed part without a file.

    Args:
        segments: of any number of archives.
        plan: what records are judged by.
        work: a folder outside of the archives, for the results.
        resume: use the results that are there.
        workers: the number of processes. A process that dies, of a damaged Parquet file for example, makes its segment unreadable, and
            the others are verified. With 1, this process does all, as if the plan has no trust material, which other processes load.
        engine: `local`, or `spark` for the Spark of this process, which needs the extra `spark`, and `work` on storage that all share.
        shard: audit only this share; the keys of other segments are None.
        material: verifies certificates in this process, such as what `plan.load` returned; None to load it.
        progress: is called while records are verified.

    Raises:
        ConfigurationError, FormatError, VerificationError: as `AuditPlan.load`; `extra.missing`.
    """
    keys: dict[int, str] = {}
    digest = plan.digest()
    own = range(len(segments)) if shard is None else range(shard.index, len(segments), shard.count)
    readable = [(place, segments[place]) for place in own if segments[place].size is not None]
    if engine == "spark":
        from tppkit.evidence.spark import run_on_spark

        keys |= run_on_spark(readable, plan, work, plan_digest=digest, resume=resume)
        readable, resume = [one for one in readable if one[0] not in keys], True
    is_one_of_lines = len(readable) == 1 and readable[0][1].state is not State.SEALED  # reading lines kills no process
    has_material = plan.trust is not None or plan.trusted_lists is not None
    if workers == 1 or is_one_of_lines or not has_material:
        for place, segment in readable:
            keys[place] = audit_segment(
                segment, plan, work, plan_digest=digest, resume=resume, material=material, progress=progress
            )
    else:
        from tppkit.evidence.pool import run_in_processes  # one process needs no multiprocessing

        job = partial(_job, plan, work, digest, resume)
        for done in run_in_processes(readable, job, workers=min(workers, len(readable)), progress=progress):
            ending = f"the process that read it ended with {done.ending}"
            keys[done.place] = done.key or mark_unread(segments[done.place], plan, work, digest, ending)
    return tuple(map(keys.get, range(len(segments))))


def _job(plan: AuditPlan, work: Path, digest: str, resume: bool, segment: Segment, progress: Progress) -> str:
    return audit_segment(segment, plan, work, plan_digest=digest, resume=resume, progress=progress)


def _is_final(work: Path, key: str) -> bool:
    """Whether a result is there, whole, that stays the same if missing certificates and answers are restored in the archive."""
    try:
        for suffix in ("csv", "ids", "leaves"):
            open_result(work, key, suffix).close()
        return _MISSING_FILES.isdisjoint(read_result(work, key)["totals"]["by_code"])
    except (ArchiveError, KeyError, TypeError):
        return False


def read_result(work: Path, key: str) -> Mapping[str, Any]:
    """Read the JSON of a segment's result.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    with open_result(work, key, "json") as file:
        try:
            value: Mapping[str, Any] = json.load(file)
        except ValueError as e:
            raise ArchiveError("archive.unreadable", f"the result {file.name} is not JSON: {e}") from e
    return value


def open_result(work: Path, key: str, suffix: str) -> BufferedReader:
    """Open a file of a segment's result.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    path = work / f"{key}.{suffix}"
    try:
        return open(path, "rb")
    except OSError as e:
        raise ArchiveError("archive.unreadable", f"the result {path} cannot be read: {e.strerror}") from e
