from __future__ import annotations

import json
import shutil
import stat
from datetime import UTC, datetime

import pytest

from tppkit._clock import utc_now
from tppkit.certificates import oids
from tppkit.testpki import key_pem, make_pki, write_pki
from tppkit.testpki.certificate import Draft
from tppkit.testpki.faults.edits import no_statement
from tppkit.testpki.keys import KeySource
from tppkit.testpki.requests import write_request

pytestmark = pytest.mark.slow


def test_a_pki_is_made_and_its_manifest_printed(tppkit, tmp_path):
    manifest = tppkit("pki", "create", "certs", "--json").json
    assert manifest == json.loads((tmp_path / "certs" / "manifest.json").read_text())
    kinds = [entry["kind"] for entry in manifest["files"]]
    known = {
        "root",
        "issuing-ca",
        "qwac",
        "qseal",
        "server",
        "ocsp",
        "tsa",
        "callback-key",
        "crl",
        "bank-seal",
        "trusted-list",
    }
    assert set(kinds) == known | {"list-signer"}
    for entry in manifest["files"]:
        assert entry.keys() == {"path", "kind", "key_path", "sha256", "not_after", "expected", "further_paths"}
        if entry["key_path"]:
            assert stat.S_IMODE((tmp_path / "certs" / entry["key_path"]).stat().st_mode) == 0o600


def test_options_reach_the_certificates(tppkit):
    options = (
        "--org-id PSDDE-BAFIN-123456 --roles PSP_AI --key p384 --days 30 --nca-name Aufsicht --dns api.zahlgut.example"
    )
    tppkit("pki", "create", "certs", *options.split(), "--name", "Zahlgut TEST Ä", "--at", "2026-03-01")
    (entry,) = tppkit("cert", "show", "--json", "certs/qwac.pem").json
    assert entry["organization_identifier"]["text"] == "PSDDE-BAFIN-123456"
    assert entry["psd2"]["roles"] == ["PSP_AI"]
    assert (entry["psd2"]["nca_name"], entry["psd2"]["nca_id"]) == ("Aufsicht", "DE-BAFIN")
    assert "O=Zahlgut TEST Ä" in entry["subject"]
    assert entry["key"]["curve"] == "P-384"
    assert (entry["not_before"], entry["not_after"]) == ("2026-03-01T00:00:00Z", "2026-03-30T23:59:59Z")
    assert entry["dns_names"] == ["api.zahlgut.example"]


