"""Parts of an archive: when one is closed, what a crash in between leaves, and that an audit reads them as one log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from refusals import refused
from tppkit.errors import ArchiveError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives
from tppkit.evidence.archive import RECORDS
from tppkit.evidence.log import check_log

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NEXT_DAY = RECEIVED + timedelta(days=1)
STREAM = "5a" * 16


@pytest.fixture
def rotated(tmp_path, append):
    """An archive with the parts 0 to 1, 2 to 4, and an empty open one; it is open."""
    with EvidenceArchive(tmp_path / "archive", stream_id=STREAM) as archive:
        for numbers in ((0, 1), (2, 3, 4)):
            append(archive, *numbers)
            assert archive.rotate(now=NEXT_DAY)
        yield archive


def names(archive: EvidenceArchive) -> list[str]:
    return sorted(path.name for path in archive.folder.iterdir() if path.is_file())


def test_a_part_is_closed_when_its_day_is_over(tmp_path, append):
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        assert not archive.rotate(now=NEXT_DAY)  # an empty part stays open
        append(archive, 0)
        assert not archive.rotate(now=RECEIVED.replace(hour=23, minute=59))
        assert archive.rotate(now=NEXT_DAY.replace(hour=0))
        assert names(archive) == ["records-000000000000.jsonl", RECORDS]
        append(archive, 1)
    assert check_log(tmp_path, now=NEXT_DAY).head.records == 2


def test_parts_are_one_log(rotated, append, paths):
    append(rotated, 5)
    assert names(rotated) == ["records-000000000000.jsonl", "records-000000000002.jsonl", RECORDS]
    result = audit_archives([rotated.folder], AuditPlan(now=NEXT_DAY), material=paths)
    assert (result.exit_code, result.records, result.heads[0].records) == (0, 6, 6)
    assert result.heads[0].root == check_log(rotated.folder, now=NEXT_DAY).head.root


def test_a_writer_goes_on_behind_closed_parts(rotated, append, paths):
    rotated.close()
    (rotated.folder / RECORDS).unlink()  # as after a kill between the two steps of a rotation
    with EvidenceArchive(rotated.folder, stream_id="c3" * 16) as archive:
        assert archive.stream_id == STREAM
        append(archive, 5)
    assert audit_archives([rotated.folder], AuditPlan(now=NEXT_DAY), material=paths).exit_code == 0


def test_a_part_that_is_missing_or_damaged_is_reported(rotated, paths):
    (rotated.folder / "records-000000000000.jsonl").unlink()
    result = audit_archives([rotated.folder], AuditPlan(now=NEXT_DAY), material=paths)
    assert (result.exit_code, [finding.code for finding in result.findings]) == (4, ["log.gap"])
    assert (result.heads[0].records, result.heads[0].root) == (3, None)  # those that were read
    rotated.close()
    last = rotated.folder / "records-000000000002.jsonl"
    last.write_bytes(last.read_bytes()[:-10])
    with refused(ArchiveError, "archive.damaged"):
        EvidenceArchive(rotated.folder, stream_id=STREAM)


def test_only_one_writer_at_a_time_also_after_a_rotation(rotated):
    with refused(ArchiveError, "archive.locked"):
        EvidenceArchive(rotated.folder, stream_id=STREAM)
    rotated.close()
    EvidenceArchive(rotated.folder, stream_id=STREAM).close()


def test_a_writer_that_cannot_undo_a_write_leaves_no_lock(rotated, append):
    rotated.close()
    archive = EvidenceArchive(rotated.folder, stream_id=STREAM)
    archive._undo(-1)  # a size to which no file can be cut
    with refused(ArchiveError, "archive.unusable"):
        append(archive, 5)
    with EvidenceArchive(rotated.folder, stream_id=STREAM) as again:
        append(again, 5)
