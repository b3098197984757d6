"""Certificates, CRLs and OCSP responses that the openssl command made."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import SignatureAlgorithmOID

from programs import needed
from refusals import refused
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, VerificationError
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationEvidence, load_revocation
from tppkit.trust.revocation.answers import RevocationSource
from tppkit.trust.revocation.ocsp import verify_ocsp
from tppkit.trust.revocation.ocsp_response import make_ocsp_request, parse_ocsp_response

CONFIGURATION = """
[ca]
default_ca = it
[it]
database = index.txt
serial = serial
crlnumber = crlnumber
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_days = 30
default_crl_days = 7
policy = anything
unique_subject = no
[anything]
commonName = supplied
[leaf]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[responder]
keyUsage = critical, digitalSignature
extendedKeyUsage = OCSPSigning
noCheck = ignored
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[req]
distinguished_name = nobody
[nobody]
"""


class Authority:
    """An authority in a folder, run by the openssl command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, content in (("ca.cnf", CONFIGURATION), ("index.txt", ""), ("serial", "1000"), ("crlnumber", "01")):
            (folder / name).write_text(content)
        self.key("ca")
        self.run(
            "req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=CA", "-days", "60", "-out", "ca.pem",
            "-config", "ca.cnf", "-extensions", "authority",
        )  # fmt: skip

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [needed("openssl"), *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def key(self, name: str, *kind: str) -> None:
        kind = kind or ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        self.run("genpkey", "-algorithm", *kind, "-out", f"{name}.key")

    def issue(self, name: str, *kind: str, extensions: str = "leaf", digest: str = "sha256") -> EidasCertificate:
        self.key(name, *kind)
        self.run(
            "req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr", "-config", "ca.cnf"
        )
        self.run(
            "ca", "-batch", "-config", "ca.cnf", "-extensions", extensions, "-in", f"{name}.csr", "-out", f"{name}.pem",
            "-notext", "-md", digest,
        )  # fmt: skip
        return self.certificate(name)

    def certificate(self, name: str) -> EidasCertificate:
        return EidasCertificate.from_pem((self.folder / f"{name}.pem").read_bytes())

    def answer(self, certificate: EidasCertificate, *options: str, signer: str, nonce: bytes) -> bytes:
        (self.folder / "question").write_bytes(
            make_ocsp_request(certificate, issuer=self.certificate("ca"), nonce=nonce)
        )
        self.run(
            "ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", f"{signer}.pem", "-rkey", f"{signer}.key",
            "-reqin", "question", "-respout", "answer", "-ndays", "1", *options,
        )  # fmt: skip
        return (self.folder / "answer").read_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("openssl"))
    for name in ("good", "bad"):
        authority.issue(name)
    authority.issue("responder", extensions="responder")
    authority.issue("pss", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", extensions="responder")
    authority.run("ca", "-config", "ca.cnf", "-revoke", "bad.pem", "-crl_reason", "keyCompromise")
    authority.run("ca", "-config", "ca.cnf", "-gencrl", "-out", "list.pem")
    authority.run("crl", "-in", "list.pem", "-outform", "DER", "-out", "list.der")
    return authority


def judge(authority: Authority, name: str, evidence: RevocationEvidence, source: RevocationSource) -> str | None:
    certificate = authority.certificate(name)
    at = certificate.not_before + timedelta(minutes=2)
    paths = PathVerifier(Anchors((authority.certificate("ca"),)), revocation=RevocationChecker(evidence=evidence))
    try:
        path = paths.verify(certificate, at=at)
    except CertificateRejected as e:
        return e.code
    assert [status.answer.source for status in path.revocation] == [source]
    return None


@pytest.mark.parametrize("form", ["list.pem", "list.der"])
@pytest.mark.parametrize(("name", "expected"), [("good", None), ("bad", "revocation.revoked")])
def test_its_list_counts(authority, form, name, expected):
    assert judge(authority, name, load_revocation([authority.folder / form]), RevocationSource.CRL) == expected


@pytest.mark.parametrize("signer", ["ca", "responder"])
@pytest.mark.parametrize(("name", "expected"), [("good", None), ("bad", "revocation.revoked")])
def test_its_answer_to_our_question_counts(authority, signer, name, expected):
    nonce = b"0123456789abcdef"
    response = parse_ocsp_response(authority.answer(authority.certificate(name), signer=signer, nonce=nonce))
    assert response.nonce == nonce
    assert judge(authority, name, RevocationEvidence(ocsp=(response,)), RevocationSource.OCSP) == expected


@pytest.mark.parametrize("salt", ["digest", "20"])
@pytest.mark.parametrize(("name", "expected"), [("good", None), ("bad", "revocation.revoked")])
def test_its_answer_signed_with_rsassa_pss_counts(authority, salt, name, expected):
    options = ("-rsigopt", "rsa_padding_mode:pss", "-rsigopt", f"rsa_pss_saltlen:{salt}", "-rmd", "sha256")
    der = authority.answer(authority.certificate(name), *options, signer="pss", nonce=b"0123456789abcdef")
    response = parse_ocsp_response(der)
    assert response.x509.signature_algorithm_oid == SignatureAlgorithmOID.RSASSA_PSS
    assert judge(authority, name, RevocationEvidence(ocsp=(response,)), RevocationSource.OCSP) == expected


@pytest.mark.parametrize("hashes", [("sha1", "sha1"), ("sha256", "sha1")])
def test_its_answer_signed_with_a_weak_rsassa_pss_is_refused(authority, hashes):
    digest, mask = hashes
    options = ("-rsigopt", "rsa_padding_mode:pss", "-rsigopt", f"rsa_mgf1_md:{mask}", "-rmd", digest)
    good, nonce = authority.certificate("good"), b"0123456789abcdef"
    response = parse_ocsp_response(authority.answer(good, *options, signer="pss", nonce=nonce))
    with refused(VerificationError, "ocsp.weak-signature"):
        verify_ocsp(response, certificate=good, issuer=authority.certificate("ca"))


def test_a_sha_1_signature_is_refused(authority):
    old = authority.issue("old", digest="sha1")
    with refused(CertificateRejected, "path.weak-signature"):
        PathVerifier(Anchors((authority.certificate("ca"),))).verify(old, at=old.not_before)
