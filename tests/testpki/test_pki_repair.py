"""What a repair says that it changed is what it changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import EidasRequest, Psd2Statement, RoleOfPsp, der, oids
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.testpki import KeySource
from tppkit.testpki.draft import Draft, extension_of
from tppkit.testpki.faults import statements
from tppkit.testpki.faults.edits import (
    psd2_of,
    twice_attribute,
    with_attribute,
    with_psd2,
    with_value,
    without_attribute,
)
from tppkit.testpki.provider import make_corrections
from tppkit.testpki.repair import Change, changes_of, faults_left, openssl_config, repair_request
from tppkit.testpki.request import write_request

KEY = KeySource(seed=1).make_key("request")


def request_of(draft: Draft) -> EidasRequest:
    return EidasRequest.from_der(write_request(draft.subject, draft.extensions, KEY))


@pytest.fixture
def sound(pki) -> Draft:
    return Draft.of(pki.qwac.certificate)


@pytest.mark.parametrize("kind", ["qwac", "qseal"])
def test_of_a_sound_request_nothing_is_changed(pki, kind):
    assert changes_of(request_of(Draft.of(getattr(pki, kind).certificate))) == ()


@pytest.mark.parametrize(
    ("fault", "field", "before", "after"),
    [
        (statements.role_mismatch, "roles", "0.4.0.19495.1.2 PSP_AI", "0.4.0.19495.1.2 PSP_PI"),
        (statements.role_twice, "roles", "0.4.0.19495.1.2 PSP_PI, 0.4.0.19495.1.2 PSP_PI", "0.4.0.19495.1.2 PSP_PI"),
        (statements.empty_authority_name, "nca_name", "", "Bank of Lithuania"),
        (statements.two_types, "qc_types", "web, eseal", "web"),
        (statements.seal_type_in_qwac, "qc_types", "eseal", "web"),
        (statements.no_compliance, "qc_compliance", "", "yes"),
        (statements.device_in_qwac, "qc_sscd", "yes", ""),
        (statements.critical_statements, "critical_extensions", "1.3.6.1.5.5.7.1.3, 2.5.29.15", "2.5.29.15"),
    ],
)
def test_each_field_is_told(sound, fault, field, before, after):
    told = {change.field: change for change in changes_of(request_of(fault(sound)), kind="qwac")}
    assert told[field] == Change(field, before, after)
    assert told.keys() <= {field, "qc_statements"}


@pytest.mark.parametrize(
    "fault",
    [
        statements.flattened_roles,
        statements.tagged_role,
        statements.printable_authority_name,
        statements.compliance_with_null,
    ],
)
def test_each_encoding_is_told(sound, fault):
    old = request_of(fault(sound))
    encodings = [change.before for change in changes_of(old) if change.field == "encoding"]
    assert encodings == [finding.message for finding in old.findings] != []


AUTHORITY = {
    statements.authority_name_and_id_exchanged: ("Bank of Lithuania", "LT-BL"),
    statements.authority_id_for_its_name: ("Bank of Lithuania", "LT-BL"),
    statements.authority_id_without_hyphen: ("Bank of Lithuania", "LT-BL"),
    statements.authority_id_of_a_country: ("Bank of Lithuania", "LT-BL"),
    statements.authority_name_in_greek: ("Τράπεζα της Ελλάδος", "LT-BL"),
    statements.authority_of_no_country: ("Bank of Lithuania", "QQ-BANK"),
}


@pytest.mark.parametrize("fault", AUTHORITY, ids=lambda fault: fault.__name__)
def test_the_authority_is_who_was_meant(sound, fault):
    mended = EidasRequest.from_der(repair_request(request_of(fault(sound)), KEY))
    assert (mended.qc.psd2.nca_name, mended.qc.psd2.nca_id) == AUTHORITY[fault]


@pytest.mark.parametrize("nca_id", ["", "N/A", "lt-bl"])
def test_an_identifier_beside_none_is_the_authoritys(sound, nca_id):
    old = request_of(with_psd2(sound, replace(psd2_of(sound), nca_name="LT-BL", nca_id=nca_id)))
    mended = EidasRequest.from_der(repair_request(old, KEY))
    assert (mended.qc.psd2.nca_name, mended.qc.psd2.nca_id) == ("Bank of Lithuania", "LT-BL")
    assert faults_left(old) == ()


def test_an_authority_that_is_not_named_is_that_of_the_identifier(sound):
    mended = EidasRequest.from_der(repair_request(request_of(statements.statement_without_authority(sound)), KEY))
    assert (mended.qc.psd2.nca_name, mended.qc.psd2.nca_id) == ("Bank of Lithuania", "LT-BL")


def test_where_nothing_names_an_authority_a_new_request_is_needed(sound):
    nameless = without_attribute(statements.statement_without_authority(sound), oids.ORGANIZATION_IDENTIFIER)
    with pytest.raises(ConfigurationError) as refused:
        repair_request(request_of(nameless), KEY)
    assert refused.value.code == "pki.request"


def test_a_central_bank_names_no_authority(sound):
    draft = with_psd2(sound, Psd2Statement((RoleOfPsp("0.4.0.19495.1.5", "PSP_CB"),), "NA", "NA"))
    mended = EidasRequest.from_der(repair_request(request_of(draft), KEY))
    assert (mended.qc.psd2.nca_name, mended.qc.psd2.nca_id) == ("NA", "NA")


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        (statements.authority_name_and_id_exchanged, []),
        (statements.flattened_roles, []),
        (statements.authority_name_in_greek, ["qcstatements.nca-name"]),
        (
            statements.authority_of_no_country,
            ["qcstatements.nca-country"],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_only_the_holder_can_mend_is_left(sound, fault, codes):
    assert [finding.code for finding in faults_left(request_of(fault(sound)))] == codes


@pytest.mark.parametrize(
    ("nca_name", "code"),
    [
        ("Bank\x07 of Lithuania", "qcstatements.nca-name"), ("Bank \u202eof", "qcstatements.nca-name"),
        ("NA", "qcstatements.nca-name-absent"),
    ],
)  # fmt: skip
def test_an_authoritys_name_that_is_no_plain_text_or_none_is_asked_about(sound, nca_name, code):
    old = request_of(with_psd2(sound, replace(psd2_of(sound), nca_name=nca_name)))
    (left,) = faults_left(old)
    assert (left.code, left.message.isprintable()) == (code, True)


def test_a_no_break_space_is_a_space_of_plain_text(sound):
    assert faults_left(request_of(with_psd2(sound, replace(psd2_of(sound), nca_name="Bank\u00a0of Lithuania")))) == ()


def test_names_of_every_form_that_are_dropped_are_told(sound):
    names = x509.SubjectAlternativeName([
        x509.DNSName("tpp.test.example.com"), x509.RFC822Name("ada@example.org"),
        x509.UniformResourceIdentifier("https://example.org"), x509.RegisteredID(x509.ObjectIdentifier("2.999")),
    ])  # fmt: skip
    told = changes_of(request_of(sound.with_extension(extension_of(names, False))))
    assert told == (
        Change("subject_alternative_names", "rfc822Name ada@example.org", ""),
        Change("subject_alternative_names", "uniformResourceIdentifier https://example.org", ""),
        Change("subject_alternative_names", "registeredID", ""),
    )


def test_policies_and_what_is_the_issuers_own_are_told(sound):
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name.from_rfc4514_string("CN=a,C=LT"))
    for extension in sound.extensions:
        request = request.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier(extension.oid), extension.value), extension.critical
        )
    old = EidasRequest.from_der(request.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER))
    told = {change.field: change.before for change in changes_of(old)}
    assert told["policies"] == oids.POLICY_QNCP_W_GEN
    assert {"2.5.29.14", "2.5.29.31", "2.5.29.32"} <= set(told["extensions"].split(", "))


def test_other_attributes_are_told_and_never_their_values(sound):
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name.from_rfc4514_string("CN=a,C=LT"))
        .add_attribute(x509.ObjectIdentifier("1.2.840.113549.1.9.7"), b"secret")
    )
    for extension in sound.extensions:
        if extension.oid == oids.QC_STATEMENTS:
            value = x509.UnrecognizedExtension(x509.ObjectIdentifier(extension.oid), extension.value)
            request = request.add_extension(value, extension.critical)
    old = EidasRequest.from_der(request.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER))
    told = changes_of(old)
    assert Change("attributes", "1.2.840.113549.1.9.7", "") in told
    assert "secret" not in str(told)


def test_another_string_type_of_the_subject_is_told(sound):
    old = request_of(with_attribute(sound, oids.ORGANIZATION, "Example Payments TEST", tag=der.PRINTABLE_STRING))
    assert [change.field for change in changes_of(old)] == ["subject"]


def test_another_kind_is_told(sound):
    fields = {change.field for change in changes_of(request_of(sound), kind="qseal")}
    assert fields == {"qc_types", "key_usage", "extended_key_usage", "dns_names", "extensions"}


def test_who_registers_a_name_is_kept(pki, sound):
    scheme = replace(pki.provider, organization_identifier=replace(pki.provider.organization_identifier, scheme="LB:"))
    draft = Draft.of(pki.issue_qwac(scheme, label="a").certificate)
    mended = EidasRequest.from_der(repair_request(request_of(draft), KEY))
    assert mended.qc.name_registration_authorities == ("https://pki.test.example.com/register",)


@given(st.data())
def test_after_a_repair_nothing_is_left_to_change(pki, data):
    draft = Draft.of(pki.qwac.certificate)
    whole = next(extension.value for extension in draft.extensions if extension.oid == oids.QC_STATEMENTS)
    start = data.draw(st.integers(0, len(whole) - 1))
    value = whole[:start] + data.draw(st.binary(min_size=1, max_size=4)) + whole[start + data.draw(st.integers(1, 4)) :]
    old = request_of(with_value(draft, oids.QC_STATEMENTS, value))
    try:
        mended = EidasRequest.from_der(repair_request(old, KEY))
    except TppkitError:
        return
    assert changes_of(mended) == ()


REAL = ["csr-qctypes__f91257c7", "csrWithKUandEKU__2d2fd03c", "deploy__80c8336e"]


@pytest.mark.parametrize("name", REAL)
def test_what_the_holder_says_mends_a_real_request_that_nobody_can_guess(shared_data, name):
    file = shared_data / "certificates" / "psd2_csr" / f"eidas-x509-for-psd2__{name}.der"
    old = EidasRequest.from_der(file.read_bytes())
    assert any("Germany" in finding.message for finding in faults_left(old, kind="qwac"))
    said = make_corrections(
        organization_identifier="PSDDE-BAFIN-123456", country="DE", dns_name="tpp.example.org", roles=["PSP_AI"]
    )
    assert faults_left(old, kind="qwac", corrections=said) == ()
    changes = changes_of(old, kind="qwac", corrections=said)
    assert ("subject", "C=Germany", "C=DE") in changes
    assert [change.after for change in changes if change.field == "dns_names"] == ["tpp.example.org"]
    config = openssl_config(old, kind="qwac", corrections=said)
    assert "C = DE\n" in config
    assert "CN = tpp.example.org\n" in config


def test_a_correction_says_one_thing_and_the_rest_stays(sound):
    old = request_of(sound)
    said = make_corrections(nca_name="Lietuvos bankas", name="Kitas TEST")
    mended = EidasRequest.from_der(repair_request(old, KEY, corrections=said))
    assert (mended.qc.psd2.nca_name, mended.qc.psd2.nca_id) == ("Lietuvos bankas", "LT-BL")
    assert mended.subject.values(oids.ORGANIZATION) == ("Kitas TEST",)
    assert (mended.roles, mended.extensions.dns_names) == (old.roles, old.extensions.dns_names)


def test_a_corrected_attribute_stands_once(sound):
    twice = request_of(twice_attribute(sound, oids.ORGANIZATION, "Second TEST"))
    mended = EidasRequest.from_der(repair_request(twice, KEY, corrections=make_corrections(name="One TEST")))
    assert mended.subject.values(oids.ORGANIZATION) == ("One TEST",)
    bare = request_of(without_attribute(sound, oids.COUNTRY))
    mended = EidasRequest.from_der(repair_request(bare, KEY, corrections=make_corrections(country="LT")))
    assert mended.subject.values(oids.COUNTRY) == ("LT",)


def test_outer_blanks_of_a_name_are_left_out_and_told(sound):
    old = request_of(with_attribute(sound, oids.ORGANIZATION, " Example Payments TEST  "))
    assert ("subject", 'O=" Example Payments TEST  "', "O=Example Payments TEST") in changes_of(old)
    mended = EidasRequest.from_der(repair_request(old, KEY))
    assert mended.subject.values(oids.ORGANIZATION) == ("Example Payments TEST",)
    assert "O = Example Payments TEST\n" in openssl_config(old)
