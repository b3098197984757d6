"""Certificate requests: made, mended, and made by OpenSSL from our configuration."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import EidasRequest, Use, check_certificate, der, load_certificates, oids
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.testpki import (
    SEAL_KEY_KINDS,
    KeySource,
    key_pem,
    make_provider,
    open_pki,
    write_pki,
)
from tppkit.testpki.draft import Attribute, Draft, Extension, attributes_of, extension_of, write_name
from tppkit.testpki.faults import statements
from tppkit.testpki.faults.edits import twice_attribute, with_attribute, with_value, without_attribute
from tppkit.testpki.pem import pem_block
from tppkit.testpki.profiles import key_usage
from tppkit.testpki.provider import make_corrections
from tppkit.testpki.repair import changes_of, faults_left, openssl_config, repair_request
from tppkit.testpki.request import ISSUERS_OWN, make_request, write_request

SUBJECT_ALT_NAME = "2.5.29.17"
KEY = KeySource(seed=1).make_key("request")
MALFORMED = [
    statements.bare_statement, statements.flattened_roles, statements.role_without_its_sequence, statements.tagged_role,
    statements.tagged_roles, statements.compliance_with_null, statements.printable_authority_name,
    statements.printable_authority_id, statements.printable_role_name, statements.role_mismatch,
    statements.role_name_in_lower_case, statements.role_twice, statements.empty_authority_name, statements.two_types,
    statements.statement_twice, statements.psd2_statement_twice, statements.disclosure_over_http,
]  # fmt: skip
NAMES = ["Žvėryno mokėjimai", "Ελληνικές Πληρωμές", "支付", "Ω" * 32, "Smith & Sons, #1 \"best\" $PAY = 'x'; \\ end"]


def read(request: bytes) -> EidasRequest:
    return EidasRequest.from_der(request)


def request_of(draft: Draft) -> EidasRequest:
    return read(write_request(draft.subject, draft.extensions, KEY))


def run_openssl(*arguments: object) -> str:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def made_by_openssl(old: EidasRequest, folder: Path, **options) -> EidasRequest:
    """The request that the holder of the key makes from our configuration."""
    (folder / "c.cnf").write_text(openssl_config(old, **options), "utf-8")
    (folder / "k.pem").write_bytes(key_pem(KEY))
    run_openssl(
        "req", "-new", "-config", folder / "c.cnf", "-key", folder / "k.pem", "-outform", "DER", "-out", folder / "n"
    )
    return read((folder / "n").read_bytes())


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
@pytest.mark.parametrize("name", NAMES)
def test_a_request_reads_strictly_with_what_was_asked(kind, name, tmp_path):
    provider = make_provider(
        organization_identifier="PSDGR-BOG-12/34", name=name, country="GR", roles=["PSP_AI", "PSP_IC"]
    )
    raw = make_request(provider, kind, KEY, qscd=kind == "qseal")
    request = read(raw)
    request.require_well_formed()
    assert request.findings == ()
    assert request.subject.values(oids.ORGANIZATION) == (name,)
    assert request.organization_identifier.text == "PSDGR-BOG-12/34"
    assert request.roles == ("PSP_AI", "PSP_IC")
    assert request.qc.types == (("web",) if kind == "qwac" else ("eseal",))
    assert request.qc.sscd == (kind == "qseal")
    assert request.extensions.dns_names == (("tpp.test.example.com",) if kind == "qwac" else ())
    (tmp_path / "r.csr").write_bytes(pem_block("CERTIFICATE REQUEST", raw))
    assert "verify OK" in run_openssl("req", "-in", tmp_path / "r.csr", "-noout", "-verify")


@pytest.mark.parametrize("key", [kind for kind in SEAL_KEY_KINDS if kind not in ("rsa3072", "rsa4096")])
def test_openssl_verifies_a_request_of_each_kind_of_key(key, tmp_path):
    made = make_request(make_provider(), "qseal", KeySource().make_key("a", kind=key))
    (tmp_path / "r.csr").write_bytes(pem_block("CERTIFICATE REQUEST", made))
    assert "verify OK" in run_openssl("req", "-in", tmp_path / "r.csr", "-noout", "-verify")


@pytest.mark.parametrize("fault", MALFORMED, ids=lambda fault: fault.__name__)
def test_a_malformed_request_is_mended(pki, fault, tmp_path):
    sound = Draft.of(pki.qwac.certificate)
    old = request_of(fault(sound))
    new = read(repair_request(old, KEY))
    new.require_well_formed()
    assert not new.findings
    assert [role.oid for role in new.qc.psd2.roles] == list(dict.fromkeys(role.oid for role in old.qc.psd2.roles))
    assert all(role.name == oids.PSP_ROLES[role.oid] for role in new.qc.psd2.roles)
    assert (new.qc.psd2.nca_id, new.subject.rdns) == ("LT-BL", old.subject.rdns)
    assert (new.qc.types, new.extensions.dns_names) == (("web",), ("tpp.test.example.com",))
    assert new.extensions.extended_key_usage == ("serverAuth", "clientAuth")
    assert new.public_key == old.public_key
    theirs = made_by_openssl(old, tmp_path)
    theirs.require_well_formed()
    assert theirs.qc == new.qc
    assert (theirs.subject.rdns, theirs.extensions.dns_names) == (new.subject.rdns, new.extensions.dns_names)


@pytest.mark.parametrize("name", NAMES)
def test_openssl_makes_the_same_names_from_our_configuration(pki, name, tmp_path):
    draft = with_attribute(Draft.of(pki.qseal.certificate), oids.ORGANIZATION, name)
    draft = replace(draft, subject=(*draft.subject, Attribute("2.5.4.5", "12-34", der.PRINTABLE_STRING)))
    theirs = made_by_openssl(request_of(draft), tmp_path)
    assert theirs.subject.rdns == read(write_request(draft.subject, (), KEY)).subject.rdns
    theirs.require_well_formed()
    assert theirs.extensions.key_usage == ("nonRepudiation",)


@pytest.mark.shared
def test_malformed_requests_of_the_field_are_mended(shared_data, tmp_path):
    files = sorted((shared_data / "certificates" / "psd2_csr").glob("*.der"))
    assert len(files) >= 4
    for old in (read(file.read_bytes()) for file in files):
        country = None if "GB" in old.subject.values(oids.COUNTRY) else "DE"  # the others have "Germany"
        for kind in ("qwac", "qseal"):
            theirs = made_by_openssl(old, tmp_path, kind=kind, corrections=make_corrections(country=country))
            assert theirs.subject.values(oids.COUNTRY) == (country or "GB",)
            theirs.require_well_formed()
            assert theirs.qc.types == (("web",) if kind == "qwac" else ("eseal",))
            assert theirs.roles == tuple(oids.PSP_ROLES[role.oid] for role in old.qc.psd2.roles)
            assert theirs.qc.psd2.nca_id == old.qc.psd2.nca_id
            assert theirs.organization_identifier == old.organization_identifier


IA5_ATTRIBUTES = [
    Attribute("1.2.840.113549.1.9.1", "info@example.com", der.IA5_STRING),
    Attribute("0.9.2342.19200300.100.1.25", "example", der.IA5_STRING),
]


@pytest.mark.parametrize("attribute", IA5_ATTRIBUTES, ids=["emailAddress", "domainComponent"])
def test_a_repair_and_a_certificate_keep_addresses_in_ia5string(pki, folder, tmp_path, attribute):
    draft = Draft.of(pki.qwac.certificate)
    old = request_of(replace(draft, subject=(*draft.subject, attribute)))
    written = write_name((attribute,))[2:]
    for mended in (read(repair_request(old, KEY)), made_by_openssl(old, tmp_path)):
        assert written in mended.subject_der
    assert "subject" not in {change.field for change in changes_of(old)}
    entry, _ = open_pki(folder).issue_requested(old, at=pki.not_before)
    (certificate,) = load_certificates(folder / entry["path"])
    assert written in certificate.subject_der


def test_an_address_in_other_letters_cannot_be_requested(pki):
    draft = Draft.of(pki.qwac.certificate)
    foreign = IA5_ATTRIBUTES[0]._replace(text="žvėrynas@example.com", tag=der.UTF8_STRING)
    with pytest.raises(ConfigurationError) as refused:
        repair_request(request_of(replace(draft, subject=(*draft.subject, foreign))), KEY)
    assert refused.value.code == "pki.request"


def test_only_the_holder_of_the_key_repairs(pki):
    with pytest.raises(ConfigurationError) as refused:
        repair_request(request_of(Draft.of(pki.qwac.certificate)), pki.qseal.key)
    assert refused.value.code == "pki.foreign-key"


@pytest.mark.parametrize("fault", [statements.no_roles, statements.no_psd2_statement, statements.no_qcstatements])
def test_what_says_too_little_cannot_be_mended(pki, fault):
    with pytest.raises(ConfigurationError) as refused:
        repair_request(request_of(fault(Draft.of(pki.qwac.certificate))), KEY)
    assert refused.value.code == "pki.request"


@pytest.mark.parametrize(
    ("kind", "removed"), [("qwac", oids.EXTENDED_KEY_USAGE), ("qwac", SUBJECT_ALT_NAME), ("qseal", "1.2.3")]
)
def test_a_type_that_is_absent_is_guessed(pki, kind, removed):
    draft = statements.no_type(Draft.of(getattr(pki, kind).certificate)).without_extension(removed)
    new = read(repair_request(request_of(draft), KEY))
    assert new.qc.types == (("web",) if kind == "qwac" else ("eseal",))
    assert new.extensions.dns_names == (("tpp.test.example.com",) if kind == "qwac" else ())


def test_a_common_name_that_is_no_dns_name_is_not_made_one(pki):
    draft = with_attribute(Draft.of(pki.qwac.certificate), oids.COMMON_NAME, "Мой банк")
    new = read(repair_request(request_of(draft.without_extension(SUBJECT_ALT_NAME)), KEY))
    assert new.extensions.dns_names == ()


@pytest.mark.parametrize("text", ["a\n[ req ]\nx = y", "a\0", "a\r", "\x1b[2J"])
def test_a_subject_cannot_write_into_the_configuration(pki, text):
    old = request_of(with_attribute(Draft.of(pki.qwac.certificate), oids.ORGANIZATION, text))
    for mend in (openssl_config, lambda request: repair_request(request, KEY)):
        with pytest.raises(ConfigurationError) as refused:
            mend(old)
        assert refused.value.code == "pki.request"


@given(st.data())
def test_only_typed_errors_escape_from_a_mutated_request(pki, data):
    whole = write_request(attributes_of(pki.qwac.certificate.subject), Draft.of(pki.qwac.certificate).extensions, KEY)
    start = data.draw(st.integers(0, len(whole) - 1))
    changed = (
        whole[:start] + data.draw(st.binary(min_size=1, max_size=4)) + whole[start + data.draw(st.integers(1, 4)) :]
    )
    try:
        request = read(changed)
        openssl_config(request)
        repair_request(request, KEY)
    except TppkitError:
        pass


@given(st.text(max_size=12), st.text(max_size=12), st.binary(max_size=30))
def test_only_typed_errors_escape_from_hostile_names(pki, organization, common, statement):
    try:
        draft = with_attribute(Draft.of(pki.qwac.certificate), oids.ORGANIZATION, organization)
        draft = with_attribute(draft, oids.COMMON_NAME, common).without_extension(SUBJECT_ALT_NAME)
        raw = write_request(draft.subject, draft.extensions, KEY)
    except UnicodeEncodeError:
        return  # no request can have it
    try:
        openssl_config(read(raw))
        openssl_config(request_of(with_value(draft, oids.QC_STATEMENTS, statement)))
    except TppkitError:
        pass


def test_a_malformed_request_is_not_issued(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    old = request_of(statements.flattened_roles(Draft.of(pki.qwac.certificate)))
    with pytest.raises(ConfigurationError, match="repair") as refused:
        open_pki(tmp_path / "pki").issue_requested(old, at=pki.not_before)
    assert refused.value.code == "pki.request"
    entry, dropped = open_pki(tmp_path / "pki").issue_requested(read(repair_request(old, KEY)), at=pki.not_before)
    assert (entry["kind"], dropped) == ("qwac", ())


def test_a_request_without_identifier_is_mended_but_not_issued(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    old = request_of(without_attribute(Draft.of(pki.qwac.certificate), oids.ORGANIZATION_IDENTIFIER))
    with pytest.raises(ConfigurationError) as refused:
        open_pki(tmp_path / "pki").issue_requested(old, at=pki.not_before)
    assert refused.value.code == "pki.organization-identifier"


@pytest.fixture
def folder(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    return tmp_path / "pki"


def issue(folder: Path, request: EidasRequest, **options):
    entry, _ = open_pki(folder).issue_requested(request, at=open_pki(folder).pki.not_before, **options)
    return load_certificates(folder / entry["path"])[0]


def refusal(folder: Path, request: EidasRequest) -> str:
    before = sorted(folder.iterdir())
    with pytest.raises(ConfigurationError) as refused:
        issue(folder, request)
    assert sorted(folder.iterdir()) == before
    return refused.value.code


def with_names(draft: Draft, *names: x509.GeneralName) -> Draft:
    return draft.with_extension(extension_of(x509.SubjectAlternativeName(names), False))


def test_a_request_that_breaks_a_rule_of_the_profile_is_refused_by_it(pki, folder):
    sound = Draft.of(pki.qwac.certificate)
    inner = with_attribute(with_names(sound, x509.DNSName("localhost")), oids.COMMON_NAME, "localhost")
    for draft in (twice_attribute(sound, oids.ORGANIZATION, "Second TEST"), inner):
        assert refusal(folder, request_of(draft)) == "pki.profile"


def test_a_request_for_browsers_gets_what_they_take_of_a_year(folder):
    issued = issue(folder, read(make_request(make_provider(), "qwac", KEY, policy="ev")), label="ev")
    assert issued.extensions.is_public_tls
    assert first_error(check_certificate(issued, as_=Use.QWAC, at=issued.not_before)) is None


def test_every_dns_name_that_is_asked_for_is_certified(pki, folder):
    names = ("a.example.org", "tpp.test.example.com", "c.example.org")
    issued = issue(folder, request_of(with_names(Draft.of(pki.qwac.certificate), *map(x509.DNSName, names))))
    assert issued.extensions.dns_names == names


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (x509.RFC822Name("ada@example.org"), "pki.request"), (x509.IPAddress(ip_address("192.0.2.1")), "pki.request"),
        (x509.DNSName("*.example.org"), "pki.dns-name"), (x509.DNSName("A.example.org"), "pki.dns-name"),
    ],
    ids=str,
)  # fmt: skip
def test_a_name_that_is_not_certified_is_refused(pki, folder, name, code):
    asked = with_names(Draft.of(pki.qwac.certificate), x509.DNSName("a.example.org"), name)
    assert refusal(folder, request_of(asked)) == code


def test_a_qualified_device_is_stated_where_it_is_asked_for(folder):
    asked = read(make_request(make_provider(), "qseal", KEY, qscd=True))
    assert issue(folder, asked).qc.sscd
    assert not issue(folder, read(make_request(make_provider(), "qseal", KEY))).qc.sscd


def test_a_device_of_a_website_certificate_is_refused(pki, folder):
    assert refusal(folder, request_of(statements.device_in_qwac(Draft.of(pki.qwac.certificate)))) == "pki.request"


def test_the_policy_ev_and_its_names_are_certified_where_they_are_asked_for(folder):
    asked = read(make_request(make_provider(), "qwac", KEY, policy="ev"))
    issued = issue(folder, asked)
    assert issued.extensions.policies == ("2.23.140.1.1", "0.4.0.194112.1.4")
    assert issued.subject.rdns == asked.subject.rdns
    assert "2.23.140.3.1" in issued.extensions.present
    plain = issue(folder, read(make_request(make_provider(), "qwac", KEY)))
    assert plain.extensions.policies == (oids.POLICY_QNCP_W_GEN,)


def request_with(key, kind: str) -> EidasRequest:
    sound = make_request(make_provider(), kind, KEY)
    extensions = [Extension(oid, value) for oid, value in read(sound).extension_values.items()]
    return read(write_request(attributes_of(read(sound).subject), extensions, key))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(65537, 1024), "qwac"), (rsa.generate_private_key(65537, 2056), "qseal"),
        (rsa.generate_private_key(3, 2048), "qwac"), (ec.generate_private_key(ec.SECP256K1()), "qseal"),
        (ed25519.Ed25519PrivateKey.generate(), "qwac"),
    ],
    ids=["RSA-1024", "RSA-2056", "RSA of exponent 3", "secp256k1", "Ed25519 for TLS"],
)  # fmt: skip
def test_a_key_of_no_kind_that_certificates_have_is_refused(folder, key, kind):
    assert refusal(folder, request_with(key, kind)) == "pki.key-kind"


WEAK_KEYS = [
    (rsa.generate_private_key(65537, 1024), "qwac", "TS 119 312"), (ec.generate_private_key(ec.SECP256K1()), "qseal", "TS 119 312"),
    (ed25519.Ed25519PrivateKey.generate(), "qwac", "BR section 6.1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "kind", "rule"), WEAK_KEYS, ids=["RSA-1024", "secp256k1", "Ed25519 for TLS"])
def test_for_a_key_that_no_profile_allows_no_request_is_made_and_none_is_mended(key, kind, rule):
    with pytest.raises(ConfigurationError, match=rule) as refused:
        make_request(make_provider(), kind, key)
    assert refused.value.code == "pki.key-kind"
    assert [finding.code for finding in faults_left(request_with(key, kind))] == ["pki.key-kind"]


@pytest.mark.parametrize("curve", [ec.SECP521R1(), ec.BrainpoolP256R1()], ids=["P-521", "Brainpool"])
def test_a_request_may_have_a_key_that_profiles_allow_and_this_pki_does_not_make(curve):
    assert read(make_request(make_provider(), "qwac", ec.generate_private_key(curve))).findings == ()


def dropped(folder: Path, request: EidasRequest, **options) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for field, value in open_pki(folder).issue_requested(request, at=open_pki(folder).pki.not_before, **options)[1]:
        told.setdefault(field, []).append(value)
    return told


TLS_FEATURE = "1.3.6.1.5.5.7.1.24"
PURPOSES = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CODE_SIGNING, x509.ExtendedKeyUsageOID.CLIENT_AUTH])
POLICIES = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("2.999.1"), None)])
DROPPED = [
    (extension_of(PURPOSES, False), {"extended_key_usage": ["codeSigning"]}),
    (extension_of(*key_usage("digital_signature", "key_cert_sign")), {"key_usage": ["keyCertSign"]}),
    (
        extension_of(x509.BasicConstraints(True, None), True),
        {"is_ca": ["yes"], "extensions": ["2.5.29.19"], "critical_extensions": ["2.5.29.19"]},
    ),
    (extension_of(x509.TLSFeature([x509.TLSFeatureType.status_request]), False), {"extensions": [TLS_FEATURE]}),
    (Extension("2.999.7", b"\x05\x00", True), {"extensions": ["2.999.7"], "critical_extensions": ["2.999.7"]}),
    (extension_of(POLICIES, False), {"policies": ["2.999.1"]}),
]


@pytest.mark.parametrize(("asked", "told"), DROPPED, ids=[asked.oid for asked, _ in DROPPED])
def test_what_is_asked_for_and_not_certified_is_told_when_it_is_issued_and_when_it_is_mended(pki, folder, asked, told):
    request = with_extension(Draft.of(pki.qwac.certificate), asked)
    assert dropped(folder, request) == told
    changes = {change.field: change for change in changes_of(request)}
    for field, values in told.items():
        assert all(value in changes[field].before and value not in changes[field].after for value in values)


def with_extension(draft: Draft, asked: Extension) -> EidasRequest:
    """A request that also asks for what `write_request` leaves to the issuer."""
    wanted = [e for e in draft.extensions if e.oid not in ISSUERS_OWN and e.oid != asked.oid]
    request = x509.CertificateSigningRequestBuilder().subject_name(pki_name(draft))
    for oid, value, critical in (*wanted, asked):
        request = request.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), value), critical)
    return read(request.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER))


def pki_name(draft: Draft) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), text) for oid, text, _ in draft.subject])


def test_another_value_of_an_extension_that_the_certificate_has_is_told(pki, folder):
    asked = Extension(oids.CABF_ORGANIZATION_IDENTIFIER, der.write_element(der.SEQUENCE, der.write_text("XX")))
    (told,) = dropped(folder, with_extension(Draft.of(pki.qwac.certificate), asked))["extension_values"]
    assert told.startswith(oids.CABF_ORGANIZATION_IDENTIFIER)


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
def test_a_request_that_does_not_say_what_it_is_for_is_told_it(pki, folder, kind):
    bare = Draft.of(pki.qseal.certificate).without_extension(oids.KEY_USAGE)
    bare = with_attribute(statements.no_type(bare), oids.COMMON_NAME, "tpp.test.example.com")
    assert refusal(folder, request_of(bare)) == "pki.request"
    assert issue(folder, request_of(bare), kind=kind).qc.types == (("web",) if kind == "qwac" else ("eseal",))


def test_what_a_request_is_for_is_not_contradicted(pki, folder):
    with pytest.raises(ConfigurationError, match="QcType") as refused:
        issue(folder, request_of(Draft.of(pki.qseal.certificate)), kind="qwac")
    assert refused.value.code == "pki.request"


@pytest.mark.parametrize("common_name", ["Example Payments TEST", "other.example.org"])
def test_a_common_name_that_is_none_of_the_dns_names_is_refused(pki, folder, common_name):
    odd = request_of(with_attribute(Draft.of(pki.qwac.certificate), oids.COMMON_NAME, common_name))
    with pytest.raises(ConfigurationError, match=r"WEB-4\.1\.3-4") as refused:
        issue(folder, odd)
    assert refused.value.code == "pki.request"
    assert [finding.code for finding in faults_left(odd)] == ["pki.request"]


def test_a_common_name_alone_is_the_dns_name_and_without_any_nothing_is_issued(pki, folder):
    alone = Draft.of(pki.qwac.certificate).without_extension(SUBJECT_ALT_NAME)
    named = with_attribute(alone, oids.COMMON_NAME, "alone.example.org")
    assert issue(folder, request_of(named)).extensions.dns_names == ("alone.example.org",)
    assert refusal(folder, request_of(without_attribute(alone, oids.COMMON_NAME))) == "pki.request"


@pytest.mark.parametrize(
    ("fault", "is_mendable"),
    [(statements.flattened_roles, True), (statements.authority_name_in_greek, False), (statements.no_roles, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_repair_is_named_only_where_it_mends(pki, folder, fault, is_mendable):
    with pytest.raises(ConfigurationError) as refused:
        issue(folder, request_of(fault(Draft.of(pki.qwac.certificate))))
    assert ("--repair" in refused.value.message) == is_mendable
    assert is_mendable or "make a new one" in refused.value.message


@pytest.mark.parametrize("label", ["root", "issuing-ca-qwac", "qwac", "other-qseal", "ocsp-qwac", "lotl-signer"])
def test_the_key_of_another_member_is_refused(pki, folder, label):
    assert refusal(folder, request_with(pki.members[label].key, "qseal")) == "pki.foreign-key"


def test_a_key_of_callbacks_is_refused(pki, folder):
    assert refusal(folder, request_with(pki.callback_keys["callback-live"], "qwac")) == "pki.foreign-key"


def test_an_ed25519_key_is_certified_for_seals(folder):
    assert issue(folder, request_with(ed25519.Ed25519PrivateKey.generate(), "qseal")).key.type == "ed25519"
