"""A hostile archive: special files, damaged certificates, times of receipt that go back."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
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
from tppkit.evidence import EvidenceArchive, Verdict, audit_archive, make_record
from tppkit.evidence.archive import load_certificate
from tppkit.evidence.columns import MAX_LINE_BYTES
from tppkit.seals import VerifiedRequest
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier

STREAM = "5a" * 16
RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_records_that_are_not_a_regular_file_cannot_be_read(make, tmp_path, paths):
    make(tmp_path / "records.jsonl")
    with refused(ArchiveError, "archive.unreadable"):
        audit_of(tmp_path, paths)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda der: der[:-1] + bytes([der[-1] ^ 1]),
    "cut": lambda der: der[:-1],
    "empty": lambda der: b"",
    "doubled": lambda der: der + der,
}


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
    assert (summary.exit_code, summary.by_code) == (3, Counter({code: 3}))
    with pytest.raises(FormatError):
        load_certificate(filled, pki.qseal.certificate.sha256)


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
    seen = [
        "error" if row.stream_code == "log.time-back" else row.findings[0].severity if row.findings else None
        for row in rows
    ]
    assert seen == back
    assert (summary.exit_code, summary.by_code["log.time-back"]) == (exit_code, len(back) - back.count(None))
    assert all(finding.severity is Severity.NOTICE for row in rows for finding in row.findings)


def test_how_far_a_time_of_receipt_goes_back_is_reported(tmp_path, append, paths):
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        append(archive, 7200, 0)
    _, row = audit_archive(tmp_path, paths=paths)
    assert row.stream_message == (
        "received at 2026-06-01T12:00:00Z, 2:00:00 before an earlier record (2026-06-01T14:00:00Z)"
    )
