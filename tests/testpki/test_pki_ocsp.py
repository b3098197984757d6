"""OCSP and time-stamp requests: answered or rejected, and never more than a typed error."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import timedelta
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.testpki.certificate import Extension, write_extensions
from tppkit.testpki.ocsp import answer_ocsp, issuer_hashes, ocsp_request_of_path
from tppkit.testpki.timestamps import answer_timestamp

SHA256 = "2.16.840.1.101.3.4.2.1"


def asked(pki, issued, *, hash_=None, nonce: bytes | None = None) -> bytes:
    builder = ocsp.OCSPRequestBuilder().add_certificate(
        issued.certificate.x509, pki.qwac_ca.certificate.x509, hash_ or hashes.SHA256()
    )
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


def id_of(issuer, serial: int, *, algorithm: str = SHA256) -> bytes:
    """A CertID with hashes by SHA-256, whatever algorithm it states."""
    return der.write_sequence(
        der.write_sequence(der.write_oid(algorithm)),
        *map(der.write_octets, issuer_hashes(issuer, "sha256")),
        der.write_integer(serial),
    )


def request_for(*cert_ids: bytes) -> bytes:
    listed = der.write_sequence(*(der.write_sequence(one) for one in cert_ids))
    return der.write_sequence(der.write_sequence(listed))


def timestamp_request(*further: bytes, algorithm: str = SHA256, size: int = 32) -> bytes:
    hashed = der.write_sequence(der.write_oid(algorithm))
    imprint = der.write_sequence(hashed, der.write_octets(bytes(size)))
    return der.write_sequence(der.write_integer(1), imprint, *further)


def mutated(whole: bytes, data) -> bytes:
    start, size = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 3))
    return whole[:start] + data.draw(st.binary(min_size=1, max_size=3)) + whole[start + size :]


def status_of(answer: bytes) -> str:
    return ocsp.load_der_ocsp_response(answer).response_status.name


@pytest.mark.parametrize("hash_", [hashes.SHA1(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_a_response_is_about_the_requested_certificate_and_repeats_the_nonce(pki, hash_):
    answer = ocsp.load_der_ocsp_response(
        answer_ocsp(pki, asked(pki, pki.qwac, hash_=hash_, nonce=b"0123456789"), at=pki.not_before)
    )
    assert answer.certificate_status is ocsp.OCSPCertStatus.GOOD
    assert (answer.serial_number, answer.hash_algorithm.name) == (pki.qwac.certificate.serial, hash_.name)
    assert answer.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == b"0123456789"
    assert (answer.this_update_utc, answer.next_update_utc) == (pki.not_before, pki.not_before + timedelta(hours=24))


def test_a_certificate_that_was_never_issued_is_unknown(pki):
    answer = answer_ocsp(pki, request_for(id_of(pki.qwac_ca, 12345)), at=pki.not_before)
    assert ocsp.load_der_ocsp_response(answer).certificate_status is ocsp.OCSPCertStatus.UNKNOWN


def test_a_certificate_of_another_authority_is_answered_with_unauthorized(pki, rsa_pki):
    request = ocsp.OCSPRequestBuilder().add_certificate(
        rsa_pki.qwac.certificate.x509, rsa_pki.qwac_ca.certificate.x509, hashes.SHA256()
    )
    answer = answer_ocsp(pki, request.build().public_bytes(Encoding.DER), at=pki.not_before)
    assert status_of(answer) == "UNAUTHORIZED"


def test_a_request_about_two_certificates_is_malformed(pki):
    ids = [id_of(pki.qwac_ca, issued.certificate.serial) for issued in (pki.qwac, pki.other_qwac)]
    assert status_of(answer_ocsp(pki, request_for(*ids), at=pki.not_before)) == "MALFORMED_REQUEST"


@pytest.mark.parametrize(
    ("size", "status"),
    [(0, "MALFORMED_REQUEST"), (1, "SUCCESSFUL"), (128, "SUCCESSFUL"), (129, "MALFORMED_REQUEST")],
)
def test_a_nonce_has_1_to_128_octets(pki, size, status):
    assert status_of(answer_ocsp(pki, asked(pki, pki.qwac, nonce=bytes(size)), at=pki.not_before)) == status


@pytest.mark.parametrize(("critical", "status"), [(True, "MALFORMED_REQUEST"), (False, "SUCCESSFUL")])
def test_an_unknown_extension_is_rejected_only_if_it_is_critical(pki, critical, status):
    listed = der.write_sequence(der.write_sequence(id_of(pki.qwac_ca, pki.qwac.certificate.serial)))
    part = der.write_element(0xA2, write_extensions([Extension("2.999.7", b"\x05\x00", critical)]))
    request = der.write_sequence(der.write_sequence(listed, part))
    assert status_of(answer_ocsp(pki, request, at=pki.not_before)) == status


@pytest.mark.parametrize(
    ("algorithm", "status"), [("2.16.840.1.101.3.4.2.8", "MALFORMED_REQUEST"), ("2.16.840.1.101.3.4.2.4", "UNAUTHORIZED")],
    ids=["SHA3-256", "SHA-224"],
)  # fmt: skip
def test_a_hash_that_the_responder_does_not_support_is_rejected(pki, algorithm, status):
    request = request_for(id_of(pki.qwac_ca, pki.qwac.certificate.serial, algorithm=algorithm))
    assert status_of(answer_ocsp(pki, request, at=pki.not_before)) == status


@given(st.binary(max_size=80))
def test_every_malformed_request_is_answered_as_malformed(pki, data):
    assert status_of(answer_ocsp(pki, data, at=pki.not_before)) == "MALFORMED_REQUEST"


@given(st.data())
def test_mutated_ocsp_requests_are_always_answered(pki, data):
    whole = asked(pki, pki.qwac, nonce=b"0123456789")
    changed = mutated(whole, data)
    status = status_of(answer_ocsp(pki, changed, at=pki.not_before))
    assert status in ("SUCCESSFUL", "MALFORMED_REQUEST", "UNAUTHORIZED")


@given(st.binary(max_size=200))
def test_a_request_is_read_from_a_path(data):
    data = b"\x30" + data  # as every request begins
    encoded = base64.b64encode(data).decode()
    assert ocsp_request_of_path(encoded) == ocsp_request_of_path(quote(encoded, safe="")) == data


@given(st.text(max_size=40))
def test_only_format_errors_escape_from_paths(path):
    with suppress(FormatError):
        ocsp_request_of_path(path)


def refusal_of(pki, request: bytes) -> tuple[int, str] | None:
    """The status, and the failure's bits; None when a token was given."""
    answer = answer_timestamp(pki, request, at=pki.not_before, serial=1)
    status, *token = der.read_children(answer, der.read_whole(answer, tag=der.SEQUENCE))
    if token:
        return None
    number, info = der.read_children(answer, status)
    return der.read_integer(answer, number), answer[info.start : info.end].hex()


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (timestamp_request(), None),
        (timestamp_request(algorithm="2.16.840.1.101.3.4.2.2", size=48), None),
        (b"", (2, "0204")),  # badDataFormat is bit 5
        (b"garbage", (2, "0204")),
        (b"\x30\x80", (2, "0204")),
        (timestamp_request(size=31), (2, "0780")),  # badAlg is bit 0
        (timestamp_request(algorithm="1.3.14.3.2.26", size=20), (2, "0780")),
        (timestamp_request(der.write_oid("1.2.3")), (2, "000001")),  # unacceptedPolicy is bit 15
        (timestamp_request(der.write_integer(1 << 40_000)), (2, "0204")),
    ],
)
def test_a_timestamp_is_refused_with_the_reason_of_the_standard(pki, request_, refusal):
    assert refusal_of(pki, request_) == refusal


@given(st.data())
def test_mutated_timestamp_requests_are_always_answered(pki, data):
    whole = timestamp_request(der.write_integer(7), b"\x01\x01\xff")
    changed = mutated(whole, data)
    assert answer_timestamp(pki, changed, at=pki.not_before, serial=1)[:1] == b"\x30"


def test_the_delegated_responder_signs(pki):
    answer = ocsp.load_der_ocsp_response(answer_ocsp(pki, asked(pki, pki.qwac), at=pki.not_before))
    responder, (sent,) = pki.members["ocsp-qwac"], answer.certificates
    assert (answer.responder_key_hash, sent) == (responder.key_identifier, responder.certificate.x509)
