"""An archive that was changed: removed, repeated, moved and damaged records, special files, times of receipt that go back."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import FrameType

import pytest
from audits import audit_of

from refusals import refused
from tppkit.errors import ArchiveError, FormatError, Severity
from tppkit.evidence import AuditResult, EvidenceArchive, EvidenceRecord, Verdict, audit_archive, make_record
from tppkit.evidence.columns import MAX_LINE_BYTES
from tppkit.evidence.files import load_certificate
from tppkit.seals import VerifiedRequest
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier

STREAM = "5a" * 16


class Kept:
    """An archive whose lines can be rearranged, and its audit."""

    def __init__(self, folder: Path, paths: PathVerifier) -> None:
        self.folder = folder
        self.paths = paths
        self.lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
        self.head = EvidenceRecord.from_line(self.lines[-1]).leaf

    def audit(self, *lines: bytes, head: str | None = None) -> AuditResult:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        return audit_of(self.folder, self.paths, *([head] if head else []))

    def stream_codes(self, *lines: bytes) -> list[str | None]:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        return [row.place and row.place.code for row in audit_archive(self.folder, paths=self.paths)]


@pytest.fixture
def kept(filled: Path, paths: PathVerifier) -> Kept:
    return Kept(filled, paths)


def test_no_flipped_byte_of_a_record_before_the_last_one_passes(kept):
    first, middle, last = kept.lines
    for number, line, step in ((0, first, 11), (1, middle, 4)):
        for position in range(0, len(line), step):
            flipped = bytearray(line)
            flipped[position] ^= 1 << (position % 8)
            lines = [*kept.lines[:number], bytes(flipped), *kept.lines[number + 1 :]]
            assert kept.audit(*lines).exit_code != 0, f"line {number + 1}, byte {position}"
    assert kept.audit(first, middle, last).exit_code == 0


@pytest.mark.slow
def test_no_flipped_byte_of_the_last_record_passes(kept):
    *before, last = kept.lines
    codes = set()
    for position in range(0, len(last), 5):
        flipped = bytearray(last)
        flipped[position] ^= 0x80 >> (position % 8)
        codes.add(kept.audit(*before, bytes(flipped)).exit_code)
    assert 0 not in codes


@pytest.mark.parametrize(
    ("order", "codes"),
    [
        ([0, 2], [None, "log.gap"]),
        ([1, 2], ["log.gap", None]),
        ([0, 1, 1, 2], [None, None, "log.repeated", None]),
        ([0, 0, 1, 2], [None, "log.repeated", None, None]),
        ([0, 2, 1], [None, "log.gap", "log.repeated"]),
        ([2, 1, 0], ["log.gap", "log.repeated", "log.repeated"]),
        ([0, 1, 0, 1, 2], [None, None, "log.repeated", "log.repeated", None]),
        ([0, 1, 2, 1], [None, None, None, "log.repeated"]),
    ],
    ids=str,
)
def test_records_that_are_missing_repeated_or_moved_are_detected(order, codes, kept):
    lines = [kept.lines[number] for number in order]
    assert kept.stream_codes(*lines) == codes
    summary = kept.audit(*lines)
    assert (summary.exit_code, summary.heads[0].leaf) == (4, kept.head)
    assert summary.heads[0].records == 3 - order[0]  # what is missing before the first record was not read


def test_a_repeated_record_is_named_and_changes_no_head(kept):
    whole = kept.audit(*kept.lines).heads
    repeated = kept.audit(*kept.lines, kept.lines[0])
    assert (repeated.exit_code, repeated.heads) == (4, whole)
    (row,) = repeated.first_failures
    assert row["log_message"] == "record 0 comes after record 2: it is repeated or moved"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1, 2], "record 0 is missing (1 record)"),
        ([0, 2], "record 1 is missing (1 record)"),
        ([0, 5], "records 1 to 4 are missing (4 records)"),
        (
            [0, None, 5],
            "at least 3 of records 1 to 4 are missing; 1 line before this one may contain the others",
        ),
    ],
    ids=str,
)
def test_a_gap_names_the_missing_records(numbers, message, kept):
    first = EvidenceRecord.from_line(kept.lines[0])
    lines = [b"\n" if number is None else replace(first, seq=number).to_line() for number in numbers]
    result = kept.audit(*lines)
    found = [row["log_message"] for row in result.first_failures] + [finding.message for finding in result.findings]
    assert [text for text in found if text and text.endswith(message)] == found[-1:]


def test_a_record_of_another_stream_or_place_is_detected(kept):
    foreign = replace(EvidenceRecord.from_line(kept.lines[1]), stream_id="c3" * 16)
    assert kept.stream_codes(kept.lines[0], foreign.to_line()) == [None, "log.other-stream"]
    assert kept.stream_codes(*kept.lines, foreign.to_line()) == [None, None, None, "log.other-stream"]
    assert kept.audit(*kept.lines, foreign.to_line()).heads[0].leaf == kept.head
    first, second, third = (EvidenceRecord.from_line(line) for line in kept.lines)
    replaced = replace(third, seq=1, previous=first.leaf).to_line()
    assert kept.stream_codes(kept.lines[0], replaced, kept.lines[2]) == [None, None, "log.chain-broken"]
    assert kept.stream_codes(replace(second, seq=0).to_line()) == ["log.chain-broken"]
    # A line that cannot be read hides it no more.
    moved = replace(third, seq=1).to_line()
    assert kept.stream_codes(kept.lines[0], b"\n", moved) == [None, None, "log.chain-broken"]


def test_a_line_that_cannot_be_read_hides_no_gap(kept):
    assert kept.stream_codes(kept.lines[0], b"{}\n", kept.lines[2]) == [None, None, None]
    assert kept.stream_codes(b"{}\n", kept.lines[2]) == [None, "log.gap"]
    assert kept.audit(kept.lines[0], b"{}\n", kept.lines[2]).exit_code == 5


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 999},
        {"received_at": "2099-01-01T00:00:00Z"},
        {"previous": "f" * 64},
        {"stream_id": "c3" * 16},
        {"profile": "another-bank"},
        {"leaf": "0" * 64},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_record_whose_own_hash_differs_neither_moves_the_stream_nor_ends_it(change, place, kept):
    lines = list(kept.lines)
    lines[place] = json.dumps(json.loads(lines[place]) | change).encode() + b"\n"
    summary = kept.audit(*lines)
    assert (summary.exit_code, summary.inconsistent, summary.by_code["record.leaf"]) == (4, 1, 1)
    end = EvidenceRecord.from_line(lines[1 if place == 2 else 2])
    assert (summary.heads[0].records, summary.heads[0].leaf) == (end.seq + 1, end.leaf)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("inserted", [[b"\n"], [b"{}\n", b"\xff\n"]], ids=str)
def test_inserted_unreadable_lines_do_not_change_the_places_of_records(inserted, place, kept):
    summary = kept.audit(*kept.lines[:place], *inserted, *kept.lines[place:])
    assert (summary.exit_code, summary.inconsistent, summary.verdicts[Verdict.PASSED]) == (5, 0, 3)
    assert (summary.heads[0].records, summary.heads[0].leaf) == (3, kept.head)


@pytest.mark.parametrize(
    "column", ["http_status", "payment_ref", "error_code", "clock_source", "session_id", "software", "chain"]
)
def test_a_changed_unsigned_column_breaks_the_chain(column, kept):
    record = EvidenceRecord.from_line(kept.lines[1])
    value = {"http_status": 400, "chain": ()}.get(column, "changed")
    assert (
        kept.stream_codes(kept.lines[0], replace(record, **{column: value}).to_line(), kept.lines[2])[2]
        == "log.chain-broken"
    )


@pytest.mark.parametrize("name", ["cut", "grown", "rewritten", "http_status", "payment_ref", "clock_source"])
def test_what_only_a_head_stored_elsewhere_reveals(name, kept, tmp_path, append):
    last = EvidenceRecord.from_line(kept.lines[2])
    lines = kept.lines[:2]
    if name in ("grown", "rewritten"):
        with EvidenceArchive(tmp_path / name, stream_id=STREAM) as archive:
            append(archive, *((0, 1, 2, 3) if name == "grown" else (0, 2)))
        lines = Kept(tmp_path / name, kept.paths).lines
    elif name != "cut":
        lines.append(replace(last, **{name: 400 if name == "http_status" else "changed"}).to_line())
    assert kept.audit(*lines).exit_code == 0
    assert kept.audit(*lines, head=kept.head).exit_code == 4
    assert kept.audit(head=kept.head).exit_code == 4


RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def ten_seconds() -> Iterator[None]:
    """Fail a test that hangs."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it hangs")  # not a TimeoutError, which is an OSError and would be handled as one

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(path.parent)  # the address of a socket is short
        listening.bind(path.name)
        os.chdir(before)


