"""`tppkit trust`, as a user runs it."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.shared

AT_ISSUANCE = "2020-11-21T00:00:00Z"


@pytest.fixture
def lists(shared_data):
    return shared_data / "certificates" / "trusted-lists"


@pytest.fixture
def qwac(shared_data):
    return shared_data / "certificates" / "psd2" / "openbanking-aspsp__QWac__09995cb9.der"


def test_a_qwac_is_qualified_at_its_issuance(tppkit, lists, qwac):
    result = tppkit("trust", "status", qwac, "--trusted-lists", lists, "--at", AT_ISSUANCE, "--json")
    assert result.exit_code == 0
    found = result.json
    assert (found["verdict"], found["code"], found["findings"]) == ("holds", None, [])
    assert (found["qualified_for"], found["territory"], found["provider"]) == (["web"], "NO", "Buypass AS")
    assert found["service"] == "Qualified certificates for website authentication (Buypass Class 3 CA 2)"
    assert found["status"] == "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/granted"
    assert (found["status_since"], found["matched_by"]) == ("2018-09-20T22:00:00Z", "certificate")
    assert {**found["list"], "sha256": len(found["list"]["sha256"])} == {
        "sequence_number": 71,
        "issued": "2023-09-28T12:32:17Z",
        "next_update": "2024-03-28T13:32:17Z",
        "sha256": 64,
        "file": "NO.xml",
    }
    assert (found["at"], found["at_issuance"]["at"]) == (AT_ISSUANCE, "2020-11-20T11:23:55Z")


def test_after_the_lists_have_expired_issuance_is_still_printed(tppkit, lists, qwac):
    result = tppkit("trust", "status", qwac, "--trusted-lists", lists, "--json")
    assert result.exit_code == 1
    found = result.json
    assert (found["verdict"], found["code"], found["qualified_for"]) == ("fails", "trusted-list.expired", [])
    assert found["at_issuance"]["qualified_for"] == ["web"]
    assert found["at_issuance"]["service"].startswith("Qualified certificates for website authentication")


def test_the_text_begins_with_the_verdict(tppkit, lists, qwac):
    result = tppkit("trust", "status", qwac, "--trusted-lists", lists, "--at", AT_ISSUANCE)
    assert result.stdout.splitlines()[0] == f"holds: {qwac} at {AT_ISSUANCE}"
    assert "Buypass AS" in result.stdout
    assert "sequence_number: 71" in result.stdout


def test_a_tampered_list_is_reported_for_its_country(tppkit, lists, qwac, tmp_path):
    for name in ("EU-LOTL.xml", "NO.xml"):
        shutil.copyfile(lists / name, tmp_path / name)
    tampered = (tmp_path / "NO.xml").read_bytes().replace(b"Buypass AS", b"Bypass AS", 1)
    (tmp_path / "NO.xml").write_bytes(tampered)
    result = tppkit("trust", "status", qwac, "--trusted-lists", tmp_path, "--at", AT_ISSUANCE, "--json")
    assert (result.exit_code, result.json["code"]) == (1, "trusted-list.signature")
    assert "NO.xml" in result.json["findings"][0]["message"]


def test_the_lists_of_a_folder_are_shown(tppkit, lists, tmp_path):
    result = tppkit("trust", "lists", lists, "--at", AT_ISSUANCE, "--json")
    assert (result.exit_code, result.json["verdict"]) == (0, "holds")
    assert [one["territory"] for one in result.json["lists"]] == ["EU", "CZ", "FI", "LI", "NL", "NO", "PT"]
    shutil.copyfile(lists / "EU-LOTL.xml", tmp_path / "top.xml")
    (tmp_path / "NO.xml").write_text("<html/>")
    broken = tppkit("trust", "lists", tmp_path)
    assert broken.exit_code == 1
    assert broken.stdout.startswith("fails (trusted-list.malformed)")


def test_expired_lists_do_not_hold(tppkit, lists):
    result = tppkit("trust", "lists", lists, "--at", "2026-11-21", "--json")
    assert (result.exit_code, result.json["code"]) == (1, "trusted-list.expired")
    assert {failure["territory"] for failure in result.json["failures"]} == {"EU", "CZ", "FI", "LI", "NL", "NO", "PT"}


def test_a_folder_without_a_list_of_lists_is_wrong_usage(tppkit, qwac, tmp_path):
    result = tppkit("trust", "status", qwac, "--trusted-lists", tmp_path)
    assert result.exit_code == 2
    assert "[trusted-list.no-lotl]" in result.stderr


def test_a_list_of_lists_with_an_unknown_signer_does_not_hold(tppkit, lists, qwac, tmp_path):
    shutil.copyfile(lists / "EU-LOTL.xml", tmp_path / "top.xml")
    (tmp_path / "lotl-signers").mkdir()
    result = tppkit("trust", "status", qwac, "--trusted-lists", tmp_path)
    assert result.exit_code == 1
    assert "[trusted-list.signer]" in result.stderr
    reported = tppkit("trust", "status", qwac, "--trusted-lists", tmp_path, "--json")
    assert (reported.exit_code, reported.json["verdict"], reported.json["code"]) == (1, "fails", "trusted-list.signer")
    listed = tppkit("trust", "lists", tmp_path, "--json")
    assert (listed.exit_code, listed.json["code"]) == (1, "trusted-list.signer")
