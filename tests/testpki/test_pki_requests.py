"""Certificate requests: made, checked and certified."""

from __future__ import annotations

import subprocess
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose
from hypothesis import given
from hypothesis import strategies as st

from programs import needed
from refusals import refused
from tppkit.certificates import EidasCertificate, Use, check_certificate, der, load_certificates, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError, FormatError, TppkitError
from tppkit.testpki import Pki, make_provider, write_pki
from tppkit.testpki.certificate import Attribute, Draft, write_name
from tppkit.testpki.folder import open_pki
from tppkit.testpki.keys import SEAL_KEY_KINDS, KeySource

# isort: off
from tppkit.testpki.faults.edits import (
    Edit, all_of, attribute, extension, flattened_roles, no_attribute, no_extension, no_statement, psd2, purposes, qc_types,
    raw_extension, roles, second_attribute, statement, usage,
)  # fmt: skip

# isort: on
from tppkit.testpki.pem import pem_block
from tppkit.testpki.requests import certify_request, kind_of, make_request, write_request

SUBJECT_ALT_NAME = oids.SUBJECT_ALTERNATIVE_NAME
KEY = KeySource(seed=1).make_key("request")


def read(request: bytes) -> EidasRequest:
    return EidasRequest.from_der(request)


def request_bytes(draft: Draft, key=KEY) -> bytes:
    return write_request(draft.subject, draft.extensions, key)


def request_of(draft: Draft) -> EidasRequest:
    return read(request_bytes(draft))


def request_with(key, kind: str, pki: Pki) -> EidasRequest:
    return read(request_bytes(Draft.of(pki.members[kind].certificate), key))


@pytest.fixture
def valid(pki) -> Draft:
    return Draft.of(pki.qwac.certificate)


@pytest.fixture
def folder(pki, tmp_path: Path) -> Path:
    write_pki(pki, tmp_path / "pki")
    return tmp_path / "pki"


def issue(folder: Path, request: EidasRequest) -> EidasCertificate:
    entry = open_pki(folder).issue_requested(request, at=open_pki(folder).pki.not_before)
    return load_certificates(folder / entry["path"])[0]


def refusal(pki, request: EidasRequest) -> str:
    with pytest.raises(ConfigurationError) as refused:
        certify_request(pki, request, kind=kind_of(request), label="refused")
    return refused.value.code


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
@pytest.mark.parametrize("name", ["Žvėryno mokėjimai", "Ω" * 32, "Smith & Sons, #1 \"best\" $PAY = 'x'; \\ end"])
def test_a_request_is_well_formed_and_has_the_requested_values(kind, name):
    provider = make_provider(
        organization_identifier="PSDGR-BOG-12/34", name=name, country="GR", roles=["PSP_AI", "PSP_IC"]
    )
    request = read(make_request(provider, kind, KEY, qscd=kind == "qseal"))
    assert (request.findings, request.subject.values(oids.ORGANIZATION)) == ((), (name,))
    assert (request.organization_identifier.text, request.roles) == ("PSDGR-BOG-12/34", ("PSP_AI", "PSP_IC"))
    assert (request.qc.types, request.qc.sscd) == ((("web",), False) if kind == "qwac" else (("eseal",), True))
    assert request.extensions.dns_names == (("tpp.test.example.com",) if kind == "qwac" else ())


@pytest.mark.parametrize("key", [kind for kind in SEAL_KEY_KINDS if kind not in ("rsa3072", "rsa4096")])
def test_openssl_verifies_a_request_of_each_kind_of_key(key, tmp_path):
    made = make_request(make_provider(), "qseal", KeySource().make_key("a", kind=key))
    (tmp_path / "r.csr").write_bytes(pem_block("CERTIFICATE REQUEST", made))
    command = [needed("openssl"), "req", "-in", str(tmp_path / "r.csr"), "-noout", "-verify"]
    assert b"verify OK" in subprocess.run(command, capture_output=True, check=True).stderr


@pytest.mark.parametrize(
    ("key", "kind", "rule"),
    [
        (rsa.generate_private_key(65537, 1024), "qwac", "TS 119 312"),
        (ec.generate_private_key(ec.SECP256K1()), "qseal", "TS 119 312"),
        (ed25519.Ed25519PrivateKey.generate(), "qwac", "BR section 6.1.5"),
    ],
    ids=["RSA-1024", "secp256k1", "Ed25519 for TLS"],
)
def test_a_key_that_no_profile_allows_is_neither_requested_nor_certified(pki, key, kind, rule):
    with pytest.raises(ConfigurationError, match=rule) as refused:
        make_request(make_provider(), kind, key)
    assert refused.value.code == refusal(pki, request_with(key, kind, pki)) == "pki.key-kind"


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2056), rsa.generate_private_key(3, 2048)])
def test_a_key_that_this_pki_does_not_make_is_not_certified(pki, key):
    assert refusal(pki, request_with(key, "qseal", pki)) == "pki.key-kind"


def test_a_request_may_have_a_key_that_profiles_allow_and_this_pki_does_not_make():
    key = ec.generate_private_key(ec.BrainpoolP256R1())
    assert read(make_request(make_provider(), "qwac", key)).findings == ()


@pytest.mark.parametrize("label", ["root", "qwac", "lotl-signer", "callback-live"])
def test_the_key_of_a_member_is_not_certified(pki, label):
    key = pki.members[label].key if label in pki.members else pki.callback_keys[label]
    assert refusal(pki, request_with(key, "qseal", pki)) == "pki.foreign-key"


@pytest.mark.shared
def test_malformed_requests_of_the_field_are_not_certified(pki, shared_data):
    files = sorted((shared_data / "certificates" / "psd2_csr").glob("*.der"))
    assert len(files) >= 4
    for request in (read(file.read_bytes()) for file in files):
        with refused(ConfigurationError, "pki.request"):
            certify_request(pki, request, kind="qwac", label="a")


