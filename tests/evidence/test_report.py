"""The report: what a person reads first, what was not checked, and that nothing of a record becomes markup or a formula."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.evidence import AuditPlan, EvidenceArchive, EvidenceRecord, Head, audit_archives
from tppkit.evidence.log import check_log
from tppkit.evidence.runner import COLUMNS
from tppkit.testpki import certificate_pem
from tppkit.testpki.trusted_lists import make_trusted_lists

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NOW = datetime(2026, 6, 2, tzinfo=UTC)


@pytest.fixture
def report_of(filled, paths, tmp_path):
    """Writes the report of the archive with these lines; returns the page, the JSON and the rows of the table."""

    def made(*lines: bytes, **options):
        if lines:
            (filled / "records.jsonl").write_bytes(b"".join(lines))
        file = tmp_path / "report.html"
        audit_archives([filled], AuditPlan(now=NOW), report=file, material=paths, **options)
        with open(file.with_suffix(".csv"), newline="", encoding="utf-8") as table:
            return (
                file.read_text("utf-8"),
                json.loads(file.with_suffix(".json").read_text("utf-8")),
                list(csv.reader(table)),
            )

    return made


def lines_of(folder) -> list[bytes]:
    return (folder / "records.jsonl").read_bytes().splitlines(keepends=True)


def test_a_report_begins_with_the_verdict_and_names_whom_it_trusts_and_what_was_not_checked(report_of, paths):
    page, value, rows = report_of()
    assert "Every signature holds: 3 of 3 records are proven" in page
    assert page.index("Every signature holds") < page.index("<h2>1.")
    for text in (
        "no CRL or OCSP response",
        "no trusted lists",
        "no head that another party keeps",
        "Time of receipt of 3 of 3 records",
    ):
        assert text in page, text
    assert value["not_checked"] == ["revocation", "trusted_lists", "heads", "time"]
    assert {(one["kind"], one["sha256"]) for one in value["trusted"]} == {
        *(("root", one.sha256) for one in paths.anchors.roots), *(("intermediate", one.sha256) for one in paths.anchors.intermediates),
    }  # fmt: skip
    assert all(one["sha256"] in page for one in value["trusted"])
    assert (value["records"], value["passed"], rows[0], len(rows)) == (3, 3, list(COLUMNS), 4)


def test_the_first_sentence_names_damaged_files_and_missing_records(report_of, filled, tmp_path):
    lines = lines_of(filled)
    page, *_ = report_of(lines[0], lines[2])
    assert "2 of 2 records are proven; the log is inconsistent in 1 place (records are missing in 1)." in page
    (filled / "certs" / f"{'ab' * 32}.der").write_bytes(b"another content")
    page, value, _ = report_of(*lines)
    assert (value["exit_code"], value["passed"]) == (3, 3)
    assert "<p class='verdict open'>3 of 3 records are proven; 1 stored file is damaged." in page


def test_the_first_sentence_names_an_archive_without_records(filled, paths, tmp_path):
    with EvidenceArchive(tmp_path / "empty", stream_id="5b" * 16):
        pass
    page = tmp_path / "report.html"
    audit_archives([filled, tmp_path / "empty"], AuditPlan(now=NOW), report=page, material=paths)
    assert "<p class='verdict open'>3 of 3 records are proven; 1 archive has no record." in page.read_text()


def test_trusted_lists_and_public_keys_are_named(filled, pki, tmp_path):
    lists, trust, page = tmp_path / "lists", tmp_path / "trust", tmp_path / "report.html"
    (lists / "lotl-signers").mkdir(parents=True)
    (lists / "lotl-signers" / "a.pem").write_bytes(certificate_pem(pki.members["lotl-signer"].certificate))
    contents = make_trusted_lists(pki, at=RECEIVED)
    for name, content in contents.items():
        (lists / name).write_bytes(content)
    public = pki.qseal.key.public_key()
    trust.mkdir()
    (trust / "root.pem").write_bytes(certificate_pem(pki.root.certificate))
    (trust / "callbacks.pem").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    files = [
        pki.root.certificate.der,
        *contents.values(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ]
    audit_archives([filled], AuditPlan(now=NOW, trust=str(trust), trusted_lists=str(lists)), report=page)
    trusted = json.loads(page.with_suffix(".json").read_text())["trusted"]
    assert [(one["name"], one["kind"]) for one in trusted] == [
        (str(pki.root.certificate.subject), "root"),
        ("EU, number 1", "trusted list"), ("LT, number 1", "trusted list"), ("of callbacks", "public key"),
    ]  # fmt: skip
    assert {one["sha256"] for one in trusted} == {hashlib.sha256(file).hexdigest() for file in files}
    assert all(one["sha256"] in page.read_text() for one in trusted)


def test_records_that_do_not_hold_are_grouped_by_cause(report_of, filled):
    lines = lines_of(filled)
    page, value, _ = report_of(lines[0], b"{}\n", b"{}\n")
    assert "1 of 3 records are proven; 2 lines or files cannot be read." in page
    (cause,) = value["causes"]
    assert (cause["codes"], cause["records"], cause["first"]["line"], cause["last"]["line"]) == (
        ["record.version"],
        2,
        2,
        3,
    )


def test_what_a_peer_chose_is_neither_markup_nor_a_formula(report_of, filled):
    lines = [json.loads(line) for line in lines_of(filled)]
    lines[1] |= {
        "x_request_id": "=cmd|' /C calc'!A0",
        "target": "<script>alert(1)</script>",
        "clock_source": "<b>\u202eabc",
    }
    lines[2] |= {"x_request_id": "<img src=x onerror=alert(1)>"}
    page, value, rows = report_of(*[json.dumps(line).encode() + b"\n" for line in lines])
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;b&gt;\\u202eabc" in page
    assert rows[2][COLUMNS.index("x_request_id")] == "'=cmd|' /C calc'!A0"
    assert value["failed"] == 2


def test_a_report_says_what_is_proven_for_how_long_and_how_to_repeat_it(report_of, filled):
    page, value, _ = report_of(heads=["ab" * 32])
    assert value["command"] == f"tppkit audit verify {filled} --expect-head {'ab' * 32}"
    _, value, _ = report_of(heads=[Head("5a" * 16, 3, "ab" * 32, "cd" * 32)])
    assert value["command"].endswith("--expect-head 'FILE WITH THE HEAD OF 3 RECORDS'")  # no name that might exist
    assert (value["clocks"], value["ends"]) == ({"system": 3}, [{"day": None, "records": 3}])
    for words in (
        "<h2>6. eIDAS Article 32a", "No trusted lists were given, so it is not shown", "3 have a signature that",
        "<h2>7. Time and clocks", "There is no time stamp", "<h2>8. How long the proof lasts", "no end is planned",
        "<h2>9. Redactions", "no receipt of any", "<h2>10. How to repeat", value["plan_digest"], value["report_hash"],
    ):  # fmt: skip
        assert words in page, words


def test_the_first_record_of_a_cause_is_shown_with_what_was_signed(report_of, filled):
    lines = lines_of(filled)
    changed = [line.replace(b'"body":"', b'"body":"AAAA') for line in lines[1:]]
    page, value, _ = report_of(lines[0], *changed)
    (cause,) = value["causes"]
    assert cause["first"]["signed"].endswith("(request-target): post /psd2/v1/payments/sepa-credit-transfers")
    assert "x-request-id: 00000000-0000-0000-0000-000000000001\n(request-target)" in page
    assert "1 are as they were signed and stored" in page


def test_a_seal_that_could_not_be_verified_does_not_count_as_verified(report_of, filled):
    for file in (filled / "certs").iterdir():
        file.unlink()
    page, value, _ = report_of()
    assert value["indeterminate"] == 3
    assert "0 have a signature that" in page
    assert "0 are as they were signed and stored" in page


def test_the_clock_of_a_sandbox_proves_nothing(report_of, filled):
    page, _, _ = report_of(*[line.replace(b'"system"', b'"sandbox"') for line in lines_of(filled)])
    assert "It can be set, so its times prove nothing." in page


def test_the_hash_of_a_report_depends_on_records_and_material_alone(report_of, filled, tmp_path, paths):
    _, first, _ = report_of()
    later = audit_archives([filled], AuditPlan(now=datetime(2027, 1, 1, tzinfo=UTC)), material=paths)
    assert later.report_hash == first["report_hash"]
    moved = filled.rename(tmp_path / "moved")
    assert audit_archives([moved], AuditPlan(now=NOW), material=paths).report_hash == first["report_hash"]
    assert audit_archives([moved], AuditPlan(now=NOW, at=NOW), material=paths).report_hash != first["report_hash"]
    (moved / "records.jsonl").write_bytes(b"".join(lines_of(moved)[:2]))
    assert audit_archives([moved], AuditPlan(now=NOW), material=paths).report_hash != first["report_hash"]


def test_an_audit_that_is_resumed_has_the_same_result(filled, paths, tmp_path):
    plan, work = AuditPlan(now=NOW), tmp_path / "work"
    whole = audit_archives([filled], plan, material=paths)
    assert audit_archives([filled], plan, work=work, material=paths).report_hash == whole.report_hash
    results = sorted(work.iterdir())
    before = [file.stat().st_mtime_ns for file in results]
    again = audit_archives([filled], plan, work=work, resume=True, material=paths)
    assert (again.report_hash, again.records) == (whole.report_hash, 3)
    assert [file.stat().st_mtime_ns for file in results] == before
    assert {file.suffix for file in results} == {".csv", ".ids", ".json", ".leaves"}
    for file in results:  # a result that is not whole is made again
        file.unlink()
        again = audit_archives([filled], plan, work=work, resume=True, heads=["ab" * 32], material=paths)
        assert (again.records, again.exit_code, sorted(work.iterdir())) == (3, 4, results)


def test_results_that_cannot_be_written_are_a_typed_error(filled, paths, tmp_path):
    plan, work = AuditPlan(now=NOW), tmp_path / "work"
    audit_archives([filled], plan, work=work, material=paths)
    (table,) = work.glob("*.csv")
    table.unlink()
    table.mkdir()
    with refused(ConfigurationError, "file.unwritable"):
        audit_archives([filled], plan, work=work, material=paths)


def test_records_that_are_not_chosen_make_no_gaps(filled, paths, report_of, pki):
    second = RECEIVED + timedelta(seconds=1)
    for options, records in (
        ({"received_from": second}, 2),
        ({"received_to": second}, 1),
        ({"received_from": second, "received_to": second + timedelta(seconds=1)}, 1),
        ({"selected": (pki.provider.organization_identifier.text,)}, 3),
        ({"selected": ("PSDLT-BL-OTHER",)}, 0),
    ):
        plan = AuditPlan(now=NOW, **options)
        head = check_log(filled, now=NOW).head
        early = replace(head, records=1, root=EvidenceRecord.from_line(lines_of(filled)[0]).leaf)
        result = audit_archives([filled], plan, heads=[head, early], material=paths)
        assert (result.records, result.exit_code, result.heads[0].records) == (records, 0 if records else 3, 3), options


def test_a_record_that_is_not_chosen_but_changed_is_reported(filled, paths):
    lines = lines_of(filled)
    (filled / "records.jsonl").write_bytes(
        lines[0].replace(b'"http_status":201', b'"http_status":202') + lines[1] + lines[2]
    )
    plan = AuditPlan(now=NOW, received_from=RECEIVED + timedelta(seconds=2))
    assert audit_archives([filled], plan, material=paths).exit_code == 4
