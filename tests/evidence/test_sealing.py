"""Sealed parts: what they contain, what an audit finds in damaged ones, and that sealing hides no damage."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest

from refusals import refused
from tppkit.errors import ArchiveError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_record
from tppkit.evidence.log import check_log
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.segments import State, list_segments

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NEXT_DAY = RECEIVED + timedelta(days=1)
PLAN = AuditPlan(now=NEXT_DAY)
STREAM = "5a" * 16


def test_a_sealed_archive_has_the_records_and_the_head_that_it_had(sealed, paths):
    folder, head = sealed
    assert [one.state for one in list_segments(folder)] == [State.SEALED, State.SEALED, State.OPEN]
    assert sorted(path.name for path in folder.iterdir()) == ["certs", "records.jsonl", "segments"]
    result = audit_archives([folder], PLAN, heads=[head], material=paths)
    assert (result.exit_code, result.records, result.heads[0].root) == (0, 7, head.root)
    assert check_log(folder, now=NEXT_DAY).head == head


def test_sealing_again_changes_nothing(sealed):
    folder, _ = sealed
    before = {path.name: path.read_bytes() for path in (folder / "segments").iterdir()}
    assert list(seal_archive(folder)) == []
    assert {path.name: path.read_bytes() for path in (folder / "segments").iterdir()} == before


def test_a_writer_goes_on_behind_sealed_parts(sealed, paths, append):
    folder, _ = sealed
    (folder / "records.jsonl").unlink()
    with EvidenceArchive(folder, stream_id="c3" * 16) as archive:
        append(archive, 6, 7)
    result = audit_archives([folder], PLAN, material=paths)
    assert (result.exit_code, result.records, result.heads[0].stream_id) == (0, 8, STREAM)
    (folder / "records.jsonl").unlink()
    (folder / "segments/2026-06-000000000003.json").write_bytes(b"{}")
    with refused(ArchiveError, "archive.damaged"):
        EvidenceArchive(folder, stream_id=STREAM)


def test_a_part_that_does_not_check_is_not_sealed(tmp_path, append, paths, caplog):
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        for numbers in ((0, 1), (2, 3)):
            append(archive, *numbers)
            archive.rotate(now=NEXT_DAY)
    first = tmp_path / "records-000000000000.jsonl"
    first.write_bytes(first.read_bytes().replace(b'"http_status":201', b'"http_status":202', 1))
    assert list(seal_archive(tmp_path)) == []
    assert "line 1: the record was changed after it was written" in caplog.text
    result = audit_archives([tmp_path], PLAN, material=paths)
    assert (result.exit_code, result.by_code["record.leaf"]) == (4, 1)


@pytest.mark.slow
def test_a_part_of_large_bodies_is_sealed_in_bounded_memory(tmp_path, make_verified):
    record = make_record(make_verified(0, body=bytes(5_000_000)), http_status=201)
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        for _ in range(30):
            archive.append_many([record], check=False)
        archive.rotate(now=NEXT_DAY)
    tracemalloc.start()
    try:
        assert [one.records for one in seal_archive(tmp_path)] == [30]
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()


def test_a_damaged_part_leaves_the_others_proven(sealed, paths):
    folder, head = sealed
    file = folder / "segments/2026-06-000000000000.parquet"
    file.write_bytes(b"PAR1" + file.read_bytes()[4:-4][::-1] + b"PAR1")
    result = audit_archives([folder], PLAN, heads=[head], material=paths)
    assert (result.exit_code, dict(result.by_code), result.records) == (5, {"archive.unreadable": 1}, 4)
    assert result.heads[0].root == head.root


def test_a_forged_part_before_a_damaged_one_does_not_pass(sealed, paths, tmp_path, append):
    folder, head = sealed
    with EvidenceArchive(
        tmp_path / "forged", stream_id=STREAM
    ) as archive:  # the provider's true seals, in another order
        append(archive, 2, 1, 0)
        archive.rotate(now=NEXT_DAY)
    list(seal_archive(tmp_path / "forged"))
    for path in (tmp_path / "forged/segments").iterdir():
        shutil.copy(path, folder / "segments")
    file = folder / "segments/2026-06-000000000003.parquet"
    file.write_bytes(b"")
    result = audit_archives([folder], PLAN, heads=[head], material=paths)
    codes = [finding.code for finding in result.findings]
    assert (result.exit_code, result.heads[0].root) == (5, None)
    assert "log.head" in codes
    assert codes.count("log.manifest") == 1  # the first that does not follow on


@pytest.mark.parametrize("change", ["absent", "cut", "another count", "not JSON", "link"])
def test_a_manifest_that_is_not_the_archives_is_reported(change, sealed, paths):
    folder, head = sealed
    path = folder / "segments/2026-06-000000000003.json"
    raw = path.read_bytes()
    path.unlink()
    if change == "cut":
        path.write_bytes(raw[:-20])
    elif change == "another count":
        path.write_bytes(
            json.dumps(json.loads(raw) | {"records": 2}, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        )
    elif change == "not JSON":
        path.write_bytes(b"\xff" * 100)
    elif change == "link":
        path.symlink_to("/dev/zero")
    assert audit_archives([folder], PLAN, material=paths).exit_code in (4, 5)
    assert audit_archives([folder], PLAN, heads=[head], material=paths).exit_code in (4, 5)


def test_choosing_records_accuses_no_sealed_part(sealed, paths):
    folder, _ = sealed
    for records, chosen in (
        (2, {"received_from": RECEIVED + timedelta(seconds=1), "received_to": RECEIVED + timedelta(seconds=3)}),
        (0, {"received_from": NEXT_DAY}),
        (0, {"selected": ("PSDXX-NO-1",)}),
        (7, {"selected": ("PSDLT-BL-LB000000",)}),
    ):
        result = audit_archives([folder], AuditPlan(now=NEXT_DAY, **chosen), material=paths)
        assert (result.records, result.findings, result.exit_code) == (records, (), 0 if records else 3), chosen


def test_a_part_whose_manifest_was_deleted_is_still_verified(sealed, paths):
    folder, head = sealed
    next((folder / "segments").glob("*-000000000003.json")).unlink()
    result = audit_archives([folder], PLAN, heads=[head], material=paths)
    assert (result.exit_code, result.records) == (4, 7)
    assert [finding.code for finding in result.findings] == ["log.manifest"]


def test_a_part_with_a_hole_of_terabytes_is_unreadable_at_once(sealed, paths):
    folder, _ = sealed
    part = next((folder / "segments").glob("*-000000000000.parquet"))
    os.truncate(part, 1 << 42)
    result = audit_archives([folder], PLAN, material=paths)
    assert (result.exit_code, result.records, len(result.unreadable)) == (5, 4, 1)