def make_link_to_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "socket": make_socket,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a FIFO": make_link_to_fifo,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
}


@pytest.mark.usefixtures("ten_seconds")
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_records_that_are_not_a_regular_file_cannot_be_read(make, tmp_path, paths):
    make(tmp_path / "records.jsonl")
    with refused(ArchiveError, "archive.unreadable"):
        list(audit_archive(tmp_path, paths=paths))
    result = audit_of(tmp_path, paths)
    assert (result.exit_code, result.by_code["archive.unreadable"]) == (5, 1)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda der: der[:-1] + bytes([der[-1] ^ 1]),
    "cut": lambda der: der[:-1],
    "empty": lambda der: b"",
    "doubled": lambda der: der + der,
}


@pytest.mark.usefixtures("ten_seconds")
@pytest.mark.parametrize("name", [*HOSTILE, "a terabyte of zeros", *DAMAGE])
def test_a_certificate_that_is_not_the_one_stored_leaves_its_records_unproved(name, filled, pki, paths):
    file = filled / "certs" / f"{pki.qseal.certificate.sha256}.der"
    file.unlink()
    if name in DAMAGE:
        file.write_bytes(DAMAGE[name](pki.qseal.certificate.der))
    else:
        HOSTILE.get(name, make_sparse)(file)
    summary = audit_of(filled, paths)
    code = {"a terabyte of zeros": "file.too-large"}.get(
        name, "record.certificate" if name in DAMAGE else "file.unreadable"
    )
    assert (summary.exit_code, summary.by_code[code], summary.by_code["archive.damaged-file"]) == (3, 3, 1)
    with pytest.raises(FormatError):
        load_certificate(filled, pki.qseal.certificate.sha256)


