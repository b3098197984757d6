"""The stream as a whole: records removed, repeated, moved or changed by a byte are seen; what is not seen is written here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tppkit.errors import FormatError
from tppkit.evidence import AuditSummary, EvidenceArchive, EvidenceRecord, audit_archive, make_record
from tppkit.seals import VerifiedRequest
from tppkit.trust import PathVerifier

STREAM = "5a" * 16


class Kept:
    """An archive whose lines can be rearranged, and what the audit then says."""

    def __init__(self, folder: Path, paths: PathVerifier) -> None:
        self.folder = folder
        self.paths = paths
        self.lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)

    def audit(self, *lines: bytes) -> AuditSummary:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        counted = AuditSummary()
        for row in audit_archive(self.folder, paths=self.paths):
            counted.add(row)
        return counted

    def stream_codes(self, *lines: bytes) -> list[str | None]:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        return [row.stream_code for row in audit_archive(self.folder, paths=self.paths)]


@pytest.fixture
def kept(filled: Path, paths: PathVerifier) -> Kept:
    return Kept(filled, paths)


def parsed(lines: list[bytes]) -> list[EvidenceRecord] | None:
    try:
        return [EvidenceRecord.from_line(line) for line in lines]
    except FormatError:
        return None


def test_no_flipped_byte_of_a_record_with_one_behind_it_passes(kept: Kept) -> None:
    records = parsed(kept.lines)
    first, middle, last = kept.lines
    for number, line, step in ((0, first, 11), (1, middle, 4)):
        for position in range(0, len(line), step):
            flipped = bytearray(line)
            flipped[position] ^= 1 << (position % 8)
            lines = [*kept.lines[:number], bytes(flipped), *kept.lines[number + 1 :]]
            assert parsed(b"".join(lines).splitlines(keepends=True)) != records
            assert kept.audit(*lines).exit_code != 0, f"line {number + 1}, byte {position}"
    assert kept.audit(first, middle, last).exit_code == 0


def test_no_flipped_byte_of_the_last_record_makes_the_audit_fall_over(kept: Kept) -> None:
    *before, last = kept.lines
    codes = set()
    for position in range(0, len(last), 5):
        flipped = bytearray(last)
        flipped[position] ^= 0x80 >> (position % 8)
        codes.add(kept.audit(*before, bytes(flipped)).exit_code)
    assert codes == {0, 1, 3, 4, 5}  # 0: see the columns that nobody signed, below


@pytest.mark.parametrize(
    ("order", "codes"),
    [
        ([0, 2], [None, "log.gap"]),
        ([1, 2], ["log.gap", None]),
        ([0, 1, 1, 2], [None, None, "log.repeated", None]),
        ([0, 0, 1, 2], [None, "log.repeated", None, None]),
        ([0, 2, 1], [None, "log.gap", "log.repeated"]),
        ([2, 1, 0], ["log.gap", "log.repeated", "log.repeated"]),
    ],
    ids=str,
)
def test_records_that_are_missing_repeated_or_moved_are_seen(
    order: list[int], codes: list[str | None], kept: Kept
) -> None:
    lines = [kept.lines[number] for number in order]
    assert kept.stream_codes(*lines) == codes
    assert kept.audit(*lines).exit_code == 4


def test_a_record_of_another_stream_is_seen(kept: Kept) -> None:
    foreign = replace(EvidenceRecord.from_line(kept.lines[1]), stream_id="c3" * 16)
    assert kept.stream_codes(kept.lines[0], foreign.to_line()) == [None, "log.other-stream"]


def test_a_record_in_place_of_another_is_seen(kept: Kept) -> None:
    replaced = replace(
        EvidenceRecord.from_line(kept.lines[2]), seq=1, previous=EvidenceRecord.from_line(kept.lines[0]).leaf
    )
    assert kept.stream_codes(kept.lines[0], replaced.to_line(), kept.lines[2]) == [None, None, "log.chain-broken"]


def test_a_chain_that_does_not_begin_at_the_beginning_is_seen(kept: Kept) -> None:
    begun = replace(EvidenceRecord.from_line(kept.lines[1]), seq=0)
    assert kept.stream_codes(begun.to_line()) == ["log.chain-broken"]


def test_a_line_that_nobody_can_read_hides_no_gap(kept: Kept) -> None:
    assert kept.stream_codes(kept.lines[0], b"{}\n", kept.lines[2]) == [None, None, None]
    assert kept.stream_codes(b"{}\n", kept.lines[2]) == [None, "log.gap"]
    assert kept.audit(kept.lines[0], b"{}\n", kept.lines[2]).exit_code == 5


@pytest.mark.parametrize(
    "column", ["http_status", "payment_ref", "error_code", "clock_source", "session_id", "software", "chain"]
)
def test_a_changed_column_that_nobody_signed_breaks_the_chain(column: str, kept: Kept) -> None:
    record = EvidenceRecord.from_line(kept.lines[1])
    value = {"http_status": 400, "chain": ()}.get(column, "changed")
    assert (
        kept.stream_codes(kept.lines[0], replace(record, **{column: value}).to_line(), kept.lines[2])[2]
        == "log.chain-broken"
    )


# What the chain alone cannot show (reference: a linear hash chain without signed checkpoints). Whoever needs it compares
# the count and the last leaf with another copy.


def test_records_that_are_missing_at_the_end_are_not_seen(kept: Kept) -> None:
    assert kept.audit(*kept.lines[:2]).exit_code == 0
    assert kept.audit().exit_code == 0


@pytest.mark.parametrize("column", ["http_status", "payment_ref", "clock_source"])
def test_a_changed_column_that_nobody_signed_is_not_seen_in_the_last_record(column: str, kept: Kept) -> None:
    record = replace(EvidenceRecord.from_line(kept.lines[2]), **{column: 400 if column == "http_status" else "changed"})
    assert kept.audit(*kept.lines[:2], record.to_line()).exit_code == 0


def test_a_whole_stream_that_was_written_anew_is_not_seen(
    kept: Kept, tmp_path: Path, make_verified: Callable[..., VerifiedRequest]
) -> None:
    with EvidenceArchive(tmp_path / "anew", stream_id=STREAM) as archive:
        for number in (0, 2):
            verified = make_verified(number)
            archive.append(make_record(verified), *verified.chain, *([verified.qwac] if verified.qwac else []))
    counted = AuditSummary()
    for row in audit_archive(tmp_path / "anew", paths=kept.paths):
        counted.add(row)
    assert (counted.records, counted.exit_code) == (2, 0)
