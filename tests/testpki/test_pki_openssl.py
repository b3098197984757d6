"""The test PKI as an independent reader sees it: the command line of OpenSSL."""

from __future__ import annotations

import re
import subprocess

import pytest

from programs import needed
from tppkit.testpki import make_pki, write_pki

pytestmark = pytest.mark.slow

LEAVES = {
    "qwac": "qwac",
    "qseal": "qseal",
    "other-qwac": "qwac",
    "other-qseal": "qseal",
    "server": "qwac",
    "bank-seal": "qseal",
}


def openssl(*arguments: object) -> str:
    return subprocess.run([needed("openssl"), *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=["p256", "p384", "rsa2048"])
def written(request, pki, rsa_pki, tmp_path_factory):
    """The PKI and the folder of its files, for each kind of key."""
    made = {"p256": pki, "rsa2048": rsa_pki}.get(request.param) or make_pki(at=pki.not_before, key="p384", seed=1)
    folder = tmp_path_factory.mktemp("openssl") / "pki"
    write_pki(made, folder)
    return made, folder


def test_leaves_verify_through_their_authority_only(written):
    pki, folder = written
    options = ["-x509_strict", "-attime", int(pki.not_before.timestamp()), "-CAfile", folder / "root.pem"]
    for label, issuer in LEAVES.items():
        leaf, authority = folder / f"{label}.pem", folder / f"issuing-ca-{issuer}.pem"
        assert openssl("verify", *options, "-untrusted", authority, leaf).endswith(f"{label}.pem: OK\n")
    with pytest.raises(subprocess.CalledProcessError):
        openssl("verify", *options, "-untrusted", folder / "issuing-ca-qseal.pem", folder / "qwac.pem")


@pytest.mark.parametrize("label", ["qwac", "qseal"])
def test_the_statements_are_der_that_names_roles_and_authority(written, tmp_path, label):
    pki, _ = written
    (tmp_path / "leaf.der").write_bytes(getattr(pki, label).certificate.der)
    lines = openssl("asn1parse", "-inform", "DER", "-in", tmp_path / "leaf.der").splitlines()
    place = next(i for i, line in enumerate(lines) if line.endswith(":qcStatements"))
    offset = lines[place + 1].split(":")[0].strip()
    parsed = openssl("asn1parse", "-inform", "DER", "-in", tmp_path / "leaf.der", "-strparse", offset)
    assert re.findall(r"UTF8STRING +:(.*)", parsed) == ["PSP_PI", "PSP_AI", "Bank of Lithuania", "LT-BL"]
    assert re.findall(r"(?:IA5|PRINTABLE)STRING +:(.*)", parsed) == ["https://pki.test.example.com/pds_en.pdf", "en"]
    identifiers = re.findall(r"OBJECT +:(0\.4\.0\.19495.*)", parsed)
    assert identifiers == ["0.4.0.19495.2", "0.4.0.19495.1.2", "0.4.0.19495.1.3"]


def test_keys_serial_numbers_and_hashes_are_those_we_read(written):
    pki, folder = written
    for issued in pki.issued:
        assert "Key is valid" in openssl("pkey", "-in", folder / f"{issued.label}.key", "-noout", "-check")
        answer = openssl("x509", "-in", folder / f"{issued.label}.pem", "-noout", "-serial", "-fingerprint", "-sha256")
        assert f"serial={issued.certificate.serial_hex}\n" in answer
        assert answer.strip().replace(":", "").lower().endswith(issued.certificate.sha256)


@pytest.mark.parametrize("label", LEAVES)
def test_every_form_contains_the_same_key_and_certificate(written, label):
    stem = written[1] / label
    bundle = openssl("pkcs12", "-in", f"{stem}.p12", "-passin", "pass:test", "-noenc")
    assert (bundle.count("BEGIN CERTIFICATE"), bundle.count("BEGIN PRIVATE KEY")) == (2, 1)
    assert f"friendlyName: {label}" in bundle
    with pytest.raises(subprocess.CalledProcessError):
        openssl("pkcs12", "-in", f"{stem}.p12", "-passin", "pass:wrong", "-noenc")
    keys = {
        openssl("pkey", "-in", f"{stem}.key", "-pubout"), openssl("x509", "-in", f"{stem}.pem", "-noout", "-pubkey"),
    }  # fmt: skip
    assert len(keys) == 1


@pytest.mark.parametrize("label", ["root", "issuing-ca-qwac", "issuing-ca-qseal"])
def test_revocation_lists_are_signed_by_their_authority(written, label):
    _, folder = written
    options = ["-inform", "DER", "-in", folder / f"{label}.crl", "-noout"]
    assert "No Revoked Certificates" in openssl("crl", *options, "-text")
    openssl("crl", *options, "-CAfile", folder / f"{label}.pem")
