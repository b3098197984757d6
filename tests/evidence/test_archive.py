"""The archive: one stream without gaps, one writer, no dropped record; every line is read in bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from audits import audit_of

from refusals import refused
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.evidence import EvidenceArchive, EvidenceRecord, audit_archive, make_record
from tppkit.evidence.archive import read_lines
from tppkit.evidence.columns import MAX_LINE_BYTES
from tppkit.evidence.files import load_certificate
from tppkit.evidence.record import FIRST_PREVIOUS
from tppkit.seals import VerifiedRequest

STREAM = "5a" * 16
OTHER_STREAM = "c3" * 16


def records(folder: Path) -> list[EvidenceRecord]:
    return [EvidenceRecord.from_line(line) for _, line in read_lines(folder)]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_stream_continues_and_keeps_its_certificates_and_mode_when_the_archive_is_opened_again(filled, append):
    (filled / "records.jsonl").chmod(0o640)
    before = {path.name: path.stat().st_mtime_ns for path in (filled / "certs").iterdir()}
    for number in (3, 4):
        with EvidenceArchive(filled, stream_id=OTHER_STREAM) as archive:
            append(archive, number)
    kept = records(filled)
    assert [record.seq for record in kept] == [0, 1, 2, 3, 4]
    assert [record.previous for record in kept[1:]] == [record.leaf for record in kept[:-1]]
    assert {record.stream_id for record in kept} == {STREAM}
    assert {path.name: path.stat().st_mtime_ns for path in (filled / "certs").iterdir()} == before
    assert mode(filled / "records.jsonl") == 0o640


@pytest.mark.parametrize("stream", ["new-bank", "", "5A" * 16, STREAM + "\n"])
def test_a_stream_id_whose_records_could_not_be_read_is_refused_before_anything_is_written(tmp_path, stream):
    with refused(ConfigurationError, "archive.stream-id", match="32 lower-case hexadecimal digits"):
        EvidenceArchive(tmp_path / "archive", stream_id=stream)
    assert not list(tmp_path.iterdir())


def test_a_batch_is_placed_as_its_records_one_by_one(tmp_path, make_verified):
    unplaced = [make_record(make_verified(number), http_status=201) for number in range(3)]
    with EvidenceArchive(tmp_path / "single", stream_id=STREAM) as archive:
        single = [archive.append(record) for record in unplaced]
    with EvidenceArchive(tmp_path / "batch", stream_id=STREAM) as archive:
        assert archive.append_many(unplaced) == tuple(single)
        assert archive.append_many([]) == ()
        assert list(archive.newest(9)) == single[::-1]
        assert list(archive.newest(2)) == single[:0:-1]
    assert (tmp_path / "batch/records.jsonl").read_bytes() == (tmp_path / "single/records.jsonl").read_bytes()


@pytest.mark.parametrize(("umask", "expected"), [(0, 0o755), (0o077, 0o700)])
def test_folders_are_for_their_owner_to_change_and_as_the_umask_says(tmp_path, umask, expected):
    before = os.umask(umask)
    try:
        with EvidenceArchive(tmp_path / "archive", stream_id=STREAM):
            pass
    finally:
        os.umask(before)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {mode(path) for path in folders} == {expected}


@pytest.mark.parametrize("folder", ["file", "file/archive"])
def test_an_archive_whose_path_is_a_file_cannot_be_used(folder, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with refused(ArchiveError, "archive.unusable"):
        EvidenceArchive(tmp_path / folder, stream_id=STREAM)


def test_a_second_writer_in_this_or_another_process_is_refused(filled):
    script = (
        "import sys, pathlib\nfrom tppkit.errors import ArchiveError\nfrom tppkit.evidence import EvidenceArchive\n"
        "try: EvidenceArchive(pathlib.Path(sys.argv[1]), stream_id='5a' * 16)\nexcept ArchiveError as e: print(e.code)"
    )
    with EvidenceArchive(filled, stream_id=STREAM):
        with refused(ArchiveError, "archive.locked"):
            EvidenceArchive(filled, stream_id=STREAM)
        command = [sys.executable, "-c", script, str(filled)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "archive.locked\n"


def test_a_closed_archive_keeps_nothing(tmp_path, make_verified):
    record = make_record(make_verified(0))
    closed = EvidenceArchive(tmp_path, stream_id=STREAM)
    closed.close()
    with refused(ArchiveError, "archive.unusable"):
        closed.append(record)
    assert records(tmp_path) == []


@pytest.mark.parametrize(("whole", "kept"), [(3, [0, 1, 2, 3]), (0, [0])], ids=["a later line", "the first line"])
def test_a_line_that_a_crash_cut_off_is_set_aside(whole, kept, filled, append):
    lines = (filled / "records.jsonl").read_bytes().splitlines(keepends=True)
    before, torn = b"".join(lines[:whole]), lines[0][:999]
    (filled / "records.jsonl").write_bytes(before + torn)
    with EvidenceArchive(filled, stream_id=STREAM) as archive:
        append(archive, 3)
    assert (filled / "records.torn-1").read_bytes() == torn
    assert (filled / "records.jsonl").read_bytes().startswith(before)
    assert [record.seq for record in records(filled)] == kept


def test_an_earlier_file_of_a_partial_line_is_never_overwritten(filled):
    (filled / "records.torn-2").write_bytes(b"earlier")  # and an operator took torn-1 away
    with (filled / "records.jsonl").open("ab") as file:
        file.write(b"later")
    EvidenceArchive(filled, stream_id=STREAM).close()
    assert (filled / "records.torn-2").read_bytes() == b"earlier"
    assert b"later" in {path.read_bytes() for path in filled.glob("records.torn-*")}


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"\0" * 4096 + b"\n", b"x" * 9_000_000 + b"\n"], ids=len)
def test_an_archive_with_a_damaged_last_line_is_rejected_and_unchanged(line, filled):
    with (filled / "records.jsonl").open("ab") as file:
        file.write(line)
    before = {path.name: path.read_bytes() for path in filled.iterdir() if path.is_file()}
    with refused(ArchiveError, "archive.damaged"):
        EvidenceArchive(filled, stream_id=STREAM)
    assert {path.name: path.read_bytes() for path in filled.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "change",
    [{"body": bytes(7_000_000)}, {"extra": {"share": 0.5}}, {"seal_cert": "not hexadecimal"}, {"http_status": -1}],
    ids=lambda change: next(iter(change)),
)
def test_a_record_that_cannot_be_parsed_again_is_rejected_with_its_batch(change, filled, make_verified, append):
    good = make_record(make_verified(3))
    bad = replace(good, **change)
    with EvidenceArchive(filled, stream_id=STREAM) as archive:
        for attempt in (lambda: archive.append(bad), lambda: archive.append_many([good, bad])):
            with pytest.raises(FormatError):
                attempt()
        append(archive, 3)
    assert [record.seq for record in records(filled)] == [0, 1, 2, 3]


def test_every_certificate_is_kept_once_also_behind_the_rest_of_a_crash(filled, pki, other_qseal, make_verified):
    named = {pki.qseal.certificate, pki.qseal_ca.certificate, pki.root.certificate, pki.qwac.certificate}
    kept = {path.name: path.read_bytes() for path in (filled / "certs").iterdir()}
    assert kept == {f"{certificate.sha256}.der": certificate.der for certificate in named}
    certificate = other_qseal.certificate
    (filled / "certs" / f"{certificate.sha256}.{os.getpid()}.part").write_bytes(certificate.der[:10])
    with EvidenceArchive(filled, stream_id=STREAM) as archive:
        archive.append(make_record(make_verified(3)), certificate)
    assert load_certificate(filled, certificate.sha256) == certificate


def test_records_are_readable_by_their_owner_and_certificates_by_everyone(filled):
    with (filled / "records.jsonl").open("ab") as file:
        file.write(b"torn")
    EvidenceArchive(filled, stream_id=STREAM).close()
    assert mode(filled / "records.jsonl") == 0o600
    assert mode(filled / "records.torn-1") == 0o600
    assert {mode(path) for path in (filled / "certs").iterdir()} == {0o644}


def test_a_whole_record_that_lost_only_its_line_end_is_kept(filled, append):
    (filled / "records.jsonl").write_bytes((filled / "records.jsonl").read_bytes()[:-1])
    with EvidenceArchive(filled, stream_id=STREAM) as archive:
        append(archive, 3)
    assert [record.seq for record in records(filled)] == [0, 1, 2, 3]


def test_threads_share_an_archive_without_gap_or_repetition(tmp_path, make_verified, paths):
    verified = make_verified(0)
    record, kept = make_record(verified), (*verified.chain, verified.qwac)
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive, ThreadPoolExecutor(6) as pool:
        placed = list(pool.map(lambda _: archive.append(record, *kept), range(120)))
    assert sorted(one.seq for one in placed) == list(range(120))
    summary = audit_of(tmp_path, paths)
    assert (summary.records, summary.exit_code) == (120, 0)


def with_lines(folder: Path, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "records.jsonl").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def long_archive(tmp_path_factory: pytest.TempPathFactory, make_verified: Callable[..., VerifiedRequest]) -> Path:
    """Three thousand records, placed as the writer places them."""
    folder = tmp_path_factory.mktemp("long")
    record, previous = make_record(make_verified(0, body=b"x" * 1500)), FIRST_PREVIOUS
    with (folder / "records.jsonl").open("wb") as file:
        for seq in range(3000):
            placed = record.placed(stream_id=STREAM, seq=seq, previous=previous)
            previous = placed.leaf
            file.write(placed.to_line())
    return folder


def peak(read: Callable[[], object]) -> int:
    """The lower of two peaks: what a first use loads, and what another thread takes meanwhile, is in one only."""
    return min(_peak(read), _peak(read))


def _peak(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [MAX_LINE_BYTES + 1, 200 * 1024 * 1024])
def test_a_line_over_the_limit_ends_the_reading_in_bounded_memory(length, tmp_path):
    with (tmp_path / "records.jsonl").open("wb") as file:
        file.truncate(length)  # zeros, no line feed, and no disk space

    def read() -> None:
        with refused(ArchiveError, "archive.unreadable"):
            list(read_lines(tmp_path))

    assert peak(read) < 50_000_000


def test_reading_does_not_fill_the_memory(long_archive):
    assert (long_archive / "records.jsonl").stat().st_size > 10_000_000
    assert peak(lambda: sum(len(line) for _, line in read_lines(long_archive))) < 500_000


@pytest.mark.slow
def test_auditing_does_not_fill_the_memory(long_archive, paths):
    # The certificates are not at hand, so every record is indeterminate: what is measured is the reading.
    rows = audit_archive(long_archive, paths=paths)
    assert peak(lambda: sum(row.place is None for row in rows)) < 2_000_000


def test_what_is_not_an_archive_cannot_be_read(tmp_path):
    with refused(ArchiveError, "archive.unreadable"):
        list(read_lines(tmp_path / "nowhere"))
    (tmp_path / "certs").mkdir()
    with pytest.raises(ArchiveError) as caught:
        list(read_lines(tmp_path))
    assert (caught.value.code, str(tmp_path / "records.jsonl") in caught.value.message) == ("archive.unreadable", True)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [(1, b"a"), (2, b"b")]),
        (b"a\n\nb\n", [(1, b"a"), (2, b""), (3, b"b")]),
        (b"a\r\nb\n", [(1, b"a\r"), (2, b"b")]),
        (b"a\ncut off", [(1, b"a"), (2, b"cut off")]),
    ],
)
def test_every_line_up_to_the_limit_is_given_with_its_number_and_an_empty_folder_has_none(tmp_path, data, lines):
    assert list(read_lines(tmp_path)) == []
    assert list(read_lines(with_lines(tmp_path, data))) == lines
    folder = with_lines(tmp_path, b"a\n" + b"x" * MAX_LINE_BYTES + b"\nb\n")
    assert [(number, len(line)) for number, line in read_lines(folder)] == [(1, 1), (2, MAX_LINE_BYTES), (3, 1)]


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, "file.unreadable"), (b"", "record.certificate"), (b"\x30\x00", "record.certificate"), (b"x" * 70_000, "file.too-large")],
    ids=["absent", "empty", "another", "too large"],
)  # fmt: skip
def test_a_certificate_that_is_not_the_one_named_is_refused(content, code, filled, pki):
    path = filled / "certs" / f"{pki.qwac.certificate.sha256}.der"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with refused(FormatError, code):
        load_certificate(filled, pki.qwac.certificate.sha256)
