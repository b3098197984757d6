"""`tppkit cert check`: verdict, reasons and exit code."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from tppkit.certificates import der
from tppkit.testpki import Pki, certificate_pem
from tppkit.testpki.certificate import Extension
from tppkit.testpki.crl import Revocation, write_crl
from tppkit.testpki.ocsp import Single, write_answer

AT = "2026-06-01T12:00:00Z"
KEYS = {
    "verdict", "code", "findings", "at", "as", "rules", "subject", "sha256", "organization_identifier", "roles", "chain",
    "revocation", "trusted_list",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, pki: Pki) -> Path:
    """A QWAC and a QSealC alone and with what stands above them, and the root."""
    for name in ("qwac", "qseal"):
        issued = getattr(pki, name)
        (tmp_path / f"{name}.pem").write_bytes(certificate_pem(issued.certificate))
        chain = b"".join(certificate_pem(c) for c in (issued.certificate, *issued.chain))
        (tmp_path / f"{name}-chain.pem").write_bytes(chain)
    (tmp_path / "trust").mkdir()
    (tmp_path / "trust" / "root.pem").write_bytes(certificate_pem(pki.root.certificate))
    return tmp_path


@pytest.mark.parametrize(("name", "use", "roles"), [("qwac", "qwac", "web"), ("qseal", "qseal", "eseal")])
def test_a_good_certificate_holds(tppkit, folder, pki, name, use, roles):
    result = tppkit("cert", "check", f"{name}.pem", "--as", use, "--at", AT, "--json")
    assert result.exit_code == 0
    verdict = result.json
    assert verdict.keys() >= KEYS
    assert (verdict["verdict"], verdict["code"], verdict["findings"]) == ("holds", None, [])
    assert (verdict["as"], verdict["at"], verdict["chain"], verdict["revocation"]) == (use, AT, None, None)
    assert verdict["sha256"] == getattr(pki, name).certificate.sha256
    assert verdict["organization_identifier"] == "PSDLT-BL-LB000000"
    assert verdict["roles"] == ["PSP_PI", "PSP_AI"]


def test_a_qsealc_checked_as_a_qwac_has_every_reason(tppkit, folder):
    result = tppkit("cert", "check", "qseal.pem", "--as", "qwac", "--at", AT, "--json")
    assert result.exit_code == 1
    assert result.json["verdict"] == "fails"
    assert result.json["code"] == result.json["findings"][0]["code"]
    codes = [finding["code"] for finding in result.json["findings"] if finding["severity"] == "error"]
    assert {"qcstatements.not-web", "certificate.no-client-auth", "certificate.key-usage"} <= {*codes}


def test_with_anchors_the_chain_is_printed(tppkit, folder, pki):
    result = tppkit("cert", "check", "qwac-chain.pem", "--as", "qwac", "--at", AT, "--trust", "trust", "--json")
    assert result.exit_code == 0
    expected = (pki.qwac.certificate, pki.qwac_ca.certificate, pki.root.certificate)
    assert result.json["chain"] == [str(certificate.subject) for certificate in expected]


@pytest.mark.parametrize(
    "command",
    [("cert", "check", "qwac-chain.pem", "--as", "qwac"), ("cert", "check", "qseal-chain.pem", "--as", "qseal")],
)
def test_an_unreadable_file_of_the_trust_material_is_a_warning(tppkit, folder, command):
    (folder / "trust" / "odd.pem").write_text("no certificate")
    result = tppkit(*command, "--at", AT, "--trust", "trust", "--json")
    assert (result.exit_code, result.json["findings"]) == (0, [])
    assert "trust/odd.pem near line 1 cannot be read" in result.stderr
    assert "[trust.skipped]" in result.stderr


def test_a_certificate_without_its_intermediate_is_not_trusted(tppkit, folder):
    result = tppkit("cert", "check", "qwac.pem", "--as", "qwac", "--at", AT, "--trust", "trust", "--json")
    assert (result.exit_code, result.json["verdict"], result.json["chain"]) == (1, "fails", None)
    assert result.json["code"] == "trust.no-path"


def test_an_expired_certificate_has_one_finding_about_it(tppkit, folder):
    arguments = ("qwac-chain.pem", "--as", "qwac", "--at", "2031-01-01", "--trust", "trust", "--json")
    result = tppkit("cert", "check", *arguments)
    assert (result.exit_code, result.json["code"]) == (1, "certificate.expired")
    assert [finding["code"] for finding in result.json["findings"]].count("certificate.expired") == 1


def test_text_begins_with_the_verdict_and_has_advice(tppkit, folder):
    held = tppkit("cert", "check", "qwac-chain.pem", "--as", "qwac", "--at", AT, "--trust", "trust")
    assert held.stdout.startswith("holds: qwac-chain.pem as QWAC at 2026-06-01T12:00:00Z\n")
    assert "   CN=tppkit TEST Root CA" in held.stdout
    failed = tppkit("cert", "check", "qseal.pem", "--as", "qwac", "--at", AT)
    assert failed.exit_code == 1
    first, *_ = failed.stdout.splitlines()
    assert first.startswith("fails (")
    assert first.endswith("no chain was checked: neither --trust nor --trusted-lists was given")
    assert "qcstatements.not-web (EN 319 412-5 clause 4.2.3)\n" in failed.stdout
    assert "    do: " in failed.stdout


def test_every_form_of_a_certificate_is_accepted(tppkit, folder, pki):
    issued = pki.qwac
    bundle = pkcs12.serialize_key_and_certificates(
        b"qwac", issued.key, issued.certificate.x509, [c.x509 for c in issued.chain], BestAvailableEncryption(b"pass")
    )
    (folder / "qwac.p12").write_bytes(bundle)
    (folder / "password").write_bytes(b"pass\n")
    (folder / "qwac.der").write_bytes(issued.certificate.der)
    (folder / "qwac.b64").write_bytes(b":" + base64.b64encode(issued.certificate.der) + b":")
    whole = ("--as", "qwac", "--at", AT)
    assert tppkit("cert", "check", "qwac.der", *whole).exit_code == 0
    assert tppkit("cert", "check", "qwac.b64", *whole).exit_code == 0
    assert tppkit("cert", "check", "-", *whole, stdin=issued.certificate.der).exit_code == 0
    p12 = tppkit("cert", "check", "qwac.p12", *whole, "--trust", "trust", "--password-file", "password", "--json")
    assert (p12.exit_code, len(p12.json["chain"])) == (0, 3)
    wrong = tppkit("cert", "check", "qwac.p12", *whole, "--json")
    assert (wrong.exit_code, wrong.json["error"]["code"]) == (3, "pkcs12.unreadable")


def test_what_cannot_be_read_as_a_certificate_has_a_code(tppkit, folder, request_der):
    files = {"text": b"hello", "bad": b"\x30\x82garbage", "request.der": request_der}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for name, options, file, code in (
        ("text", (), "text", "certificate.not-found"), ("bad", (), "bad", "certificate.malformed"),
        ("request.der", (), "request.der", "certificate.is-request"), ("absent", (), "absent", "file.unreadable"),
        ("qwac.pem", ("--password-file", "gone"), "gone", "file.unreadable"),
    ):  # fmt: skip
        reported = tppkit("cert", "check", name, "--as", "qwac", *options, "--json")
        assert (reported.exit_code, reported.json["file"], reported.json["error"]["code"]) == (3, file, code)
        text = tppkit("cert", "check", name, "--as", "qwac", *options)
        assert (text.exit_code, text.stdout, code in text.stderr) == (3, "", True), name


@pytest.mark.parametrize(
    "arguments",
    [(), ("qwac.pem",), ("qwac.pem", "--as", "tls"), ("qwac.pem", "--as", "qwac", "--at", "tomorrow"),
     ("qwac.pem", "--as", "qwac", "--trust", "absent"), ("qwac.pem", "--as", "qwac", "--trust", "qwac.pem")],
)  # fmt: skip
def test_wrong_usage_exits_2(tppkit, folder, arguments):
    assert tppkit("cert", "check", *arguments).exit_code == 2


def test_several_files_are_a_list_and_the_worst_exit_code_counts(tppkit, folder):
    whole = ("--as", "qwac", "--at", AT, "--trust", "trust", "--json")
    cases = (
        (["qwac-chain.pem", "qwac-chain.pem"], 0, [None, None]),
        (["qseal.pem", "qwac-chain.pem"], 1, ["qcstatements.not-web", None]),
        (["absent", "qseal.pem", "qwac-chain.pem"], 3, ["file.unreadable", "qcstatements.not-web", None]),
    )
    for files, exit_code, codes in cases:
        result = tppkit("cert", "check", *files, *whole)
        assert (result.exit_code, [entry["file"] for entry in result.json]) == (exit_code, files)
        assert [entry.get("error", entry).get("code") for entry in result.json] == codes
    text = tppkit("cert", "check", *cases[2][0], *whole[:-1])
    verdicts = [line.split()[0] for line in text.stdout.splitlines() if line.startswith(("fails", "holds"))]
    assert verdicts == ["fails", "holds:"]
    assert "file.unreadable" in text.stderr
    assert tppkit("cert", "check", "-", "-", *whole).exit_code == 2


@pytest.mark.shared
def test_every_real_certificate_gets_a_verdict(tppkit, shared_data):
    files = sorted((shared_data / "certificates" / "psd2").glob("*.der"))
    assert len(files) > 20
    for file in files[::10]:
        result = tppkit("cert", "check", file, "--as", "qwac", "--json")
        assert result.exit_code in (0, 1)
        assert json.loads(result.stdout)["verdict"] == ("fails" if result.exit_code else "holds")


NOW = datetime(2026, 6, 1, 11, tzinfo=UTC)


def crl_of(pki: Pki, *revoked: int, key=None, is_delta: bool = False) -> bytes:
    """A CRL of the QWACs' authority, fresh at `AT`."""
    further = (Extension("2.5.29.27", der.write_integer(1), critical=True),) if is_delta else ()
    entries, until = [Revocation(serial, NOW) for serial in revoked], NOW + timedelta(days=1)
    return write_crl(pki.qwac_ca, entries, this_update=NOW, next_update=until, number=1, key=key, further=further)


