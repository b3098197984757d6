"""What a repair says that it changed is what it changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.certificates import EidasRequest, der, oids
from tppkit.errors import TppkitError
from tppkit.testpki import KeySource
from tppkit.testpki.draft import Draft
from tppkit.testpki.faults import statements
from tppkit.testpki.faults.edits import with_attribute, with_value
from tppkit.testpki.repair import Change, changes_of, repair_request
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
        (statements.empty_authority_name, "nca_name", "", "Competent authority LT-BL"),
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