@pytest.mark.parametrize(
    "options", ["", "--seal-key rsa2048", "--key p384 --seal-key ed25519 --policy ev --qscd --days 9"]
)
def test_the_same_seed_makes_the_same_bytes(tppkit, tmp_path, options):
    for folder in ("a", "b"):
        tppkit("pki", "create", folder, "--seed", "3", "--at", "2026-01-01", "--faults", *options.split())
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) > 150
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--org-id", "12345", "pki.organization-identifier"), ("--org-id", "LEIXG-AEYE00EKXESVZUUEBP67", "--country"),
        ("--roles", "PSP_XX", "pki.role"), ("--country", "Germany", "pki.country"), ("--days", "0", "pki.days"),
        ("--dns", "Bad_Name", "pki.dns-name"), ("--name", "", "pki.name"), ("--nca-name", "", "pki.name"),
        ("--services-url", "http://localhost:8448/", "pki.services-url"), ("--key", "ed25519", "'--key'"),
        ("--seal-key", "rsa1024", "'--seal-key'"), ("--policy", "ov", "'--policy'"), ("--seed", "one", "'--seed'"),
        ("--at", "yesterday", "'--at'"),
    ],
)  # fmt: skip
def test_bad_options_name_the_rule_and_leave_nothing_behind(tppkit, tmp_path, option, value, code):
    result = tppkit("pki", "create", "certs", option, value)
    assert result.exit_code == 2
    assert code in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_in_the_manifest_finds_each_fault(tppkit):
    entries = tppkit("pki", "create", "certs", "--faults", "--json").json["files"]
    faults = {entry["path"]: entry for entry in entries if entry["kind"] == "fault"}
    for name, exit_code in (
        ("role-mismatch", 1),
        ("revoked-by-ocsp", 1),
        ("revoked-by-crl", 1),
        ("unknown-authority", 0),
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
    assert all(row.keys() == {"name", "summary", "as", "expected", "verdict", "gate"} for row in listed)
    assert {row["verdict"] for row in listed} == {"fails", "warns", "notes"}
    result = tppkit("pki", "faults")
    assert "  fails: certificate.serial-too-long; gate: admitted\n" in result.stdout
    assert all(row["name"] in result.stdout and row["summary"] in result.stdout for row in listed)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "certs"
    write_pki(make_pki(at=utc_now()), path)
    return path


@pytest.fixture
def certs(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "certs")


def test_certificates_are_issued_and_revoked(tppkit, certs):
    for kind, options in (("qwac", ["--dns", "a.example.org"]), ("qseal", []), ("server", ["--dns", "a.example.org"])):
        entry = tppkit("pki", "issue", kind, "certs", *options, "--json").json
        assert (entry["path"], entry["kind"]) == (f"{kind}-2.pem", kind)
    result = tppkit("pki", "revoke", "certs/qwac-2.pem", "--reason", "superseded", "--json").json
    assert result["reason"] == "superseded"
    again = tppkit("pki", "revoke", "certs/qwac-2.pem")
    assert (again.exit_code, "pki.already-revoked" in again.stderr) == (2, True)
    checked = "cert check certs/qwac-2-chain.pem --as qwac --trust certs --crl certs/issuing-ca-qwac.crl"
    assert "revocation.revoked" in tppkit(*checked.split()).stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ("issue qwac nowhere", 2, "pki.unusable"), ("issue qwac certs --label ../x", 2, "pki.label"),
        ("issue qwac certs --label qseal", 2, "file.exists"), ("issue qwac certs --key ed25519", 2, "pki.key-kind"),
        ("issue csr certs", 2, "--csr"), ("issue server certs --name Mine", 2, "--name"),
        ("issue qwac certs --qscd", 2, "--qscd"), ("issue qseal certs --policy ev", 2, "--policy"),
        ("issue csr certs --csr nowhere --roles PSP_AI --key p256", 2, "--roles, --key"),
        ("issue qwac certs --days 4000", 2, "pki.days"), ("issue qwac certs --at 2020-01-01", 2, "pki.days"),
        ("create absent/../certs", 2, "file.exists"),
        ("create certs/qwac.pem/new", 2, "a file has the place of a folder"),
        ("create new --policy ev --org-id PSDLT-BL-Ž1", 2, "PrintableString"),
        ("issue qwac certs --csr nowhere", 2, "--csr"),
        ("issue csr certs --csr certs/qwac.pem", 3, "certificate.not-found"),
        ("issue csr certs --csr nowhere", 3, "file.unreadable"),
        *((f"revoke nowhere.pem {option}", 3, "file.unreadable") for option in ("--dir certs", "")),
        ("revoke certs/qwac.key", 3, "certificate."),
        ("revoke certs/qwac.pem --reason whim", 2, "RFC 5280 section 5.3.1"),
        ("revoke certs/qwac.pem --reason removeFromCRL", 2, "--lift"),
        ("revoke certs/qwac.pem --at 2100-01-01", 2, "pki.revocation-time"),
        ("revoke certs/qwac.pem --lift", 2, "pki.not-on-hold"),
        ("revoke certs/qwac.pem --lift --reason superseded", 2, "--reason"), ("revoke -", 2, "--dir"),
        ("serve nowhere --port 0", 2, "pki.unusable"),
        ("serve certs --port 99999", 2, "--port"), ("csr certs/qwac.pem", 2, "file.exists"),
        ("csr new.csr --key certs/qwac.pem", 3, "key.unreadable"),
        ("csr new.csr --key certs/qwac.p12", 3, "pkcs12.unreadable"),
        ("csr new.csr --key-kind ed25519", 2, "pki.key-kind"), ("csr new.csr --roles PSP_XX", 2, "pki.role"),
        ("csr new.csr --key certs/qwac.key --key-kind p384", 2, "--key-kind"),
        ("csr new.csr --kind qseal --dns a.example", 2, "--dns"), ("csr new.csr --qscd", 2, "--qscd"),
        ("csr m.key", 2, "file.exists"),
    ],
)  # fmt: skip
def test_wrong_use_is_reported_and_changes_nothing(tppkit, certs, arguments, exit_code, message):
    before = {path: path.stat().st_mtime_ns for path in certs.parent.rglob("*")}
    result = tppkit("pki", *arguments.split())
    assert (result.exit_code, message in result.stderr) == (exit_code, True), result.stderr
    assert {path: path.stat().st_mtime_ns for path in certs.parent.rglob("*")} == before


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
def test_a_request_is_written_with_its_key(tppkit, tmp_path, kind):
    options = ["--kind", kind, "--name", "Žalias Bankas", "--org-id", "PSDLV-FKTK-1", "--roles", "PSP_AI"]
    assert tppkit("pki", "csr", "a.csr", *options, "--json").json == {"files": ["a.csr", "a.key"]}
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    (shown,) = tppkit("cert", "show", "--json", "a.csr").json
    assert (shown["psd2"]["roles"], shown["organization_identifier"]["text"]) == (["PSP_AI"], "PSDLV-FKTK-1")
    assert (shown["qc_types"], shown["findings"]) == (["web" if kind == "qwac" else "eseal"], [])


def test_an_existing_key_is_kept_and_no_request_is_left(tppkit, tmp_path):
    (tmp_path / "a.key").write_text("precious")
    assert tppkit("pki", "csr", "a.csr").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]