JUDGED = ("qwac-chain.pem", "--as", "qwac", "--at", AT, "--trust", "trust", "--json")


def test_a_crl_proves_the_certificate_good_but_not_its_authority(tppkit, folder, pki):
    (folder / "ca.crl").write_bytes(crl_of(pki))
    result = tppkit("cert", "check", *JUDGED, "--crl", "ca.crl")
    assert (result.exit_code, result.json["verdict"]) == (0, "holds")
    assert [status["state"] for status in result.json["revocation"]] == ["good", "unknown"]
    assert [(f["code"], f["severity"]) for f in result.json["findings"]] == [("revocation.unknown", "warning")]


def test_a_delta_crl_revokes_beside_a_fresh_complete_one(tppkit, folder, pki):
    (folder / "base.crl").write_bytes(crl_of(pki))
    (folder / "delta.crl").write_bytes(crl_of(pki, pki.qwac.certificate.serial, is_delta=True))
    (folder / "empty.crl").write_bytes(crl_of(pki, is_delta=True))
    both = b"".join(
        x509.load_der_x509_crl((folder / name).read_bytes()).public_bytes(Encoding.PEM)
        for name in ("base.crl", "delta.crl")
    )
    (folder / "both.pem").write_bytes(both)
    for lists in (("--crl", "base.crl", "--crl", "delta.crl"), ("--crl", "both.pem")):
        result = tppkit("cert", "check", *JUDGED, *lists)
        assert (result.exit_code, result.json["code"]) == (1, "revocation.revoked")
    result = tppkit("cert", "check", *JUDGED, "--crl", "base.crl", "--crl", "empty.crl")
    assert (result.exit_code, [f["code"] for f in result.json["findings"]]) == (0, ["crl.delta", "revocation.unknown"])


