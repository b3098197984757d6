"""The seal certificate among others, and in containers: the one that sealed is taken, and nothing that is sent escapes."""

from __future__ import annotations

import warnings
from base64 import b64encode

from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509 import load_der_x509_certificate
from hypothesis import given
from hypothesis import strategies as st
from wrong_signer import seal_wrongly

from tppkit.certificates import der
from tppkit.httpsig import Message
from tppkit.seals import PSD2_V1
from tppkit.seals.diagnose import Diagnosis, Outcome, diagnose_request
from tppkit.seals.diagnose.sent_certificate import find_certificate
from tppkit.testpki import Pki

NEEDED = ("digest", "x-request-id", "(request-target)")
DATA = "1.2.840.113549.1.7.1"
SIGNED_DATA = "1.2.840.113549.1.7.2"


def explained(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.outcome is Outcome.EXPLAINED, diagnosis
    return [cause.name for cause in diagnosis.causes]


def with_certificate(message: Message, text: str) -> Message:
    headers = tuple((n, text if n == PSD2_V1.certificate_header else v) for n, v in message.headers)
    return message._replace(headers=headers)


def sealed_with(pki: Pki, raw: bytes) -> Message:
    return with_certificate(seal_wrongly(pki.qseal, covered=NEEDED), b64encode(raw).decode())


def container(*certificates: bytes) -> bytes:
    """PKCS#7 as `openssl crl2pkcs7` writes it: the certificates in the order in which they were given."""
    data = der.write_element(der.SEQUENCE, der.write_oid(DATA))
    sets = [der.write_element(der.SET), data, der.write_element(0xA0, *certificates), der.write_element(der.SET)]
    signed = der.write_element(der.SEQUENCE, der.write_integer(1), *sets)
    return der.write_element(der.SEQUENCE, der.write_oid(SIGNED_DATA), der.write_element(0xA0, signed))


def test_a_container_without_certificates_is_told_and_nothing_escapes(pki: Pki) -> None:
    content = der.write_element(0xA0, der.write_element(der.OCTET_STRING, b"hi\n"))
    data = der.write_element(der.SEQUENCE, der.write_oid(DATA), content)  # what `openssl cms -data_create` writes
    for raw in (data, container(), der.write_element(der.SEQUENCE), der.write_element(der.SEQUENCE, data)):
        diagnosis = diagnose_request(sealed_with(pki, raw), certificates=[pki.qseal.certificate])
        assert explained(diagnosis) == ["certificate-form"]
        assert "holds no certificate" in diagnosis.causes[0].evidence[0]


def test_a_container_is_read_without_a_warning_whatever_its_order(pki: Pki) -> None:
    leaf, authority = pki.qseal.certificate.der, pki.qseal_ca.certificate.der
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = diagnose_request(sealed_with(pki, container(leaf, authority)))
    assert explained(diagnosis) == ["certificate-form"]
    assert "PKCS#7" in diagnosis.causes[0].evidence[0]


@given(st.data())
def test_nothing_that_a_damaged_container_holds_escapes(pki: Pki, data: st.DataObject) -> None:
    raw = bytearray(pkcs7.serialize_certificates([load_der_x509_certificate(pki.qseal.certificate.der)], Encoding.DER))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, 60))] = data.draw(st.integers(0, 255))
    certificate, faults = find_certificate(sealed_with(pki, bytes(raw)), profile=PSD2_V1)
    assert faults
    assert certificate is None or certificate.der
