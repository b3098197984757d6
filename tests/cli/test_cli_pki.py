from __future__ import annotations

import json
import stat

import pytest


def test_a_pki_is_made_and_its_manifest_printed(tppkit, tmp_path):
    manifest = tppkit("pki", "create", "certs", "--json").json
    assert manifest == json.loads((tmp_path / "certs" / "manifest.json").read_text())
    kinds = [entry["kind"] for entry in manifest["files"]]
    assert kinds == ["root", "issuing-ca", "issuing-ca", "qwac", "qseal", "server"]
    for entry in manifest["files"]:
        assert entry.keys() == {"path", "kind", "key_path", "sha256", "not_after", "expected"}
        assert stat.S_IMODE((tmp_path / "certs" / entry["key_path"]).stat().st_mode) == 0o600


def test_options_reach_the_certificates(tppkit):
    options = [
        "--org-id",
        "PSDDE-BAFIN-123456",
        "--name",
        "Zahlgut TEST Ä",
        "--roles",
        "PSP_AI",
        "--key",
        "p384",
        "--days",
        "30",
    ]
    tppkit(
        "pki",
        "create",
        "certs",
        *options,
        "--nca-name",
        "Aufsicht",
        "--dns",
        "api.zahlgut.example",
        "--at",
        "2026-03-01",
    )
    (entry,) = tppkit("cert", "show", "--json", "certs/qwac.pem").json
    assert entry["organization_identifier"]["text"] == "PSDDE-BAFIN-123456"
    assert entry["psd2"]["roles"] == ["PSP_AI"]
    assert entry["psd2"]["nca_name"] == "Aufsicht"
    assert entry["psd2"]["nca_id"] == "DE-BAFIN"
    assert "O=Zahlgut TEST Ä" in entry["subject"]
    assert entry["key"]["curve"] == "P-384"
    assert (entry["not_before"], entry["not_after"]) == ("2026-03-01T00:00:00Z", "2026-03-30T23:59:59Z")
    assert entry["dns_names"] == ["api.zahlgut.example"]


def test_the_same_seed_makes_the_same_bytes(tppkit, tmp_path):
    for folder in ("a", "b"):
        tppkit("pki", "create", folder, "--seed", "3", "--at", "2026-01-01")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(files) > 15
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def test_an_existing_folder_is_left_as_it_is(tppkit, tmp_path):
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "precious").write_text("x")
    result = tppkit("pki", "create", "certs")
    assert result.exit_code == 2
    assert "file.exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["certs"]


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--org-id", "12345", "pki.organization-identifier"),
        ("--roles", "PSP_XX", "pki.role"),
        ("--roles", "", "pki.role"),
        ("--country", "Germany", "pki.country"),
        ("--days", "0", "pki.days"),
        ("--dns", "Bad_Name", "pki.dns-name"),
        ("--name", "", "pki.name"),
    ],
)
def test_bad_options_name_the_rule_and_leave_nothing_behind(tppkit, tmp_path, option, value, code):
    result = tppkit("pki", "create", "certs", option, value)
    assert result.exit_code == 2
    assert code in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_rsa_keys_have_no_seed(tppkit):
    assert "pki.seeded-rsa" in tppkit("pki", "create", "certs", "--key", "rsa2048", "--seed", "1").stderr


def test_a_bad_time_is_wrong_usage(tppkit):
    assert tppkit("pki", "create", "certs", "--at", "yesterday").exit_code == 2