def test_a_crl_that_another_key_signed_proves_nothing(tppkit, folder, pki):
    (folder / "ca.crl").write_bytes(crl_of(pki, pki.qwac.certificate.serial, key=pki.qwac.key))
    result = tppkit("cert", "check", *JUDGED, "--crl", "ca.crl")
    assert (result.exit_code, result.json["code"]) == (1, "revocation.unknown")


def test_a_chain_without_revocation_data_is_printed_as_not_asked(tppkit, folder):
    reported = ("qwac-chain.pem", "--as", "qwac", "--at", AT)
    result = tppkit("cert", "check", *reported, "--trust", "trust")
    (line,) = [line for line in result.stdout.splitlines() if line.strip().startswith("revocation")]
    assert (result.exit_code, line.split(maxsplit=1)[1]) == (0, "not asked; give --crl or --ocsp")
    assert "revocation" not in tppkit("cert", "check", *reported).stdout
    assert tppkit("cert", "check", *JUDGED).json["findings"] == []


def test_a_revoked_certificate_fails(tppkit, folder, pki):
    (folder / "ca.crl").write_bytes(crl_of(pki, pki.qwac.certificate.serial))
    result = tppkit("cert", "check", *JUDGED, "--crl", "ca.crl")
    assert (result.exit_code, result.json["code"], result.json["chain"]) == (1, "revocation.revoked", None)


