"""Every form in which certificates are handed over, and what is not one."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs7,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PBES

from refusals import refused
from tppkit.certificates import EidasCertificate, der
from tppkit.certificates.sources import MAX_CERTIFICATES, MAX_SOURCE_BYTES, Source, read_sources
from tppkit.errors import FormatError
from tppkit.testpki import certificate_pem, key_pem

pytestmark = pytest.mark.slow


def pem(data: bytes, label: str = "CERTIFICATE") -> bytes:
    lines = base64.encodebytes(data).replace(b"\n", b"")
    body = b"\n".join(lines[i : i + 64] for i in range(0, len(lines), 64))
    return f"-----BEGIN {label}-----\n".encode() + body + f"\n-----END {label}-----\n".encode()


# How one certificate or request is written: DER and PEM label to bytes.
FORMS: dict[str, Callable[[bytes, str], bytes]] = {
    "PEM": pem,
    "PEM with CRLF": lambda data, label: pem(data, label).replace(b"\n", b"\r\n"),
    "PEM after a text": lambda data, label: (
        b"Bag Attributes\n  friendlyName: front-end certificate\nsubject=O = Back-End CRL\n" + pem(data, label)
    ),
    "DER": lambda data, label: data,
    "base64 of DER": lambda data, label: base64.b64encode(data),
    "base64 of PEM": lambda data, label: base64.b64encode(pem(data, label)),
    "base64 with white space around": lambda data, label: b" " + base64.b64encode(data) + b"\r\n",
    "URL-escaped PEM": lambda data, label: urllib.parse.quote(pem(data, label), safe="").encode(),
    "URL-escaped PEM with dashes and slashes": lambda data, label: urllib.parse.quote(
        pem(data, label), safe="-/"
    ).encode(),
    "URL-escaped PEM in lower case": lambda data, label: (
        urllib.parse.quote(pem(data, label)).replace("%2B", "%2b").encode()
    ),
    "form-escaped PEM": lambda data, label: urllib.parse.quote_plus(pem(data, label)).encode(),
    "RFC 9440": lambda data, label: b":" + base64.b64encode(data) + b":",
}


@pytest.mark.parametrize(
    ("convert", "command"),
    [
        (lambda pki: pkcs7.serialize_certificates([pki.qwac.certificate.x509], Encoding.DER), "openssl pkcs7 -inform DER -in"),
        (lambda pki: pkcs7.serialize_certificates([pki.qwac.certificate.x509], Encoding.PEM), "openssl pkcs7 -in"),
        (lambda pki: b"\xfe\xed\xfe\xed\0\0\0\2" + pki.qwac.certificate.der, "keytool -importkeystore"),
        (lambda pki: certificate_pem(pki.qwac.certificate).decode().encode("utf-16"), "iconv -f UTF-16 "),
    ],
)  # fmt: skip
def test_a_form_that_is_not_read_is_named_with_the_command_that_converts_it(pki, convert, command):
    with pytest.raises(FormatError, match=f": {command}") as refused:
        read_sources(convert(pki))
    assert refused.value.code == "certificate.not-found"


@pytest.fixture(scope="module")
def request_der(pki) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(pki.qwac.certificate.x509.subject)
    return builder.sign(pki.qwac.key, hashes.SHA256()).public_bytes(Encoding.DER)


def make_pkcs12(pki, password: bytes | None = None, encryption=None) -> bytes:
    encryption = encryption or (BestAvailableEncryption(password) if password else NoEncryption())
    certificate, issuer = pki.qwac.certificate.x509, pki.qwac_ca.certificate.x509
    return pkcs12.serialize_key_and_certificates(b"qwac", pki.qwac.key, certificate, [issuer], encryption)


def refusal(data: bytes, *, password: bytes | None = None) -> str:
    with pytest.raises(FormatError) as refused:
        read_sources(data, password=password)
    return refused.value.code


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_certificates_and_requests_are_read_in_every_form(pki, rsa_pki, request_der, form):
    for data in (pki.qwac.certificate.der, rsa_pki.qseal.certificate.der):
        assert read_sources(form(data, "CERTIFICATE")) == (Source("certificate", data),)
    for label in ("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"):
        assert read_sources(form(request_der, label)) == (Source("csr", request_der),), label


def test_a_request_without_attributes_is_distinguished_from_a_certificate(request_der):
    info, *rest = der.read_children(request_der, der.read_whole(request_der, tag=der.SEQUENCE))
    version, name, key, _ = (request_der[part.offset : part.end] for part in der.read_children(request_der, info))
    without = der.write_sequence(
        der.write_sequence(version, name, key),
        *(request_der[p.offset : p.end] for p in rest),
    )
    assert read_sources(without) == (Source("csr", without),)


def test_a_bundle_gives_every_certificate_in_order(pki):
    bundle = b"".join(certificate_pem(issued.certificate) for issued in pki.issued)
    assert [source.der for source in read_sources(bundle)] == [issued.certificate.der for issued in pki.issued]


def test_private_keys_in_a_bundle_are_skipped(pki, rsa_pki):
    legacy = rsa_pki.qwac.key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"pw")
    )
    locked = pki.qwac.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw"))
    bundle = (
        key_pem(pki.qwac.key)
        + certificate_pem(pki.qwac.certificate)
        + legacy
        + locked
        + certificate_pem(pki.root.certificate)
    )
    assert [source.der for source in read_sources(bundle)] == [pki.qwac.certificate.der, pki.root.certificate.der]


@pytest.mark.parametrize("form", [lambda text: text, base64.b64encode], ids=["PEM", "base64 of PEM"])
@pytest.mark.parametrize("before", ["0 s:CN=x\n", "0\n", "0Ž\n", "0"])
def test_a_text_that_begins_with_the_digit_0_is_not_mistaken_for_der(pki, before, form):
    data = pki.qwac.certificate.der
    assert read_sources(form(before.encode() + pem(data))) == (Source("certificate", data),)


def test_der_that_holds_a_pem_text_is_der():
    whole = der.write_sequence(der.write_sequence(), der.write_text(pem(b"\x30\x00" * 90).decode()))
    assert [source.der for source in read_sources(whole)] == [whole]


@pytest.mark.parametrize("label", ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_every_label_of_a_certificate_is_read_alike(pki, label):
    data = pki.qwac.certificate.der
    assert read_sources(pem(data, label)) == (Source("certificate", data),)
    assert EidasCertificate.from_pem(pem(data, label)) == pki.qwac.certificate


def test_trust_settings_behind_a_certificate_are_refused(pki):
    # What OpenSSL writes for a certificate that is refused for TLS clients.
    settings = der.write_sequence(der.write_element(0xA0, der.write_oid("1.3.6.1.5.5.7.3.2")))
    text = pem(pki.qwac.certificate.der + settings, "TRUSTED CERTIFICATE")
    assert refusal(text) == "pem.trust-settings"
    with refused(FormatError, "pem.trust-settings"):
        EidasCertificate.from_pem(text)


def test_the_first_certificate_of_a_pem_text_is_used(pki):
    text = key_pem(pki.qwac.key) + certificate_pem(pki.qwac.certificate) + certificate_pem(pki.root.certificate)
    assert EidasCertificate.from_pem(text) == EidasCertificate.from_pem(text.decode()) == pki.qwac.certificate


def test_a_pem_text_without_a_certificate_holds_none(pki):
    with refused(FormatError, "certificate.not-found"):
        EidasCertificate.from_pem(key_pem(pki.qwac.key))


@pytest.mark.parametrize("password", [None, b"password", "pässword".encode()])
@pytest.mark.parametrize("form", ["file", "base64"])
def test_a_pkcs12_file_gives_its_certificate_and_chain(pki, password, form):
    data = make_pkcs12(pki, password)
    read = read_sources(data if form == "file" else base64.b64encode(data), password=password)
    assert [source.der for source in read] == [pki.qwac.certificate.der, pki.qwac_ca.certificate.der]


@pytest.mark.filterwarnings("ignore:PKCS#12 bundle could not be parsed as DER")
def test_a_pkcs12_file_in_ber_is_read(pki):
    # The outer sequence in its indefinite form, as several trust service providers' tools write it.
    data = make_pkcs12(pki, b"password")
    content = data[4:] if data[1] == 0x82 else data[3:]
    read = read_sources(b"\x30\x80" + content + b"\x00\x00", password=b"password")
    assert read[0].der == pki.qwac.certificate.der


@pytest.mark.parametrize("password", [None, b"", b"wrong"])
def test_a_wrong_password_is_refused(pki, password):
    assert refusal(make_pkcs12(pki, b"password"), password=password) == "pkcs12.unreadable"


def test_a_pkcs12_file_without_certificates_holds_none(pki):
    data = pkcs12.serialize_key_and_certificates(b"key", pki.qwac.key, None, None, NoEncryption())
    assert refusal(data) == "certificate.not-found"


def test_a_damaged_pkcs12_file_is_refused(pki):
    assert refusal(make_pkcs12(pki)[:-1]) == "pkcs12.unreadable"


@pytest.mark.parametrize(
    "data",
    [
        b"", b" \r\n", b"\x00", b"hello", b"::", b"PK\x03\x04\x14\x00", bytes(range(256)), b"\xff\xfeC\x00", b"QUJD",
        b"-----BEGIN PKCS7-----\n", b"-----BEGIN PKCS7-----\nAAAA\n-----END CMS-----\n", b"-----BEGIN%20PKCS7-----",
    ],
)  # fmt: skip
def test_what_holds_no_certificate_is_refused(data):
    assert refusal(data) == "certificate.not-found"


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_alone_is_not_a_certificate(rsa_pki, encoding, form):
    assert refusal(rsa_pki.qwac.key.private_bytes(encoding, form, NoEncryption())) == "certificate.not-found"


@pytest.mark.parametrize("body", [b"A", b"AAA", b"A===", b"\xff\xff\xff\xff", b"AA=A"])
def test_a_pem_block_that_is_not_base64_is_refused(body):
    assert refusal(b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----\n") == "pem.malformed"


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        (b"QUJD\n-----END ", b"QUJD\n"), (b"QUJD\n-----END CERTIFICATE-----\n", b"QU"), (b"QUJD", b"QU-D"),
        (b"\nQUJD", b"\nProc-Type: 4\nQUJD"), (b"-----BEGIN CERTIFICATE-----\n", b""), (b"-----BEGIN", b"----BEGIN"),
        (b"-----END CERTIFICATE", b"-----END X509 CERTIFICATE"), (b"BEGIN CERTIFICATE", b"begin certificate"),
        (b"-----BEGIN ", b"----- BEGIN "), (b"-----BEGIN ", b"-----BEGIN"), (b"E-----\nQ", b"E\nQ"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("label", [b"CERTIFICATE", b"TRUSTED CERTIFICATE", b"X509 CRL"])
def test_a_damaged_block_is_refused_and_not_left_out(pki, text, damaged, before, label):
    block = b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n".replace(text, damaged)
    block, whole = block.replace(b"CERTIFICATE", label), pem(pki.qwac.certificate.der)
    data = block + whole if before else whole + block
    assert refusal(data) == refusal(base64.b64encode(data)) == "pem.malformed"
    if before:
        with refused(FormatError, "pem.malformed"):
            EidasCertificate.from_pem(data)


def test_a_certificate_that_is_cut_off_is_refused(pki):
    assert refusal(pki.qwac.certificate.der[:-1]) == "certificate.malformed"


def test_bytes_after_a_certificate_are_refused(pki):
    assert refusal(pki.qwac.certificate.der + b"\n") == "certificate.malformed"


def test_more_bytes_than_are_read_are_refused():
    assert refusal(b"\x30" * (MAX_SOURCE_BYTES + 1)) == "certificate.too-large"


def test_more_certificates_than_are_read_are_refused():
    assert len(read_sources(pem(b"\x30\x00") * MAX_CERTIFICATES)) == MAX_CERTIFICATES
    assert refusal(pem(b"\x30\x00") * (MAX_CERTIFICATES + 1)) == "certificate.too-large"


@pytest.mark.parametrize("algorithm", [PBES.PBESv2SHA256AndAES256CBC, PBES.PBESv1SHA1And3KeyTripleDESCBC])
@pytest.mark.parametrize(("rounds", "code"), [(1000, None), (6_000_000, "pkcs12.too-costly")])
def test_a_pkcs12_file_that_would_take_long_to_open_is_refused_before(pki, algorithm, rounds, code):
    encryption = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(rounds).key_cert_algorithm(algorithm)
    data = make_pkcs12(pki, encryption=encryption.build(b"password"))
    if code is None:
        assert read_sources(data, password=b"password")[0].der == pki.qwac.certificate.der
    else:
        assert refusal(data, password=b"password") == code


def test_an_encrypted_pkcs12_file_is_not_opened_without_a_password(pki):
    encryption = PrivateFormat.PKCS12.encryption_builder().key_cert_algorithm(PBES.PBESv2SHA256AndAES256CBC)
    assert refusal(make_pkcs12(pki, encryption=encryption.build(b"password"))) == "pkcs12.unreadable"


PBMAC1 = der.write_oid("1.2.840.113549.1.5.14")


def with_pbmac1(data: bytes, rounds: int) -> bytes:
    """The PKCS#12 file with the frame of an RFC 9579 MAC of so many rounds; the MAC itself is not right."""
    parts = [data[part.offset : part.end] for part in der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))]

    salt, hmac = (
        der.write_element(der.OCTET_STRING, bytes(8)),
        der.write_sequence(der.write_oid("1.2.840.113549.2.9"), b"\x05\x00"),
    )
    pbkdf2 = der.write_sequence(
        der.write_oid("1.2.840.113549.1.5.12"),
        der.write_sequence(salt, der.write_integer(rounds), der.write_integer(32), hmac),
    )
    digest = der.write_sequence(
        der.write_sequence(PBMAC1, der.write_sequence(pbkdf2, hmac)), der.write_element(der.OCTET_STRING, bytes(32))
    )
    return der.write_sequence(*parts[:2], der.write_sequence(digest, salt, der.write_integer(1)))


