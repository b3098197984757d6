"""Every rule of the profile has a certificate that breaks it alone, and the certificates of the test PKI break none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tppkit.certificates import Psd2Statement, RoleOfPsp, Use, check_certificate, der, oids
from tppkit.certificates.rules import RULES, first_error
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError, Finding, Severity
from tppkit.testpki.profiles import key_usage, qwac_extensions

TYPES = {Use.QWAC: "web", Use.QSEALC: "eseal"}
PI = RoleOfPsp("0.4.0.19495.1.2", "PSP_PI")
ORG_ID = x509.NameAttribute(x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER), "PSDLT-BL-LB000000")


def qc(
    use: Use, *, qc_type: str | None = None, roles: tuple[RoleOfPsp, ...] | None = (PI,), compliance: bool = True
) -> bytes:
    psd2 = None if roles is None else Psd2Statement(roles, "Bank of Lithuania", "LT-BL")
    return write_qc_statements(qc_type=qc_type or TYPES[use], psd2=psd2, pds=(), compliance=compliance)


def qc_of_types(*types: str) -> bytes:
    """Good statements, but the QcType names these."""
    good = qc(Use.QWAC)
    names = der.write_element(der.SEQUENCE, *map(der.write_oid, types))
    stated = der.write_element(der.SEQUENCE, der.write_oid(oids.QC_TYPE), names)
    others = [
        good[child.offset : child.end]
        for child in der.read_children(good, der.read_whole(good, tag=der.SEQUENCE))
        if der.write_oid(oids.QC_TYPE) not in good[child.offset : child.end]
    ]
    return der.write_element(der.SEQUENCE, stated, *others)


def usage(*names: str) -> x509.ExtensionType:
    return key_usage(*names)[0]


SERVER_ONLY = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
WEB, ESEAL = "0.4.0.1862.1.6.3", "0.4.0.1862.1.6.2"

# Code, use, and what is other than in the good certificate: the arguments of `issue`, or a time after the start of validity.
BREAKS = [
    ("certificate.not-yet-valid", Use.QWAC, timedelta(microseconds=-1)),
    ("certificate.not-yet-valid", Use.QSEALC, timedelta(days=-1)),
    ("certificate.expired", Use.QWAC, timedelta(days=90, microseconds=1)),
    ("certificate.expired", Use.QSEALC, timedelta(days=91)),
    *((code, use, change) for use in Use for code, change in [
        ("certificate.is-ca", {"extensions": [x509.BasicConstraints(ca=True, path_length=None)]}),
        ("certificate.critical-extension", {"critical": [x509.UnrecognizedExtension(x509.ObjectIdentifier("2.999.1"), b"\x05\x00")]}),
        ("organization-identifier.missing", {"subject": x509.Name([])}),
        ("organization-identifier.missing", {"subject": x509.Name([ORG_ID, ORG_ID])}),
        ("qcstatements.no-compliance", {"qc": qc(use, compliance=False)}),
        ("qcstatements.no-psd2", {"qc": qc(use, roles=None)}),
        ("qcstatements.no-roles", {"qc": qc(use, roles=())}),
        ("qcstatements.role-mismatch", {"qc": qc(use, roles=(PI, RoleOfPsp("0.4.0.19495.1.3", "PSP_PI")))}),
    ]),
    ("qcstatements.not-web", Use.QWAC, {"qc": qc(Use.QWAC, qc_type="eseal")}),
    ("qcstatements.not-web", Use.QWAC, {"qc": qc_of_types()}),
    ("qcstatements.not-web", Use.QWAC, {"qc": qc_of_types(WEB, ESEAL)}),
    ("qcstatements.not-eseal", Use.QSEALC, {"qc": qc(Use.QSEALC, qc_type="web")}),
    ("qcstatements.not-eseal", Use.QSEALC, {"qc": qc_of_types(ESEAL, WEB)}),
    ("certificate.no-client-auth", Use.QWAC, {"extensions": [SERVER_ONLY]}),
    ("certificate.no-client-auth", Use.QWAC, {"without": (x509.ExtendedKeyUsage,)}),
    ("certificate.key-usage", Use.QWAC, {"extensions": [usage("content_commitment")]}),
    ("certificate.key-usage", Use.QWAC, {"extensions": [usage("key_encipherment")]}),
    ("certificate.key-usage", Use.QSEALC, {"extensions": [usage("key_encipherment", "data_encipherment")]}),
    ("certificate.key-usage", Use.QSEALC, {"without": (x509.KeyUsage,)}),
]  # fmt: skip


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(("code", "use", "change"), BREAKS, ids=[f"{code} {use}" for code, use, _ in BREAKS])
def test_a_certificate_that_breaks_one_rule_gives_its_finding_alone(issue, pki, code, use, change):
    at, extensions = pki.not_before, []
    if isinstance(change, timedelta):
        at, change = at + change, {}
    else:
        extensions = change.get("extensions", [])
    certificate = issue(use, *extensions, **{name: value for name, value in change.items() if name != "extensions"})
    (finding,) = check_certificate(certificate, as_=use, at=at)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert finding.clause == next(rule.clause for rule in RULES if rule.code == code and use in rule.uses)


def test_every_rule_has_a_certificate_that_breaks_it():
    assert {(code, use) for code, use, _ in BREAKS} == {(rule.code, use) for rule in RULES for use in rule.uses}


@pytest.mark.parametrize("use", Use)
def test_a_good_certificate_gives_no_finding(issue, pki, use):
    assert check_certificate(issue(use), as_=use, at=pki.not_before) == ()


def test_the_certificates_of_the_test_pki_fit_their_profiles(pki, rsa_pki):
    for made in (pki, rsa_pki):
        assert check_certificate(made.qwac.certificate, as_=Use.QWAC, at=made.not_before) == ()
        assert check_certificate(made.qseal.certificate, as_=Use.QSEALC, at=made.not_before) == ()


@pytest.mark.parametrize("use", Use)
def test_the_first_and_the_last_moment_are_valid(issue, use):
    certificate = issue(use)
    for at in (certificate.not_before, certificate.not_after):
        assert check_certificate(certificate, as_=use, at=at) == ()
        assert check_certificate(certificate, as_=use, at=at.astimezone(timezone(timedelta(hours=-5)))) == ()


# EN 319 412-2 clause 4.3.2: types A, B, C and F.
@pytest.mark.parametrize(
    "names",
    [
        ("content_commitment",),
        ("content_commitment", "digital_signature"),
        ("digital_signature",),
        ("digital_signature", "content_commitment", "key_encipherment"),
    ],
)
def test_a_seal_may_have_any_key_usage_that_is_for_signatures(issue, pki, names):
    assert check_certificate(issue(Use.QSEALC, usage(*names)), as_=Use.QSEALC, at=pki.not_before) == ()


@pytest.mark.parametrize("names", [("digital_signature", "key_encipherment"), None])
def test_a_qwac_may_also_encipher_keys_or_state_no_key_usage(issue, pki, names):
    extensions, without = ([usage(*names)], ()) if names else ([], (x509.KeyUsage,))
    assert check_certificate(issue(Use.QWAC, *extensions, without=without), as_=Use.QWAC, at=pki.not_before) == ()


@pytest.mark.parametrize("oid", ["2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.37", oids.QC_STATEMENTS])
def test_an_extension_that_is_read_may_be_critical(issue, pki, oid):
    profile = [extension for extension, _ in qwac_extensions(pki.provider)]
    known = [*profile, x509.BasicConstraints(ca=False, path_length=None)]
    certificate = issue(Use.QWAC, critical=[extension for extension in known if extension.oid.dotted_string == oid])
    assert oid in certificate.extensions.critical
    assert check_certificate(certificate, as_=Use.QWAC, at=pki.not_before) == ()


def test_a_role_that_is_registered_elsewhere_is_no_fault(issue, pki):
    # TS 119 495 GEN-5.2.2-4
    statements = qc(Use.QWAC, roles=(PI, RoleOfPsp("2.999.7", "PSP_XX")))
    assert check_certificate(issue(Use.QWAC, qc=statements), as_=Use.QWAC, at=pki.not_before) == ()


def test_an_identifier_of_another_form_is_only_a_warning(issue, pki):
    name = x509.Name([x509.NameAttribute(ORG_ID.oid, "12345987")])
    (finding,) = check_certificate(issue(Use.QWAC, subject=name), as_=Use.QWAC, at=pki.not_before)
    assert (finding.code, finding.severity) == ("organization-identifier.malformed", Severity.WARNING)
    assert first_error((finding,)) is None


def test_all_broken_rules_are_reported_in_the_order_of_the_table(issue, pki):
    certificate = issue(Use.QSEALC, qc=write_qc_statements(qc_type="web", psd2=None, pds=(), compliance=False))
    findings = check_certificate(certificate, as_=Use.QSEALC, at=pki.not_before - timedelta(days=1))
    expected = [
        "certificate.not-yet-valid",
        "qcstatements.no-compliance",
        "qcstatements.no-psd2",
        "qcstatements.not-eseal",
    ]
    assert codes(findings) == expected
    assert first_error(findings) is findings[0]


def test_what_was_malformed_comes_before_the_rules(issue, pki):
    findings = check_certificate(issue(Use.QWAC, qc=b"\x30\x02\x05\x00"), as_=Use.QWAC, at=pki.not_before)
    assert codes(findings)[0] == "qcstatements.malformed"
    assert "qcstatements.no-psd2" in codes(findings)


def test_a_finding_names_the_values_that_were_compared(issue, pki):
    (finding,) = check_certificate(issue(Use.QWAC, qc=qc(Use.QSEALC)), as_=Use.QWAC, at=pki.not_before)
    assert dict(finding.values) == {"qc_types": "eseal", "expected": "web"}


def test_a_seal_is_no_website_certificate(pki):
    found = codes(check_certificate(pki.qseal.certificate, as_=Use.QWAC, at=pki.not_before))
    assert found == ["qcstatements.not-web", "certificate.no-client-auth", "certificate.key-usage"]


def test_an_authority_is_neither(pki):
    for use in Use:
        assert "certificate.is-ca" in codes(check_certificate(pki.root.certificate, as_=use, at=pki.not_before))


def test_a_time_without_zone_is_refused(pki):
    with pytest.raises(ConfigurationError) as refused:
        check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=datetime(2026, 6, 1))
    assert refused.value.code == "time.naive"


def test_an_aware_time_of_the_far_past_or_future_gets_a_verdict(pki):
    for at in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        assert len(check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=at)) == 1
