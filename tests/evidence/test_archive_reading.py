"""Reading an archive: every line, whatever its content, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from refusals import refused
from tppkit.errors import ArchiveError, FormatError
from tppkit.evidence import audit_archive, load_certificate, make_record, read_lines
from tppkit.evidence.columns import MAX_LINE_BYTES
from tppkit.evidence.record import FIRST_PREVIOUS
from tppkit.seals import VerifiedRequest
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier

STREAM = "5a" * 16


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
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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
def test_every_line_is_given_with_its_number(data: bytes, lines: list[tuple[int, bytes]], tmp_path: Path) -> None:
    assert list(read_lines(with_lines(tmp_path, data))) == lines


def test_a_line_at_the_limit_is_read(tmp_path: Path) -> None:
    folder = with_lines(tmp_path, b"a\n" + b"x" * MAX_LINE_BYTES + b"\nb\n")
    assert [(number, len(line)) for number, line in read_lines(folder)] == [(1, 1), (2, MAX_LINE_BYTES), (3, 1)]


@pytest.mark.parametrize("length", [MAX_LINE_BYTES + 1, 200 * 1024 * 1024])
def test_a_line_over_the_limit_ends_the_reading_in_bounded_memory(length: int, tmp_path: Path) -> None:
    with (tmp_path / "records.jsonl").open("wb") as file:
        file.truncate(length)  # zeros, no line feed, and no disk space

    def read() -> None:
        with refused(ArchiveError, "archive.unreadable"):
            list(read_lines(tmp_path))

    assert peak(read) < 50_000_000


def test_reading_does_not_fill_the_memory(long_archive: Path) -> None:
    assert (long_archive / "records.jsonl").stat().st_size > 10_000_000
    assert peak(lambda: sum(len(line) for _, line in read_lines(long_archive))) < 500_000


@pytest.mark.slow
def test_auditing_does_not_fill_the_memory(long_archive: Path, paths: PathVerifier) -> None:
    # The certificates are not at hand, so every record is indeterminate: what is measured is the reading.
    rows = audit_archive(long_archive, paths=paths)
    assert peak(lambda: sum(row.stream_code is None for row in rows)) < 2_000_000


def test_what_is_not_an_archive_cannot_be_read(tmp_path: Path) -> None:
    with refused(ArchiveError, "archive.unreadable"):
        list(read_lines(tmp_path / "nowhere"))
    (tmp_path / "certs").mkdir()
    with pytest.raises(ArchiveError) as caught:
        list(read_lines(tmp_path))
    assert (caught.value.code, str(tmp_path / "records.jsonl") in caught.value.message) == ("archive.unreadable", True)


def test_an_empty_folder_has_no_lines(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path)) == []


def test_a_kept_certificate_is_read_by_its_hash(filled: Path, pki: Pki) -> None:
    assert load_certificate(filled, pki.qwac.certificate.sha256) == pki.qwac.certificate


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, "file.unreadable"), (b"", "record.certificate"), (b"\x30\x00", "record.certificate"), (b"x" * 70_000, "file.too-large")],
    ids=["absent", "empty", "another", "too large"],
)  # fmt: skip
def test_a_certificate_that_is_not_the_one_named_is_refused(
    content: bytes | None, code: str, filled: Path, pki: Pki
) -> None:
    path = filled / "certs" / f"{pki.qwac.certificate.sha256}.der"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with refused(FormatError, code):
        load_certificate(filled, pki.qwac.certificate.sha256)
