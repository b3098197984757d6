from __future__ import annotations

import os
import shutil

import pytest

from tppkit.cli.demo import CARD, DemoStopped, Steps, UnexpectedResult, _print_end
from tppkit.errors import FormatError
from tppkit.evidence import EvidenceRecord
from tppkit.evidence.archive import read_lines
from tppkit.testing import assert_no_pan


@pytest.fixture(scope="module")
def demo_folder(tppkit_once):
    """The folder of a demo that has run, and its output."""
    tppkit, folder = tppkit_once
    done = tppkit("demo", "--dir", "kept")
    assert done.exit_code == 0, done.stdout
    return folder / "kept", done.stdout


def test_with_json_the_result_is_one_object_and_the_steps_are_on_stderr(tppkit):
    done = tppkit("demo", "--dir", "kept", "--json")
    assert done.exit_code == 0
    steps = done.json["steps"]
    assert done.json == {
        "as_expected": True, "directory": "kept", "pki": "kept/pki", "archive": "kept/archive",
        "archive_altered": "kept/archive-altered", "report": "kept/audit.html", "steps": steps,
    }  # fmt: skip
    assert [step["as_expected"] for step in steps] == [True] * 21
    lines = [" ".join(step["lines"]) for step in steps]
    expected = {
        7: "401 SIGNATURE_MISSING",
        10: "The payment is ACSP; pending: -12.50 EUR, Order 4711.",
        11: "The payment is ACSC: settlement completed; booked: -12.50 EUR, Order 4711.",
        12: "logs in Ona Kazlauskienė", 14: "executed, version 2, EUR-12.50",
        15: "/thanks", 16: "completed, 25.00", 17: "Captured 15.00", 18: "A webhook names the refund",
    }  # fmt: skip
    assert [number for number, text in expected.items() if text not in lines[number]] == []
    assert done.stderr.splitlines()[-1] == "demo: 21 steps, all as expected"


def test_it_shows_each_refusal_with_status_and_code(demo_folder):
    _, output = demo_folder
    answers = ("401 SIGNATURE_INVALID", "401 SIGNATURE_MISSING", "403 ROLE_INVALID")
    assert [output.count(answer) for answer in answers] == [2, 1, 1]


def test_the_card_number_is_neither_printed_nor_stored(demo_folder):
    folder, output = demo_folder
    assert_no_pan(folder, output, cards=[CARD["number"].replace(" ", "")])


def test_it_lists_its_files(demo_folder):
    folder, output = demo_folder
    assert "kept: pki/, archive/, archive-altered/, sandbox.sqlite, inbox.sqlite" in output
    assert {"pki", "archive", "archive-altered", "sandbox.sqlite", "inbox.sqlite"} <= {
        path.name for path in folder.iterdir()
    }


def test_a_folder_that_is_not_empty_is_left_unchanged(demo_folder, tppkit):
    folder, _ = demo_folder
    before = sorted(os.listdir(folder))
    assert tppkit("demo", "--dir", folder).exit_code == 2
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    "error", [UnexpectedResult("this is not JSON"), FormatError("json.malformed", "this is not JSON")]
)
def test_an_unexpected_step_stops_the_demo_with_exit_1(capsys, tmp_path, error):
    steps = Steps()
    with steps.step("Do a thing") as lines:
        lines.append("Done.")
    with pytest.raises(DemoStopped), steps.step("Do another"):
        raise error
    assert _print_end(steps, tmp_path) == 1
    output = capsys.readouterr().out
    assert output.startswith(" 1 ok  Do a thing\n       Done.\n 2 !!  Do another\n       unexpected: this is not JSON")
    assert output.splitlines()[-1] == "demo: 2 steps, 1 NOT as expected"


def test_the_archive_names_the_consent_and_the_payment_apart(demo_folder):
    folder, _ = demo_folder
    consent, payment = (EvidenceRecord.from_line(line) for _, line in read_lines(folder / "archive"))
    assert (consent.payment_ref, payment.consent_ref) == (None, None)
    assert consent.consent_ref
    assert payment.payment_ref


def test_the_audit_of_the_altered_archive_fails_with_every_json_key_of_the_contract(demo_folder, tppkit):
    folder, _ = demo_folder
    result = tppkit("audit", "verify", folder / "archive-altered", "--trust", folder / "pki", "--json")
    assert (result.exit_code, result.json["by_code"]) == (1, {"digest.mismatch": 1, "record.body": 1})
    keys = {
        "records", "passed", "failed", "indeterminate", "unreadable", "by_code", "first_failures", "seconds", "records_per_second",
        "engine", "workers",
    }  # fmt: skip
    assert result.json.keys() >= keys
    assert result.json["first_failures"][0].keys() >= {"verdict", "code", "findings", "organization_identifier", "at"}


def test_the_audit_has_its_own_exit_codes(demo_folder, tppkit, tmp_path):
    folder, _ = demo_folder
    archive, pki = folder / "archive", folder / "pki"
    tppkit("pki", "create", "strangers")
    assert tppkit("audit", "verify", archive, "--trust", "strangers").exit_code == 3
    without = tppkit("audit", "verify", archive, "--json")
    assert (without.exit_code, without.json["error"]["code"]) == (7, "trust.no-anchors")
    assert tppkit("audit", "verify", archive, "--trust", "absent").exit_code == 7
    assert tppkit("audit", "verify", "absent", "--trust", pki).exit_code == 5
    assert tppkit("audit", "verify", "--trust", pki).exit_code == 2
    assert tppkit("audit", "verify", archive, "--trust", pki, "--at", "soon").exit_code == 2
    shortened = tmp_path / "shortened"
    (shortened / "certs").mkdir(parents=True)
    for path in (archive / "certs").iterdir():
        (shortened / "certs" / path.name).write_bytes(path.read_bytes())
    lines = (archive / "records.jsonl").read_bytes().splitlines(keepends=True)
    (shortened / "records.jsonl").write_bytes(lines[0].replace(b'"seq":0', b'"seq":1'))
    assert tppkit("audit", "verify", shortened, "--trust", pki).exit_code == 4


def test_an_audit_checks_revocation_by_the_kept_answers_and_by_the_given_lists(demo_folder, tppkit, tmp_path):
    folder, _ = demo_folder
    pki = folder / "pki"
    audit = ("audit", "verify", folder / "archive", "--trust", pki)
    kept = tppkit(*audit, "--json")
    assert (kept.exit_code, kept.json["without_revocation"], kept.json["not_checked"]) == (0, 0, ["trusted_lists"])
    lists = [word for kind in ("qwac", "qseal") for word in ("--crl", pki / f"issuing-ca-{kind}.crl")]
    asked = tppkit(*audit, *lists, "--json")
    assert (asked.exit_code, asked.json["passed"], asked.json["revocation_asked"]) == (0, 2, True)
    lost = shutil.copytree(folder / "archive", tmp_path / "archive")
    shutil.rmtree(lost / "answers")
    for given in ((), lists):
        result = tppkit("audit", "verify", lost, "--trust", pki, *given, "--json")
        assert (result.exit_code, result.json["by_code"]["record.answer"]) == (3, 2)
    assert tppkit(*audit, "--crl", pki / "qwac.pem").exit_code == 7