@pytest.mark.usefixtures("ten_seconds")
def test_a_terabyte_of_zeros_behind_the_records_ends_the_audit(filled, paths):
    with (filled / "records.jsonl").open("r+b") as file:
        file.truncate(1 << 40)
    rows = audit_archive(filled, paths=paths)
    assert [row.verdict for row in islice(rows, 3)] == [Verdict.PASSED] * 3
    with refused(ArchiveError, "archive.unreadable", match=f"line 4 is longer than {MAX_LINE_BYTES} bytes"):
        next(rows)


@pytest.mark.parametrize(
    ("seconds", "back", "exit_code"),
    [
        ([0, 0, 1], [None, None, None], 0),
        ([1, 0, 2], [None, "notice", None], 0),
        ([600, 300, 900], [None, "notice", None], 0),
        ([601, 300, 900], [None, "error", None], 4),
        ([86_400, 0, 1, 2], [None, "error", None, None], 4),  # one clock that jumped is one finding
        ([600, 400, 200], [None, "notice", "error"], 4),  # small steps add up
    ],
    ids=str,
)
def test_a_time_of_receipt_that_goes_back_is_reported(
    seconds: list[int], back: list[str | None], exit_code: int, tmp_path: Path, pki: Pki, paths: PathVerifier,
    make_verified: Callable[..., VerifiedRequest],
) -> None:  # fmt: skip
    verified = make_verified(0)
    record = make_record(verified)
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        for second in seconds:
            received = replace(record, received_at=RECEIVED + timedelta(seconds=second))
            archive.append(received, *verified.chain, pki.qwac.certificate)
    rows, summary = list(audit_archive(tmp_path, paths=paths)), audit_of(tmp_path, paths)
    assert [row.verdict for row in rows] == [Verdict.PASSED] * len(rows)
    seen = ["error" if row.place else row.findings[0].severity if row.findings else None for row in rows]
    assert seen == back
    assert (summary.exit_code, summary.by_code["log.time-back"]) == (exit_code, len(back) - back.count(None))
    assert all(finding.severity is Severity.NOTICE for row in rows for finding in row.findings)


def test_how_far_a_time_of_receipt_goes_back_is_reported(tmp_path, append, paths):
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        append(archive, 7200, 0)
    _, row = audit_archive(tmp_path, paths=paths)
    assert row.place
    assert row.place.message == (
        "received at 2026-06-01T12:00:00Z, 2:00:00 before an earlier record (2026-06-01T14:00:00Z)"
    )
