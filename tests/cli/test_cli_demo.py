from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    """A demo that has run, with what it said."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    done = subprocess.run(
        [str(Path(sys.executable).with_name("tppkit")), "demo", "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_it_ends_with_every_step_as_expected(demo_folder):
    _, said = demo_folder
    assert re.fullmatch(r"demo: \d+ steps, all as expected", said.splitlines()[-1])


def test_with_json_the_result_is_one_object_and_the_story_is_on_stderr(tppkit, tmp_path):
    done = tppkit("demo", "--dir", "kept", "--json")
    assert done.exit_code == 0
    steps = done.json["steps"]
    assert done.json == {
        "as_expected": True, "directory": "kept", "pki": "kept/pki", "archive": "kept/archive",
        "archive_altered": "kept/archive-altered", "steps": steps,
    }  # fmt: skip
    assert [step["as_expected"] for step in steps] == [True] * 21
    assert any("401 SIGNATURE_MISSING" in line for step in steps for line in step["lines"])
    assert [line for step in steps[10:12] for line in step["lines"] if "-12.50 EUR" in line] == [
        "The payment is ACSP; pending: -12.50 EUR, Order 4711.",
        "The payment is ACSC: settlement completed; booked: -12.50 EUR, Order 4711.",
    ]
    said = [" ".join(step["lines"]) for step in steps[12:15]]
    for text, line in zip(("logs in Ona Kazlauskienė", "says until when", "posted, version 1"), said, strict=True):
        assert text in line
    assert "executed, version 2, EUR-12.50" in said[-1]
    said = [" ".join(step["lines"]) for step in steps[15:19]]
    for text, line in zip(("/thanks", "completed, 25.00", "Captured 15.00", "Refunded 5.00"), said, strict=True):
        assert text in line
    assert [line.count("A webhook tells") for line in said] == [0, 0, 1, 1]
    assert done.stderr.splitlines()[-1] == "demo: 21 steps, all as expected"


def test_it_shows_each_refusal_with_status_and_code(demo_folder):
    _, said = demo_folder
    assert said.count("401 SIGNATURE_INVALID") == 2
    assert said.count("401 SIGNATURE_MISSING") == 1
    assert said.count("403 ROLE_INVALID") == 1


def test_it_is_plain_where_there_is_no_terminal(demo_folder):
    _, said = demo_folder
    assert "\x1b" not in said


def test_it_says_where_the_files_are_and_they_are_there(demo_folder):
    folder, said = demo_folder
    assert str(folder) in said
    assert {"pki", "archive", "archive-altered", "sandbox.sqlite", "inbox.sqlite"} <= {
        path.name for path in folder.iterdir()
    }


def test_the_archive_it_keeps_passes_a_later_audit(demo_folder, tppkit):
    folder, _ = demo_folder
    result = tppkit("audit", "verify", folder / "archive", "--trust", folder / "pki", "--json")
    assert result.exit_code == 0
    assert (result.json["records"], result.json["passed"], result.json["failed"]) == (2, 2, 0)


def test_the_altered_archive_does_not(demo_folder, tppkit):
    folder, _ = demo_folder
    result = tppkit("audit", "verify", folder / "archive-altered", "--trust", folder / "pki", "--json")
    assert result.exit_code == 1
    assert result.json["by_code"] == {"record.body": 1}


def test_a_folder_that_is_not_empty_is_left_alone(demo_folder, tppkit):
    folder, _ = demo_folder
    before = sorted(os.listdir(folder))
    assert tppkit("demo", "--dir", folder).exit_code == 2
    assert sorted(os.listdir(folder)) == before


def test_the_audit_has_exit_codes_of_its_own(demo_folder, tppkit, tmp_path):
    folder, _ = demo_folder
    archive, pki = folder / "archive", folder / "pki"
    tppkit("pki", "create", "strangers")
    assert tppkit("audit", "verify", archive, "--trust", "strangers").exit_code == 3
    assert tppkit("audit", "verify", archive).exit_code == 7
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


def test_an_audit_asks_kept_lists_about_revocation(demo_folder, tppkit):
    folder, _ = demo_folder
    pki = folder / "pki"
    audit = ("audit", "verify", folder / "archive", "--trust", pki)
    assert "revocation: not asked; give --crl or --ocsp" in tppkit(*audit).stdout
    lists = [word for kind in ("qwac", "qseal") for word in ("--crl", pki / f"issuing-ca-{kind}.crl")]
    asked = tppkit(*audit, *lists, "--json")
    assert (asked.exit_code, asked.json["passed"], asked.json["revocation_asked"]) == (0, 2, True)
    half = tppkit(*audit, *lists[:2], "--json")
    assert (half.exit_code, half.json["by_code"]) == (3, {"revocation.unknown": 2})
    assert tppkit(*audit, "--crl", pki / "qwac.pem").exit_code == 7


def test_audit_json_has_every_key_of_the_contract(demo_folder, tppkit):
    folder, _ = demo_folder
    result = tppkit("audit", "verify", folder / "archive-altered", "--trust", folder / "pki", "--json").json
    keys = {
        "records", "passed", "failed", "indeterminate", "unreadable", "by_code", "first_failures", "seconds", "records_per_second",
        "engine", "workers",
    }  # fmt: skip
    assert result.keys() >= keys
    assert result["first_failures"][0].keys() >= {"verdict", "code", "findings", "organization_identifier", "at"}
    json.dumps(result)