@pytest.mark.parametrize(("rounds", "code"), [(1000, "pkcs12.unreadable"), (6_000_000, "pkcs12.too-costly")])
def test_the_rounds_of_a_pbmac1_count_too(pki, rounds, code):
    assert refusal(with_pbmac1(make_pkcs12(pki), rounds)) == code


def with_nested_key(depth: int, rounds: int) -> bytes:
    """A PKCS#12 file without MAC, whose shrouded key stands in so many safes inside the safe."""
    octets = der.write_element(der.OCTET_STRING, bytes(16))
    derived = der.write_sequence(
        der.write_oid("1.2.840.113549.1.5.12"), der.write_sequence(octets, der.write_integer(rounds))
    )
    cipher = der.write_sequence(der.write_oid("2.16.840.1.101.3.4.1.42"), octets)
    algorithm = der.write_sequence(der.write_oid("1.2.840.113549.1.5.13"), der.write_sequence(derived, cipher))
    content, kind = der.write_sequence(algorithm, octets), "1.2.840.113549.1.12.10.1.2"
    for _ in range(depth + 1):
        content = der.write_sequence(der.write_sequence(der.write_oid(kind), der.write_element(0xA0, content)))
        kind = "1.2.840.113549.1.12.10.1.6"  # safeContentsBag

    def data(inner: bytes) -> bytes:
        wrapped = der.write_element(0xA0, der.write_element(der.OCTET_STRING, inner))
        return der.write_sequence(der.write_oid("1.2.840.113549.1.7.1"), wrapped)

    return der.write_sequence(der.write_integer(3), data(der.write_sequence(data(content))))


@pytest.mark.parametrize("depth", [0, 1, 3, 9])
@pytest.mark.parametrize("password", [None, b"password"])
def test_a_key_in_a_safe_inside_a_safe_counts_too(depth, password):
    refused = refusal(with_nested_key(depth, 2**31 - 1), password=password)
    assert refused == ("pkcs12.too-costly" if password and depth <= 4 else "pkcs12.unreadable")


def test_a_pkcs12_file_with_a_key_that_is_not_read_is_refused():
    assert refusal(with_nested_key(0, 1), password=b"password") == "pkcs12.unreadable"
