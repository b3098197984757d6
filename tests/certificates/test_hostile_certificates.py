"""Certificates, requests and PKCS#12 files with changed bytes: only FormatError escapes, from reading and from every property."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, pkcs12
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.names import MAX_NAME_LENGTH, parse_name
from tppkit.certificates.sources import read_sources
from tppkit.errors import FormatError
from tppkit.testpki.profiles import qwac_extensions

pytestmark = pytest.mark.slow

EDITS = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 2), st.binary(min_size=1, max_size=3)), min_size=1, max_size=6
)


@pytest.fixture(scope="module")
def request_der(pki) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(pki.qwac.certificate.x509.subject)
    for extension, critical in qwac_extensions(pki.provider):
        builder = builder.add_extension(extension, critical)
    return builder.sign(pki.qwac.key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.fixture(scope="module")
def pkcs12_der(pki) -> bytes:
    certificate, issuer = pki.qwac.certificate.x509, pki.qwac_ca.certificate.x509
    return pkcs12.serialize_key_and_certificates(b"qwac", pki.qwac.key, certificate, [issuer], NoEncryption())


def touch(read: EidasCertificate | EidasRequest, at) -> None:
    """Use everything that the value offers."""
    assert read.sha256
    assert all(finding.code for finding in read.findings)
    assert read.key.type
    assert isinstance(read.roles, tuple)
    hash(read)
    with suppress(FormatError):
        read.public_key  # noqa: B018  # it may not be readable
    for text in (str(read.subject), read.subject.rfc4514()):
        assert len(text) > MAX_NAME_LENGTH or parse_name(text) == read.subject
    if isinstance(read, EidasCertificate):
        assert str(read.issuer) is not None
        assert read.serial_hex
        for use in Use:
            check_certificate(read, as_=use, at=at)


def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Each edit replaces, inserts or deletes bytes at a place."""
    for place, kind, change in edits:
        at = place % (len(data) + 1)
        data = data[:at] + (b"" if kind == 2 else change) + data[at + (0 if kind == 1 else len(change)) :]
    return data


def single_changes(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for bit in (0x01, 0x20, 0x80, 0xFF):
            yield data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        yield data[:place] + data[place + 1 :]
        yield data[:place] + b"\x30" + data[place:]


def survivors(read: Callable, changed: Iterator[bytes], at) -> int:
    """How many changed inputs were read; each was used in full."""
    count = 0
    for data in changed:
        with suppress(FormatError):
            touch(read(data), at)
            count += 1
    return count


def test_every_single_change_of_a_certificate_is_read_or_refused(pki):
    data = pki.qwac.certificate.der
    assert survivors(EidasCertificate.from_der, single_changes(data), pki.not_before) > 1000


def test_every_single_change_of_an_authority_is_read_or_refused(rsa_pki):
    data = rsa_pki.root.certificate.der
    assert survivors(EidasCertificate.from_der, single_changes(data), rsa_pki.not_before) > 1000


def test_every_single_change_of_a_request_is_read_or_refused(pki, request_der):
    assert survivors(EidasRequest.from_der, single_changes(request_der), pki.not_before) > 500


@pytest.mark.parametrize("read", [EidasCertificate.from_der, EidasRequest.from_der])
def test_what_is_cut_off_anywhere_is_refused(pki, request_der, read):
    data = pki.qwac.certificate.der if read == EidasCertificate.from_der else request_der
    assert survivors(read, (data[:end] for end in range(len(data))), pki.not_before) == 0
    assert survivors(read, iter([data]), pki.not_before) == 1


@given(edits=EDITS)
def test_a_certificate_changed_in_several_places_is_read_or_refused(pki, edits):
    for issued in pki.issued:
        survivors(EidasCertificate.from_der, iter([edited(issued.certificate.der, edits)]), pki.not_before)


@given(edits=EDITS)
def test_a_request_changed_in_several_places_is_read_or_refused(pki, request_der, edits):
    survivors(EidasRequest.from_der, iter([edited(request_der, edits)]), pki.not_before)


@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"\x30\x82\x00" + tail))
def test_random_bytes_are_refused(data):
    for read in (EidasCertificate.from_der, EidasRequest.from_der, EidasCertificate.from_pem):
        with pytest.raises(FormatError):
            read(data)


@given(text=st.text(max_size=80))
def test_random_text_is_not_a_certificate(text):
    with pytest.raises(FormatError):
        EidasCertificate.from_pem(text)


@given(
    data=st.binary(max_size=200)
    | st.builds(lambda a, b: a + b, st.sampled_from([b"\x30", b":", b"-----BEGIN "]), st.binary())
)
def test_only_format_error_escapes_from_any_input(data):
    with suppress(FormatError):
        assert read_sources(data)


@pytest.mark.filterwarnings("ignore:PKCS#12 bundle could not be parsed as DER")
@given(edits=EDITS)
def test_a_changed_pkcs12_file_is_read_or_refused(pkcs12_der, edits):
    with suppress(FormatError):
        assert read_sources(edited(pkcs12_der, edits))


@pytest.mark.shared
@given(edits=EDITS, number=st.integers(0, 1000))
def test_a_changed_collected_certificate_is_read_or_refused(shared_data, pki, edits, number):
    files = sorted((shared_data / "certificates" / "psd2").glob("*.der"))
    data = files[number % len(files)].read_bytes()
    survivors(EidasCertificate.from_der, iter([edited(data, edits)]), pki.not_before)
