from __future__ import annotations

import json
import stat

import pytest


def test_a_pki_is_made_and_its_manifest_printed(tppkit, tmp_path):
    manifest = tppkit("pki", "create", "certs", "--json").json
    assert manifest == json.loads((tmp_path / "certs" / "manifest.json").read_text())
    kinds = [entry["kind"] for entry in manifest["files"]]
    assert {"root", "issuing-ca", "qwac", "qseal", "server", "ocsp", "tsa", "callback-key", "crl", "trusted-list"} <= {
        *kinds
    }
    for entry in manifest["files"]:
        assert entry.keys() == {"path", "kind", "key_path", "sha256", "not_after", "expected", "further_paths"}
        if entry["key_path"]:
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


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--key", "p384"],
        ["--key", "rsa2048"],
        ["--seal-key", "ed25519"],
        ["--policy", "ev", "--qscd", "--days", "9"],
    ],
)
def test_the_same_seed_makes_the_same_bytes(tppkit, tmp_path, options):
    for folder in ("a", "b"):
        tppkit("pki", "create", folder, "--seed", "3", "--at", "2026-01-01", "--faults", *options)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) > 200
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
        ("--nca-name", "x" * 257, "pki.name"),
        ("--services-url", "file:///etc", "pki.services-url"),
        ("--services-url", "http://localhost:8448/", "pki.services-url"),
        ("--key", "p521", "'--key'"),
        ("--key", "ed25519", "'--key'"),
        ("--seal-key", "rsa1024", "'--seal-key'"),
        ("--policy", "ov", "'--policy'"),
        ("--seed", "one", "'--seed'"),
    ],
)
def test_bad_options_name_the_rule_and_leave_nothing_behind(tppkit, tmp_path, option, value, code):
    result = tppkit("pki", "create", "certs", option, value)
    assert result.exit_code == 2
    assert code in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_time_is_wrong_usage(tppkit):
    assert tppkit("pki", "create", "certs", "--at", "yesterday").exit_code == 2


def test_faults_are_found_by_the_command_that_the_manifest_says(tppkit):
    entries = tppkit("pki", "create", "certs", "--faults", "--json").json["files"]
    faults = {entry["path"]: entry for entry in entries if entry["kind"] == "fault"}
    for name, exit_code in (
        ("role-mismatch", 1),
        ("revoked-by-ocsp", 1),
        ("revoked-by-crl", 1),
        ("unknown-authority", 1),
    ):
        entry = faults[f"faults/{name}.pem"]
        answers = [word for kind in ("crl", "ocsp") for file in entry[kind] for word in (f"--{kind}", f"certs/{file}")]
        result = tppkit(
            "cert", "check", f"certs/{entry['path']}", "--as", entry["as"], "--at", entry["at"], "--trust", "certs/root.pem",
            *answers, "--json",
        )  # fmt: skip
        assert {finding["code"] for finding in result.json["findings"]} == set(entry["expected"])
        assert result.exit_code == exit_code


def test_the_catalogue_is_listed(tppkit):
    listed = tppkit("pki", "faults", "--json").json
    assert len(listed) >= 80
    assert all(row.keys() == {"name", "summary", "as", "expected"} for row in listed)
    told = tppkit("pki", "faults")
    assert all(row["name"] in told.stdout and row["summary"] in told.stdout for row in listed)


@pytest.fixture
def certs(tppkit, tmp_path):
    tppkit("pki", "create", "certs")
    return tmp_path / "certs"


def test_certificates_are_issued_and_revoked(tppkit, certs):
    for kind in ("qwac", "qseal", "server"):
        entry = tppkit("pki", "issue", kind, "certs", "--dns", "new.example.org", "--json").json
        assert (entry["path"], entry["kind"]) == (f"{kind}-2.pem", kind)
    told = tppkit("pki", "revoke", "certs/qwac-2.pem", "--reason", "superseded", "--json").json
    assert told["reason"] == "superseded"
    again = tppkit("pki", "revoke", "certs/qwac-2.pem")
    assert (again.exit_code, "pki.already-revoked" in again.stderr) == (2, True)
    checked = (
        "cert",
        "check",
        "certs/qwac-2-chain.pem",
        "--as",
        "qwac",
        "--trust",
        "certs",
        "--crl",
        "certs/issuing-ca-qwac.crl",
    )
    assert "revocation.revoked" in tppkit(*checked).stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["issue", "qwac", "nowhere"], 2, "pki.unusable"),
        (["issue", "qwac", "certs", "--label", "../x"], 2, "pki.label"),
        (["issue", "qwac", "certs", "--label", "qseal"], 2, "file.exists"),
        (["issue", "qwac", "certs", "--key", "ed25519"], 2, "pki.key-kind"),
        (["issue", "csr", "certs"], 2, "--csr"),
        (["issue", "qwac", "certs", "--csr", "certs/qwac.csr"], 2, "--csr"),
        (["issue", "csr", "certs", "--csr", "certs/qwac.pem"], 3, "certificate.not-found"),
        (["issue", "csr", "certs", "--csr", "nowhere"], 3, "file.unreadable"),
        (["revoke", "nowhere.pem", "--dir", "certs"], 3, "file.unreadable"),
        (["revoke", "certs/qwac.key"], 3, "certificate."),
        (["revoke", "certs/qwac.pem", "--reason", "whim"], 2, "RFC 5280 section 5.3.1"),
        (["serve", "nowhere", "--port", "0"], 2, "pki.unusable"),
        (["serve", "certs", "--port", "99999"], 2, "--port"),
        (["csr", "certs/qwac.csr"], 2, "file.exists"),
        (["csr", "new.csr", "--key", "certs/qwac.pem"], 3, "pem.malformed"),
        (["csr", "new.csr", "--key-kind", "ed25519"], 2, "pki.key-kind"),
        (["csr", "new.csr", "--repair", "certs/qwac.csr", "--key", "certs/qseal.key"], 2, "pki.foreign-key"),
        (["csr", "new.csr", "--roles", "PSP_XX"], 2, "pki.role"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(tppkit, certs, arguments, exit_code, said):
    before = {path: path.stat().st_mtime_ns for path in certs.parent.rglob("*")}
    result = tppkit("pki", *arguments)
    assert (result.exit_code, said in result.stderr) == (exit_code, True), result.stderr
    assert {path: path.stat().st_mtime_ns for path in certs.parent.rglob("*")} == before


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
def test_a_request_is_written_with_its_key_and_repaired(tppkit, tmp_path, kind):
    options = ["--kind", kind, "--name", "Žalias Bankas", "--org-id", "PSDLV-FKTK-1", "--roles", "PSP_AI"]
    assert tppkit("pki", "csr", "a.csr", *options, "--json").json == {"files": ["a.csr", "a.key"]}
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    tppkit("pki", "csr", "b.csr", "--repair", "a.csr", "--key", "a.key")
    first, second = tppkit("cert", "show", "--json", "a.csr", "b.csr").json
    for fact in ("subject", "psd2", "qc_types", "organization_identifier", "key_usage"):
        assert first[fact] == second[fact]
    assert tppkit("pki", "csr", "c.cnf", "--repair", "a.csr").exit_code == 0
    assert "req_extensions" in (tmp_path / "c.cnf").read_text()


def test_a_key_that_is_there_is_kept_and_no_request_is_left(tppkit, tmp_path):
    (tmp_path / "a.key").write_text("precious")
    assert tppkit("pki", "csr", "a.csr").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]
