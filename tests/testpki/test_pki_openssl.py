"""The test PKI as an independent reader has it: OpenSSL's command line."""

from __future__ import annotations

import base64
import re
import subprocess

import pytest

from tppkit.testpki import make_pki, write_pki


def openssl(*arguments: object) -> str:
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", params=["p256", "p384", "rsa2048"])
def written(request, pki, rsa_pki, tmp_path_factory):
    """The PKI and the folder of its files, for each kind of key."""
    made = {"p256": pki, "rsa2048": rsa_pki}.get(request.param) or make_pki(at=pki.not_before, key="p384", seed=1)
    folder = tmp_path_factory.mktemp("openssl") / "pki"
    write_pki(made, folder)
    return made, folder


def text_of(folder, label: str) -> str:
    return openssl("x509", "-in", folder / f"{label}.pem", "-noout", "-text")


@pytest.mark.parametrize(("label", "issuer"), [("qwac", "qwac"), ("qseal", "qseal"), ("server", "qwac")])
def test_leaves_verify_through_their_authority(written, label, issuer):
    pki, folder = written
    at = int(pki.not_before.timestamp())
    answer = openssl(
        "verify", "-x509_strict", "-attime", at, "-CAfile", folder / "root.pem",
        "-untrusted", folder / f"issuing-ca-{issuer}.pem", folder / f"{label}.pem",
    )  # fmt: skip
    assert answer.endswith(f"{label}.pem: OK\n")


def test_a_leaf_does_not_verify_through_the_other_authority(written):
    pki, folder = written
    with pytest.raises(subprocess.CalledProcessError):
        openssl(
            "verify", "-attime", int(pki.not_before.timestamp()), "-CAfile", folder / "root.pem",
            "-untrusted", folder / "issuing-ca-qseal.pem", folder / "qwac.pem",
        )  # fmt: skip


def test_the_qwac_reads_as_it_should(written):
    text = text_of(written[1], "qwac")
    assert re.search(r"Key Usage: critical\n\s+Digital Signature\n", text)
    assert re.search(r"Extended Key Usage: ?\n\s+TLS Web Server Authentication, TLS Web Client Authentication\n", text)
    assert "DNS:tpp.test.example.com\n" in text
    assert "Policy: 0.4.0.194112.1.6\n" in text
    assert "OCSP - URI:http://pki.test.example.com/ocsp\n" in text


def test_the_seal_reads_as_it_should(written):
    text = text_of(written[1], "qseal")
    assert re.search(r"Key Usage: critical\n\s+Non Repudiation\n", text)
    assert "Extended Key Usage" not in text
    assert "Subject Alternative Name" not in text
    assert "Policy: 0.4.0.194112.1.1\n" in text


@pytest.mark.parametrize(
    ("label", "length"), [("root", ""), ("issuing-ca-qwac", ", pathlen:0"), ("issuing-ca-qseal", ", pathlen:0")]
)
def test_authorities_read_as_authorities(written, label, length):
    text = text_of(written[1], label)
    assert re.search(rf"Basic Constraints: critical\n\s+CA:TRUE{length}\n", text)
    assert re.search(r"Key Usage: critical\n\s+Certificate Sign, CRL Sign\n", text)


def test_the_subject_and_serial_are_those_we_read(written):
    pki, folder = written
    for issued in pki.issued:
        answer = openssl("x509", "-in", folder / f"{issued.label}.pem", "-noout", "-serial", "-fingerprint", "-sha256")
        assert f"serial={issued.certificate.serial_hex}\n" in answer
        assert answer.strip().replace(":", "").lower().endswith(issued.certificate.sha256)


@pytest.mark.parametrize("label", ["qwac", "qseal"])
def test_the_statements_are_der_that_names_roles_and_authority(written, tmp_path, label):
    pki, _ = written
    certificate = getattr(pki, label).certificate
    (tmp_path / "leaf.der").write_bytes(certificate.der)
    lines = openssl("asn1parse", "-inform", "DER", "-in", tmp_path / "leaf.der").splitlines()
    place = next(i for i, line in enumerate(lines) if line.endswith(":qcStatements"))
    offset = lines[place + 1].split(":")[0].strip()
    parsed = openssl("asn1parse", "-inform", "DER", "-in", tmp_path / "leaf.der", "-strparse", offset)
    assert re.findall(r"UTF8STRING +:(.*)", parsed) == ["PSP_PI", "PSP_AI", "Bank of Lithuania", "LT-BL"]
    assert re.findall(r"IA5STRING +:(.*)", parsed) == ["https://pki.test.example.com/pds_en.pdf"]
    assert re.findall(r"PRINTABLESTRING +:(.*)", parsed) == ["en"]
    identifiers = re.findall(r"OBJECT +:(.*)", parsed)
    assert [oid for oid in identifiers if oid.startswith("0.4.0.19495")] == [
        "0.4.0.19495.2",
        "0.4.0.19495.1.2",
        "0.4.0.19495.1.3",
    ]


def test_keys_are_sound(written):
    pki, folder = written
    for issued in pki.issued:
        assert "Key is valid" in openssl("pkey", "-in", folder / f"{issued.label}.key", "-noout", "-check")


@pytest.mark.parametrize("label", ["qwac", "qseal", "other-qwac", "other-qseal", "server"])
def test_every_form_says_the_same(written, label):
    pki, folder = written
    stem = folder / label
    bundle = openssl("pkcs12", "-in", f"{stem}.p12", "-passin", "pass:test", "-noenc")
    assert bundle.count("BEGIN CERTIFICATE") == 2
    assert bundle.count("BEGIN PRIVATE KEY") == 1
    assert f"friendlyName: {label}" in bundle
    with pytest.raises(subprocess.CalledProcessError):
        openssl("pkcs12", "-in", f"{stem}.p12", "-passin", "pass:wrong", "-noenc")
    keys = {
        openssl("pkey", "-in", f"{stem}.key", "-pubout"), openssl("x509", "-in", f"{stem}.pem", "-noout", "-pubkey"),
        openssl("x509", "-inform", "DER", "-in", f"{stem}.der", "-noout", "-pubkey"),
        openssl("req", "-in", f"{stem}.csr", "-noout", "-pubkey"),
    }  # fmt: skip
    assert len(keys) == 1
    openssl("req", "-in", f"{stem}.csr", "-noout", "-verify")
    assert base64.b64decode((folder / f"{label}.b64").read_text()) == pki.members[label].certificate.der


@pytest.mark.parametrize("label", ["root", "issuing-ca-qwac", "issuing-ca-qseal"])
def test_revocation_lists_are_signed_by_their_authority(written, label):
    _, folder = written
    text = openssl("crl", "-inform", "DER", "-in", folder / f"{label}.crl", "-noout", "-text")
    assert "No Revoked Certificates" in text
    openssl("crl", "-inform", "DER", "-in", folder / f"{label}.crl", "-noout", "-CAfile", folder / f"{label}.pem")