def test_the_key_of_a_request_may_be_pkcs12(tppkit, tmp_path, certs):
    (tmp_path / "password").write_bytes(b"test\n")
    made = tppkit("pki", "csr", "own.csr", "--key", "certs/qwac.p12", "--password-file", "password")
    assert made.exit_code == 0, made.stderr
    (shown, used) = tppkit("cert", "show", "own.csr", "certs/qwac.pem", "--json").json
    assert (shown["key"], shown["findings"]) == (used["key"], [])


def test_keys_requests_and_certificates_are_read_from_standard_input(tppkit, certs):
    key = key_pem(KeySource().make_key("theirs"))
    assert tppkit("pki", "csr", "theirs.csr", "--key", "-", stdin=key).stdout == "theirs.csr\n"
    request = (certs.parent / "theirs.csr").read_bytes()
    (shown,) = tppkit("cert", "show", "-", "--json", stdin=request).json
    assert (shown["kind"], shown["findings"]) == ("csr", [])
    issued = tppkit("pki", "issue", "csr", "certs", "--csr", "-", "--json", stdin=request).json
    theirs = (certs / issued["path"]).read_bytes()
    assert tppkit("pki", "revoke", "-", "--dir", "certs", "--json", stdin=theirs).json["reason"] == "unspecified"
    assert not list(certs.parent.rglob("-*"))


def test_a_further_certificate_begins_today_in_an_old_folder_and_is_for_its_provider(tppkit):
    create = "pki create old --at 2024-02-01 --days 30 --org-id PSDDE-BAFIN-77 --name Zahlgut --nca-name Aufsicht"
    tppkit(*create.split())
    issued = tppkit("pki", "issue", "qwac", "old", "--json").json
    verdict = tppkit("cert", "check", f"old/{issued['path']}", "--as", "qwac", "--trust", "old", "--json")
    assert (verdict.exit_code, verdict.json["findings"]) == (0, [])
    (shown,) = tppkit("cert", "show", "--json", f"old/{issued['path']}").json
    assert shown["not_before"] == f"{datetime.now(UTC):%Y-%m-%d}T00:00:00Z"
    assert shown["subject"] == "CN=tpp.test.example.com,organizationIdentifier=PSDDE-BAFIN-77,O=Zahlgut,C=DE"
    assert shown["psd2"]["nca_name"] == "Aufsicht"


def test_a_hold_is_shown_lifted_and_made_final(tppkit, certs):
    held = tppkit("pki", "revoke", "certs/qwac.pem", "--reason", "certificateHold", "--json").json
    lifted = held | {"lifted": True, "reason": None, "at": None}
    assert tppkit("pki", "revoke", "certs/qwac.pem", "--lift", "--json").json == lifted
    assert "no longer on hold" not in tppkit("pki", "revoke", "certs/qwac.pem", "--reason", "certificateHold").stdout
    final = tppkit("pki", "revoke", "certs/qwac.pem", "--reason", "keyCompromise")
    assert (final.exit_code, "keyCompromise" in final.stdout) == (0, True)


def test_a_request_that_does_not_state_its_kind_is_refused(tppkit, certs, tmp_path, pki):
    draft = no_statement(oids.QC_TYPE)(Draft.of(pki.qseal.certificate))
    (tmp_path / "bare.csr").write_bytes(write_request(draft.subject, draft.extensions, KeySource().make_key("bare")))
    refused = tppkit("pki", "issue", "csr", "certs", "--csr", "bare.csr")
    assert (refused.exit_code, "QcType" in refused.stderr) == (2, True)


def test_the_lists_are_renewed(tppkit, certs):
    before = {path: path.read_bytes() for path in (*certs.glob("*.crl"), *certs.glob("trusted-lists/*.xml"))}
    assert len(tppkit("pki", "renew", "certs", "--json").json["files"]) == len(before) == 5
    assert all(path.read_bytes() != content for path, content in before.items())
    assert tppkit("pki", "renew", "certs").stdout.splitlines()[0] == "certs/root.crl"


def test_a_pki_that_begins_in_the_future_can_revoke(tppkit):
    tppkit("pki", "create", "certs", "--at", "2090-01-01")
    revoked = tppkit("pki", "revoke", "certs/qwac.pem", "--reason", "certificateHold", "--json")
    assert (revoked.exit_code, revoked.json["at"]) == (0, "2090-01-01T00:00:00Z")
    checked = tppkit(
        "cert", "check", "certs/qwac-chain.pem", "--as", "qwac", "--trust", "certs/root.pem", "--at", "2090-01-01T12:00:00Z",
        "--crl", "certs/issuing-ca-qwac.crl", "--json",
    )  # fmt: skip
    assert (checked.exit_code, "revocation.revoked" in {f["code"] for f in checked.json["findings"]}) == (1, True)
    assert tppkit("pki", "revoke", "certs/qwac.pem", "--lift").exit_code == 0


def test_a_long_wait_is_announced(tppkit):
    result = tppkit("pki", "create", "certs", "--seed", "1", "--seal-key", "rsa2048")
    assert "RSA keys from a seed" in result.stderr
    assert "RSA keys from a seed" not in tppkit("pki", "create", "others", "--seed", "1").stderr
