"""`tppkit cert pair` and `tppkit cert renewal`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tppkit.testpki import Pki, certificate_pem, make_provider


@pytest.fixture
def folder(tmp_path: Path, pki: Pki, other_qseal) -> Path:
    """A pair, another organisation's seal, a renewal, and one that can do less."""
    later = replace(pki, not_before=pki.not_before + timedelta(days=330))
    issued = {
        "qwac": pki.qwac,
        "qseal": pki.qseal,
        "other-qseal": other_qseal,
        "next-qwac": later.issue_qwac(pki.provider, label="next"),
        "reader-qwac": later.issue_qwac(make_provider(roles=("PSP_AI",)), label="reader"),
    }
    for name, one in issued.items():
        (tmp_path / f"{name}.pem").write_bytes(certificate_pem(one.certificate))
    return tmp_path


def test_a_pair_of_one_provider_holds(tppkit, folder, pki):
    result = tppkit("cert", "pair", "qwac.pem", "qseal.pem", "--json")
    assert result.exit_code == 0
    verdict = result.json
    assert (verdict["verdict"], verdict["code"]) == ("holds", None)
    assert [finding["code"] for finding in verdict["findings"]] == ["pair.other-issuer"]
    assert verdict["organization_identifier"] == "PSDLT-BL-LB000000"
    assert (verdict["nca_id"], verdict["roles"]) == ("LT-BL", ["PSP_PI", "PSP_AI"])
    assert (verdict["qwac"]["sha256"], verdict["qseal"]["sha256"]) == (
        pki.qwac.certificate.sha256,
        pki.qseal.certificate.sha256,
    )
    assert verdict["valid_together"] == [verdict["qwac"]["not_before"], verdict["qseal"]["not_after"]]


def test_a_seal_of_another_organisation_is_not_a_pair(tppkit, folder):
    result = tppkit("cert", "pair", "qwac.pem", "other-qseal.pem", "--json")
    assert result.exit_code == 1
    assert (result.json["verdict"], result.json["code"]) == ("fails", "pair.other-organisation")
    assert (result.json["organization_identifier"], result.json["nca_id"]) == (None, None)
    values = result.json["findings"][0]["values"]
    assert values == {"qwac": "PSDLT-BL-LB000000", "qseal": "PSDDE-BAFIN-999999"}


def test_a_swapped_pair_is_detected(tppkit, folder):
    result = tppkit("cert", "pair", "qseal.pem", "qwac.pem")
    assert result.exit_code == 1
    assert result.stdout.startswith("fails (pair.swapped): qseal.pem and qwac.pem\n")


def test_a_flawless_renewal_holds_with_notices(tppkit, folder):
    result = tppkit("cert", "renewal", "qwac.pem", "next-qwac.pem", "--json")
    assert result.exit_code == 0
    assert result.json["verdict"] == "holds"
    assert {finding["severity"] for finding in result.json["findings"]} == {"notice"}
    strategies = {finding["values"]["strategy"] for finding in result.json["findings"]}
    assert strategies == {"thumbprint", "issuer-and-serial", "public-key", "validity"}
    assert result.json["old"]["not_after"] < result.json["new"]["not_after"]


def test_a_renewal_with_fewer_roles_warns(tppkit, folder):
    result = tppkit("cert", "renewal", "qwac.pem", "reader-qwac.pem")
    assert result.exit_code == 0
    assert "1 warning\n  renewal.roles-removed\n" in result.stdout
    assert "PSP_PI" in result.stdout


def test_another_kind_of_certificate_is_not_a_renewal(tppkit, folder):
    result = tppkit("cert", "renewal", "qwac.pem", "qseal.pem", "--json")
    assert (result.exit_code, result.json["code"]) == (1, "renewal.kind")


@pytest.mark.parametrize("command", ["pair", "renewal"])
def test_what_cannot_be_read_is_named(tppkit, folder, request_der, command):
    (folder / "request.der").write_bytes(request_der)
    (folder / "bad.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n")
    for name, code in (
        ("bad.pem", "pem.malformed"),
        ("absent", "file.unreadable"),
        ("request.der", "certificate.is-request"),
    ):
        for arguments in ((name, "qseal.pem"), ("qwac.pem", name)):
            result = tppkit("cert", command, *arguments, "--json")
            assert (result.exit_code, result.json["file"], result.json["error"]["code"]) == (3, name, code)
    text = tppkit("cert", command, "bad.pem", "qseal.pem")
    assert (text.exit_code, text.stdout) == (3, "")
    assert "bad.pem" in text.stderr
    assert "pem.malformed" in text.stderr


@pytest.mark.parametrize("command", ["pair", "renewal"])
def test_wrong_usage_exits_2(tppkit, folder, command):
    assert tppkit("cert", command, "qwac.pem").exit_code == 2
    assert tppkit("cert", command, "qwac.pem", "qseal.pem", "next-qwac.pem").exit_code == 2
    assert tppkit("cert", command, "-", "-").exit_code == 2


def test_one_of_the_two_may_be_standard_input(tppkit, folder):
    seal = (folder / "qseal.pem").read_bytes()
    assert tppkit("cert", "pair", "qwac.pem", "-", stdin=seal).exit_code == 0


def test_two_pkcs12_files_may_have_two_passwords(tppkit, folder, pki):
    for name, issued in (("qwac", pki.qwac), ("qseal", pki.qseal)):
        encryption = BestAvailableEncryption(name.encode())
        held = pkcs12.serialize_key_and_certificates(b"x", issued.key, issued.certificate.x509, None, encryption)
        (folder / f"{name}.p12").write_bytes(held)
        (folder / f"{name}.password").write_bytes(name.encode() + b"\n")
    first, second = ("--password-file", "qwac.password"), ("--password-file", "qseal.password")
    pair = ("cert", "pair", "qwac.p12", "qseal.p12", "--json")
    assert tppkit(*pair, *first, *second).exit_code == 0
    for wrong in (first, (*second, *first)):
        refused = tppkit(*pair, *wrong)
        assert (refused.exit_code, refused.json["error"]["code"]) == (3, "pkcs12.unreadable")
    assert tppkit(*pair, *first, *second, *second).exit_code == 2
    assert tppkit("cert", "renewal", "qwac.p12", "qwac.p12", *first).exit_code in (0, 1)
