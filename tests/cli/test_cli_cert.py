from __future__ import annotations

import base64
import json

import pytest

from tppkit.testpki import certificate_pem

KEYS = {
    "file", "sha256", "kind", "subject", "issuer", "serial_hex", "not_before", "not_after", "key", "organization_identifier", "psd2",
    "qc_types", "qc_compliance", "qc_sscd", "qc_pds", "policies", "key_usage", "extended_key_usage", "findings",
}  # fmt: skip


@pytest.fixture
def qwac_file(tmp_path, pki):
    path = tmp_path / "qwac.pem"
    path.write_bytes(certificate_pem(pki.qwac.certificate))
    return path


def test_json_has_every_key_of_the_contract(tppkit, qwac_file):
    (entry,) = tppkit("cert", "show", "--json", qwac_file).json
    assert entry.keys() >= KEYS


def test_json_tells_the_facts_of_a_qwac(tppkit, qwac_file, pki):
    (entry,) = tppkit("cert", "show", "--json", qwac_file).json
    assert entry["kind"] == "certificate"
    assert entry["sha256"] == pki.qwac.certificate.sha256
    assert entry["organization_identifier"] == {
        "text": "PSDLT-BL-LB000000", "scheme": "PSD", "country": "LT", "authority": "BL", "reference": "LB000000",
    }  # fmt: skip
    assert entry["psd2"] == {
        "roles": ["PSP_PI", "PSP_AI"], "role_oids": ["0.4.0.19495.1.2", "0.4.0.19495.1.3"],
        "nca_name": "Bank of Lithuania", "nca_id": "LT-BL",
    }  # fmt: skip
    assert entry["qc_types"] == ["web"]
    assert entry["key"] == {"type": "ec", "bits": 256, "curve": "P-256"}
    assert entry["extended_key_usage"] == ["serverAuth", "clientAuth"]
    assert entry["findings"] == []


def test_text_names_organisation_roles_and_type(tppkit, qwac_file):
    shown = tppkit("cert", "show", qwac_file).stdout
    assert all(word in shown for word in ("PSDLT-BL-LB000000", "PSP_PI, PSP_AI", "web", "clientAuth"))


def test_an_unreadable_file_is_told_after_the_others_were_shown(tppkit, tmp_path, qwac_file):
    (tmp_path / "bad").write_bytes(b"\x30\x82garbage")
    result = tppkit("cert", "show", "--json", "bad", qwac_file, "absent")
    assert result.exit_code == 3
    first, second, third = result.json
    assert first.keys() == {"file", "error"}
    assert first["error"]["code"] == "certificate.malformed"
    assert second["kind"] == "certificate"
    assert third["error"]["code"] == "file.unreadable"


def test_standard_input_is_read_for_a_dash(tppkit, pki):
    line = base64.b64encode(pki.qseal.certificate.der)
    (entry,) = tppkit("cert", "show", "--json", "-", stdin=line).json
    assert entry["file"] == "-"
    assert entry["qc_types"] == ["eseal"]


def test_control_characters_of_a_certificate_do_not_reach_the_terminal(tppkit, tmp_path, pki):
    from tppkit.testpki import make_provider

    provider = make_provider(nca_name="Bank of Lithuania")
    object.__setattr__(provider, "nca_name", "Evil\x1b[2J\nBank")
    (tmp_path / "evil.pem").write_bytes(certificate_pem(pki.issue_qwac(provider, label="evil").certificate))
    shown = tppkit("cert", "show", "evil.pem").stdout
    assert "\x1b" not in shown
    assert "Evil\\x1b[2J\\nBank" in shown


def test_no_file_is_wrong_usage(tppkit):
    assert tppkit("cert", "show").exit_code == 2


@pytest.mark.shared
def test_every_real_certificate_is_shown_without_a_failure(tppkit, shared_data):
    files = sorted((shared_data / "certificates").glob("*/*.der"))
    assert len(files) > 150
    result = tppkit("cert", "show", "--json", *files)
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == len(files)