@pytest.fixture(scope="module")
def whole(pki: Pki) -> bytes:
    """One for all examples: the length of a signature is random."""
    return request_bytes(Draft.of(pki.qwac.certificate))


@given(st.data())
def test_only_typed_errors_escape_from_a_mutated_request(pki, whole, data):
    start = data.draw(st.integers(0, len(whole) - 1))
    replaced = data.draw(st.binary(min_size=1, max_size=4))
    try:
        request = read(whole[:start] + replaced + whole[start + data.draw(st.integers(1, 4)) :])
        certify_request(pki, request, kind=kind_of(request), label="mutated")
    except TppkitError:
        pass


def dns_names(*names: str) -> Edit:
    return other_names(*map(x509.DNSName, names))


def other_names(*names: x509.GeneralName) -> Edit:
    return extension(x509.SubjectAlternativeName(names))


REFUSED = {
    "no identifier": (no_attribute(oids.ORGANIZATION_IDENTIFIER), "pki.organization-identifier"),
    "no PSD2 statement": (no_statement(oids.QC_PSD2), "pki.role"),
    "no role": (roles(), "pki.request"),
    "malformed roles": (flattened_roles, "pki.request"),
    "authority in Greek": (psd2(nca_name="Τράπεζα"), "pki.request"),
    "two organisations": (second_attribute(oids.ORGANIZATION, "Second TEST"), "pki.profile"),
    "internal name": (all_of(dns_names("localhost"), attribute(oids.COMMON_NAME, "localhost")), "pki.profile"),
    "country": (attribute(oids.COUNTRY, "Germany"), "pki.country"),
    "control characters": (attribute(oids.ORGANIZATION, "a\x1b[2J"), "pki.name"),
    "e-mail in other letters": (second_attribute("1.2.840.113549.1.9.1", "ž@example.com"), "pki.request"),
    "e-mail name": (other_names(x509.RFC822Name("ada@example.org")), "pki.request"),
    "address": (other_names(x509.IPAddress(ip_address("192.0.2.1"))), "pki.request"),
    "wildcard": (dns_names("*.example.org"), "pki.dns-name"),
    "capitals": (dns_names("A.example.org"), "pki.dns-name"),
    "unreadable names": (raw_extension(SUBJECT_ALT_NAME, b"\x30\x80"), "pki.request"),
    "common name": (attribute(oids.COMMON_NAME, "Example Payments TEST"), "pki.profile"),
    "no name": (no_extension(SUBJECT_ALT_NAME), "pki.request"),
    "device in a QWAC": (statement(oids.QC_SSCD), "pki.request"),
    "another purpose": (purposes(Purpose.CODE_SIGNING, Purpose.CLIENT_AUTH), "pki.request"),
    "another usage": (usage("digital_signature", "key_cert_sign"), "pki.request"),
    "rights of an authority": (extension(x509.BasicConstraints(True, None), critical=True), "pki.request"),
    "status in TLS": (extension(x509.TLSFeature([x509.TLSFeatureType.status_request])), "pki.request"),
    "unknown extension": (raw_extension("2.999.7", b"\x05\x00", critical=True), "pki.request"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_this_pki_does_not_certify_is_rejected(pki, valid, name):
    edit, code = REFUSED[name]
    assert refusal(pki, request_of(edit(valid))) == code


def test_a_damaged_request_is_refused_without_the_text_of_the_parser(pki):
    whole = pki.qwac.certificate.der  # a sequence of the same shape
    with pytest.raises(FormatError, match=r"^the request cannot be read: csr info, version: unexpected tag \["):
        read(whole)


def test_every_dns_name_is_certified(folder, valid):
    names = ("a.example.org", "tpp.test.example.com", "c.example.org")
    assert issue(folder, request_of(dns_names(*names)(valid))).extensions.dns_names == names


def test_a_qualified_device_is_stated_if_it_is_requested(folder):
    assert issue(folder, read(make_request(make_provider(), "qseal", KEY, qscd=True))).qc.sscd
    assert not issue(folder, read(make_request(make_provider(), "qseal", KEY))).qc.sscd


def test_a_request_for_browsers_gets_their_policy_and_validity(folder):
    asked = read(make_request(make_provider(), "qwac", KEY, policy="ev"))
    issued = issue(folder, asked)
    assert issued.extensions.policies == ("2.23.140.1.1", "0.4.0.194112.1.4")
    assert issued.subject.rdns == asked.subject.rdns
    assert first_error(check_certificate(issued, as_=Use.QWAC, at=issued.not_before)) is None
    plain = issue(folder, read(make_request(make_provider(), "qwac", KEY)))
    assert plain.extensions.policies == (oids.POLICY_QNCP_W_GEN,)


def test_an_ed25519_key_is_certified_for_seals(folder, pki):
    assert issue(folder, request_with(ed25519.Ed25519PrivateKey.generate(), "qseal", pki)).key.type == "ed25519"


@pytest.mark.parametrize("oid", ["1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25"])
def test_addresses_stay_in_ia5string(folder, valid, oid):
    issued = issue(folder, request_of(second_attribute(oid, "example")(valid)))
    assert write_name((Attribute(oid, "example", der.IA5_STRING),))[2:] in issued.subject_der


@pytest.mark.parametrize("edit", [no_statement(oids.QC_TYPE), qc_types("0.4.0.1862.1.6.3", "0.4.0.1862.1.6.2")])
def test_a_request_that_does_not_state_one_kind_is_not_certified(folder, valid, edit):
    with refused(ConfigurationError, "pki.request", match="QcType"):
        issue(folder, request_of(edit(valid)))
