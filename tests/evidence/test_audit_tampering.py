"""The stream as a whole: removed, repeated, moved and changed records are detected; the limits are tested too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from audits import audit_of

from tppkit.evidence import AuditSummary, EvidenceArchive, EvidenceRecord, Verdict, audit_archive
from tppkit.evidence.audit import Head
from tppkit.trust import PathVerifier

STREAM = "5a" * 16


class Kept:
    """An archive whose lines can be rearranged, and its audit."""

    def __init__(self, folder: Path, paths: PathVerifier) -> None:
        self.folder = folder
        self.paths = paths
        self.lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
        self.head = EvidenceRecord.from_line(self.lines[-1]).leaf

    def audit(self, *lines: bytes, head: str | None = None) -> AuditSummary:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        return audit_of(self.folder, self.paths, *([head] if head else []))

    def stream_codes(self, *lines: bytes) -> list[str | None]:
        (self.folder / "records.jsonl").write_bytes(b"".join(lines))
        return [row.stream_code for row in audit_archive(self.folder, paths=self.paths)]


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
    assert (summary.exit_code, summary.heads[kept.folder]) == (4, Head(STREAM, 3, kept.head))


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
    gaps = [row for row in kept.audit(*lines).first_failures if row.stream_code == "log.gap"]
    assert [row.stream_message for row in gaps] == [message]


def test_a_record_of_another_stream_or_place_is_detected(kept):
    foreign = replace(EvidenceRecord.from_line(kept.lines[1]), stream_id="c3" * 16)
    assert kept.stream_codes(kept.lines[0], foreign.to_line()) == [None, "log.other-stream"]
    assert kept.stream_codes(*kept.lines, foreign.to_line()) == [None, None, None, "log.other-stream"]
    assert kept.audit(*kept.lines, foreign.to_line()).heads[kept.folder].leaf == kept.head
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
    assert (summary.exit_code, summary.inconsistent, summary.by_code) == (4, 1, {"record.leaf": 1})
    end = EvidenceRecord.from_line(lines[1 if place == 2 else 2])
    assert summary.heads[kept.folder] == Head(STREAM, end.seq + 1, end.leaf)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("inserted", [[b"\n"], [b"{}\n", b"\xff\n"]], ids=str)
def test_inserted_unreadable_lines_do_not_change_the_places_of_records(inserted, place, kept):
    summary = kept.audit(*kept.lines[:place], *inserted, *kept.lines[place:])
    assert (summary.exit_code, summary.inconsistent, summary.verdicts[Verdict.PASSED]) == (5, 0, 3)
    assert summary.heads[kept.folder] == Head(STREAM, 3, kept.head)


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
