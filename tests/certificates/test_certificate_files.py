"""Certificates from files."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12

from tppkit.certificates import load_certificates
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.errors import FormatError
from tppkit.testpki import certificate_pem, key_pem


def refusal(path) -> str:
    with pytest.raises(FormatError) as refused:
        load_certificates(path)
    return refused.value.code


def request_pem(pki) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(pki.qwac.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_every_certificate_of_a_bundle_is_given_in_order(pki, tmp_path):
    bundle = (
        key_pem(pki.qwac.key)
        + certificate_pem(pki.qwac.certificate)
        + request_pem(pki)
        + certificate_pem(pki.root.certificate)
    )
    (tmp_path / "bundle").write_bytes(bundle)
    assert load_certificates(tmp_path / "bundle") == (pki.qwac.certificate, pki.root.certificate)


def test_a_file_of_requests_gives_none(pki, tmp_path):
    (tmp_path / "request.pem").write_bytes(request_pem(pki))
    assert load_certificates(tmp_path / "request.pem") == ()


def test_the_password_opens_a_pkcs12_file(pki, tmp_path):
    certificate, locked = pki.qwac.certificate, BestAvailableEncryption(b"password")
    data = pkcs12.serialize_key_and_certificates(b"qwac", pki.qwac.key, certificate.x509, None, locked)
    (tmp_path / "qwac.p12").write_bytes(data)
    assert load_certificates(tmp_path / "qwac.p12", password=b"password") == (certificate,)
    assert refusal(tmp_path / "qwac.p12") == "pkcs12.unreadable"


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "large").write_bytes(bytes(MAX_SOURCE_BYTES + 1))
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "broken").write_bytes(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
    codes = {name: refusal(tmp_path / name) for name in ("absent", "large", "empty", "broken")}
    assert codes == {
        "absent": "file.unreadable", "large": "file.too-large", "empty": "certificate.not-found", "broken": "certificate.malformed",
    }  # fmt: skip