def test_an_ocsp_response_of_a_stranger_proves_nothing(tppkit, folder, pki):
    good = Single(pki.qwac_ca, pki.qwac.certificate.serial, None, NOW, NOW + timedelta(days=1))
    (folder / "answer").write_bytes(write_answer(good, pki.qwac_ca, produced_at=NOW))
    assert tppkit("cert", "check", *JUDGED, "--ocsp", "answer").exit_code == 0
    (folder / "answer").write_bytes(write_answer(good, pki.qseal_ca, produced_at=NOW))
    result = tppkit("cert", "check", *JUDGED, "--ocsp", "answer")
    assert (result.exit_code, result.json["code"], result.json["chain"]) == (1, "revocation.unknown", None)


def test_answers_about_revocation_need_authorities(tppkit, folder, pki):
    (folder / "ca.crl").write_bytes(crl_of(pki))
    assert tppkit("cert", "check", "qwac.pem", "--as", "qwac", "--crl", "ca.crl").exit_code == 2


@pytest.mark.parametrize(
    ("option", "file", "code"),
    [("--ocsp", "qwac.pem", "revocation.unreadable"), ("--crl", "absent", "file.unreadable")],
)
def test_an_unreadable_answer_is_named(tppkit, folder, option, file, code):
    reported = tppkit("cert", "check", *JUDGED, option, file)
    assert (reported.exit_code, reported.json["file"], reported.json["error"]["code"]) == (3, file, code)
    text = tppkit("cert", "check", *JUDGED[:-1], option, file)
    assert (text.exit_code, text.stdout) == (3, "")
    assert code in text.stderr


def test_an_edition_is_named_and_an_unknown_one_is_wrong_usage(tppkit, folder):
    assert tppkit("cert", "check", *JUDGED, "--rules", "V1.4.1").json["rules"] == "V1.4.1"
    assert tppkit("cert", "check", *JUDGED, "--rules", "V9").exit_code == 2


@pytest.mark.shared
def test_trusted_lists_state_whether_it_is_qualified_for_its_use(tppkit, shared_data):
    qwac = shared_data / "certificates" / "psd2" / "openbanking-aspsp__QWac__09995cb9.der"
    lists = ("--trusted-lists", shared_data / "certificates" / "trusted-lists", "--at", "2020-11-21", "--json")
    listed = tppkit("cert", "check", qwac, "--as", "qwac", *lists).json
    assert (listed["trusted_list"]["qualified_for"], listed["trusted_list"]["territory"]) == (["web"], "NO")
    assert not [f for f in listed["findings"] if f["code"].startswith("trusted-list.")]
    assert listed["chain"][1:] == ["CN=Buypass Class 3 CA 2,O=Buypass AS-983163327,C=NO"]
    seal = tppkit("cert", "check", qwac, "--as", "qseal", *lists).json
    assert "trusted-list.purpose" in {finding["code"] for finding in seal["findings"]}


@pytest.mark.shared
def test_trusted_lists_without_an_authority_for_the_use_prove_no_chain(tppkit, folder, shared_data):
    lists = ("--trusted-lists", shared_data / "certificates" / "trusted-lists")
    result = tppkit("cert", "check", "qwac-chain.pem", "--as", "qwac", "--at", AT, *lists, "--json")
    errors = [finding["code"] for finding in result.json["findings"] if finding["severity"] == "error"]
    assert (result.exit_code, result.json["chain"]) == (1, None)
    assert "trust.no-anchors" in errors
    text = tppkit("cert", "check", "qwac-chain.pem", "--as", "qwac", "--at", AT, *lists)
    assert "no valid chain" in text.stdout


@pytest.mark.parametrize("files", [("qwac-chain.pem", "qwac.pem"), ("qwac.pem", "qwac-chain.pem")])
def test_a_file_is_not_trusted_by_the_intermediates_of_another(tppkit, folder, files):
    result = tppkit("cert", "check", *files, *JUDGED[1:])
    assert {Path(one["file"]).name: one["code"] for one in result.json} == {
        "qwac-chain.pem": None,
        "qwac.pem": "trust.no-path",
    }
