"""Redaction, pruning and holds: receipts, what stays proven, and what a crash in between leaves."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from refusals import refused
from tppkit.errors import ArchiveError, ConfigurationError, FormatError
from tppkit.evidence import AuditPlan, audit_archives
from tppkit.evidence.exhibit import examine, write_bundle
from tppkit.evidence.lookup import find_record
from tppkit.evidence.operations import OPERATIONS, missing_in, read_operations
from tppkit.evidence.retention import hold, prune, redact, release
from tppkit.evidence.sealing import seal_archive

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NOW = RECEIVED + timedelta(days=1)
LATER = NOW + timedelta(days=40)
PLAN = AuditPlan(now=NOW)
BY = {"ground": "erasure request 7", "by": "Ada", "now": NOW}
PART = "segments/2026-06-000000000000.parquet"


def audited(folder, head, paths):
    result = audit_archives([folder], PLAN, heads=[head], material=paths)
    return result.exit_code, dict(result.by_code), result


def test_a_redacted_body_is_gone_and_the_rest_stays_proven(sealed, paths, tmp_path):
    folder, head = sealed
    assert redact(folder, [1, 2], **BY) == (PART,)
    code, codes, result = audited(folder, head, paths)
    assert (code, codes) == (3, {"record.body-redacted": 2})
    (receipt,) = result.operations
    assert (receipt["operation"], receipt["by"], receipt["records"]) == ("redact", "Ada", [[1, 2]])
    assert b'{"payment":1}' not in (folder / PART).read_bytes()
    assert redact(folder, [2, 1], **BY) == ()  # again: nothing is left to do, and no receipt is added
    assert len(read_operations(folder)) == 1
    exhibit = examine(find_record(folder, "1"), paths=paths)
    assert [step.state for step in exhibit.steps][:5] == ["holds", "not checked", "holds", "holds", "holds"]
    assert "body.bin" not in write_bundle(exhibit, tmp_path / "bundle", paths=paths)


def test_a_pruned_part_is_gone_and_its_manifest_proves_the_others(sealed, paths):
    folder, head = sealed
    assert prune(folder, before=RECEIVED, **BY) == ()
    for month in ("2026-04", "2026-06"):
        (folder / "answers" / month).mkdir(parents=True)
    removed = prune(folder, before=RECEIVED + timedelta(seconds=3), **BY)
    assert removed == (PART, "answers/2026-04")
    code, codes, result = audited(folder, head, paths)
    assert (code, codes, result.records, result.heads[0].root) == (0, {}, 4, head.root)
    assert [one["records"] for one in read_operations(folder)] == [[[0, 2]]]
    with refused(ArchiveError, "record.unsealed"):
        redact(folder, [1], **BY)


def test_what_is_gone_without_a_receipt_is_reported(sealed, paths):
    folder, head = sealed
    redact(folder, [4], **BY)
    (folder / OPERATIONS).unlink()
    assert audited(folder, head, paths)[1] == {"record.body-redacted": 1, "log.redaction": 1}
    with refused(FormatError, "log.segment-changed"):  # which a new manifest would hide
        redact(folder, [5], **BY)
    (folder / PART).unlink()
    assert audited(folder, head, paths)[:2] == (4, {"record.body-redacted": 1, "log.redaction": 2})


def test_a_hold_refuses_both_until_it_is_released(sealed):
    folder, _ = sealed
    court = BY | {"ground": "case 12"}
    hold(folder, **court)
    hold(folder, **BY)
    release(folder, **BY)
    for action in (lambda: redact(folder, [0], **BY), lambda: prune(folder, before=NOW, **BY)):
        with refused(ArchiveError, "archive.held"):
            action()
    with refused(ArchiveError, "archive.held"):
        release(folder, **BY)
    release(folder, **court)
    assert redact(folder, [0], **BY) == (PART,)
    assert [one["operation"] for one in read_operations(folder)] == ["hold", "hold", "release", "release", "redact"]


def test_what_is_not_sealed_or_wrong_is_refused_and_changes_nothing(sealed):
    folder, _ = sealed
    before = (folder / PART).read_bytes()
    for seqs in ([0, 6], [7], [2**70]):
        with refused(ArchiveError, "record.unsealed"):
            redact(folder, seqs, **BY)
    with refused(ConfigurationError, "operations.text"):
        redact(folder, [0], ground=" ", by="Ada", now=NOW)
    with refused(ConfigurationError, "operations.future"):
        prune(folder, before=LATER, **BY)
    for no_archive in (folder / "certs", folder.parent / "empty"):  # a hold there would hold nothing
        no_archive.mkdir(exist_ok=True)
        with refused(ArchiveError, "archive.unreadable"):
            hold(no_archive, **BY)
    assert (folder / PART).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["certs", "records.jsonl", "segments"]


def test_changed_receipts_are_reported(sealed, paths):
    folder, head = sealed
    redact(folder, [0], **BY)
    redact(folder, [5], **BY)
    path = folder / OPERATIONS
    first, second = path.read_bytes().splitlines(keepends=True)
    for raw in (
        second, first + second.replace(b"Ada", b"Bob"), first + second[:-2], first + second + b"\xff\n", first + b"[]\n",
        first + second + json.dumps(json.loads(second) | {"records": [[0]]}).encode() + b"\n",
    ):  # fmt: skip
        path.write_bytes(raw)
        assert audited(folder, head, paths)[1]["operations.malformed"] == 1
        with refused(FormatError, "operations.malformed"):
            redact(folder, [1], **BY)


def test_files_that_no_archive_has_are_reported(sealed, paths):
    folder, head = sealed
    (folder / "segments/2026-06-000000000000.part").write_bytes(b"of a crash")
    (folder / "certs/readme").symlink_to("/dev/zero")
    (folder / "lists").mkdir()
    (folder / f"lists/{'0' * 64}.xml").write_bytes(b"")
    code, codes, _ = audited(folder, head, paths)
    assert (code, codes) == (3, {"archive.unknown-file": 1, "archive.damaged-file": 1})
    list(seal_archive(folder))
    assert not (folder / "segments/2026-06-000000000000.part").exists()


def test_ranges_that_are_missing():
    known = [(2, 3), (6, 8)]
    assert [*missing_in(known, [(0, 9)])] == [(0, 1), (4, 5), (9, 9)]
    assert [*missing_in(known, [(2, 3), (7, 7)])] == []
    assert [*missing_in([], [(1, 2)])] == [(1, 2)]
