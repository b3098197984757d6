"""What is read from a certificate request."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import KeyFacts, der
from tppkit.certificates.certificate import EidasRequest
from tppkit.errors import Severity
from tppkit.testpki.profiles import qseal_extensions

MICROSOFT_EXTENSIONS = "1.3.6.1.4.1.311.2.1.14"


SIGNING_KEY = ec.derive_private_key(1, ec.SECP256R1())
P256 = SIGNING_KEY.public_key()


def make_request(
    *attributes: bytes, key: bytes = P256.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
) -> bytes:
    """DER of a request with an empty name, signed with `SIGNING_KEY`."""
    info = der.write_sequence(
        der.write_integer(0),
        der.write_sequence(),
        key,
        der.write_element(0xA0, *attributes),
    )
    algorithm = der.write_sequence(der.write_oid("1.2.840.10045.4.3.2"))
    signature = SIGNING_KEY.sign(info, ec.ECDSA(hashes.SHA256()))
    return der.write_sequence(info, algorithm, der.write_element(der.BIT_STRING, b"\x00", signature))


def key_usage_extension() -> bytes:
    usage = der.write_element(der.OCTET_STRING, der.write_element(der.BIT_STRING, b"\x07\x80"))
    return der.write_sequence(der.write_oid("2.5.29.15"), usage)


def attribute(oid: str, *values: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), der.write_element(der.SET, *values))


def test_a_key_for_rsassa_pss_only_is_distinguished_from_other_rsa_keys(rsa_pki):
    key = rsa_pki.qseal.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    _, bits = der.read_children(key, der.read_whole(key, tag=der.SEQUENCE))
    algorithm = der.write_sequence(der.write_oid("1.2.840.113549.1.1.10"))
    request = EidasRequest.from_der(make_request(key=der.write_sequence(algorithm, key[bits.offset : bits.end])))
    assert request.key == KeyFacts("rsa-pss", 2048)
    assert request.public_key.key_size == 2048


def test_a_request_is_read_like_a_certificate(pki):
    builder = x509.CertificateSigningRequestBuilder().subject_name(pki.qseal.certificate.x509.subject)
    for extension, critical in qseal_extensions(pki.provider):
        builder = builder.add_extension(extension, critical)
    request = EidasRequest.from_der(builder.sign(pki.qseal.key, hashes.SHA256()).public_bytes(Encoding.DER))
    assert str(request.subject).startswith("CN=Example Payments TEST,organizationIdentifier=PSDLT-BL-LB000000")
    assert request.organization_identifier == pki.qseal.certificate.organization_identifier
    assert request.qc == pki.qseal.certificate.qc
    assert request.roles == ("PSP_PI", "PSP_AI")
    assert request.key == KeyFacts("ec", 256, "P-256")
    assert request.findings == ()


def test_a_request_may_ask_for_no_extensions():
    assert EidasRequest.from_der(make_request()).extensions.key_usage == ()


@pytest.mark.parametrize("oid", ["1.2.840.113549.1.9.14", MICROSOFT_EXTENSIONS])
def test_extensions_that_a_request_asks_for_are_read_or_named(oid):
    def read(*values: bytes) -> tuple[tuple[str, ...], list[str]]:
        request = EidasRequest.from_der(make_request(attribute(oid, *values)))
        return request.extensions.key_usage, [finding.code for finding in request.findings]

    once, twice = (der.write_sequence(*[key_usage_extension()] * copies) for copies in (1, 2))
    malformed = ["certificate.extension-malformed"]
    assert read(once) == (("digitalSignature",), [])
    assert read(twice) == (("digitalSignature",), malformed)
    for values in ((), (b"\x04\x01x",), (b"\x30\x03\x02\x01\x01",)):
        assert read(*values) == ((), malformed), values


def test_a_request_that_its_own_key_did_not_sign_is_named(pki):
    builder = x509.CertificateSigningRequestBuilder().subject_name(pki.qseal.certificate.x509.subject)
    signed = builder.sign(pki.qseal.key, hashes.SHA256()).public_bytes(Encoding.DER)
    assert EidasRequest.from_der(signed).findings == ()
    forged = EidasRequest.from_der(signed[:-1] + bytes([signed[-1] ^ 1]))
    assert [(finding.code, finding.severity) for finding in forged.findings] == [("request.signature", Severity.ERROR)]
