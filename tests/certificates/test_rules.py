"""What a relying party refuses, which edition counts, and that the certificates of the test PKI break no rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography import x509

from refusals import refused
from tppkit.certificates import EidasCertificate, Psd2Statement, Use, check_certificate, oids
from tppkit.certificates.editions import CALENDAR, EDITIONS, NOT_FIXED, PUBLIC_LIMITS
from tppkit.certificates.qcstatements import PdsLocation, RoleOfPsp
from tppkit.certificates.rules import RULES, first_error
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError, Finding, Severity
from tppkit.testpki.profiles import key_usage, qwac_extensions

TYPES = {Use.QWAC: "web", Use.QSEALC: "eseal"}
PDS = PdsLocation("https://pki.test.example.com/pds_en.pdf", "en")
PI = RoleOfPsp("0.4.0.19495.1.2", "PSP_PI")
ORG_ID = x509.NameAttribute(x509.ObjectIdentifier(oids.ORGANIZATION_IDENTIFIER), "PSDLT-BL-LB000000")


def qc(
    use: Use, *, qc_type: str | None = None, roles: tuple[RoleOfPsp, ...] | None = (PI,), compliance: bool = True
) -> bytes:
    psd2 = None if roles is None else Psd2Statement(roles, "Bank of Lithuania", "LT-BL")
    return write_qc_statements(qc_type=qc_type or TYPES[use], psd2=psd2, pds=(PDS,), compliance=compliance)


def usage(*names: str) -> x509.ExtensionType:
    return key_usage(*names)[0]


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


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
    seal = issue(Use.QSEALC, usage(*names))
    assert check_certificate(seal, as_=Use.QSEALC, at=pki.not_before, essential_only=True) == ()


@pytest.mark.parametrize("names", [("digital_signature", "key_encipherment"), None])
def test_a_qwac_may_also_encipher_keys_or_state_no_key_usage(issue, pki, names):
    extensions, without = ([usage(*names)], ()) if names else ([], (x509.KeyUsage,))
    qwac = issue(Use.QWAC, *extensions, without=without)
    assert check_certificate(qwac, as_=Use.QWAC, at=pki.not_before, essential_only=True) == ()


@pytest.mark.parametrize("oid", ["2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.37", oids.QC_STATEMENTS])
def test_an_extension_that_is_read_may_be_critical(issue, pki, oid):
    profile = [extension for extension, _ in qwac_extensions(pki.provider)]
    known = [*profile, x509.BasicConstraints(ca=False, path_length=None)]
    certificate = issue(Use.QWAC, critical=[extension for extension in known if extension.oid.dotted_string == oid])
    assert oid in certificate.extensions.critical
    assert check_certificate(certificate, as_=Use.QWAC, at=pki.not_before, essential_only=True) == ()


def test_a_role_that_is_registered_elsewhere_is_not_a_fault(issue, pki):
    # TS 119 495 GEN-5.2.2-4
    statements = qc(Use.QWAC, roles=(PI, RoleOfPsp("2.999.7", "PSP_XX")))
    certificate = issue(Use.QWAC, qc=statements)
    assert first_error(check_certificate(certificate, as_=Use.QWAC, at=pki.not_before)) is None
    assert certificate.roles == ("PSP_PI", "2.999.7")


def test_an_identifier_of_another_form_is_an_error_that_is_not_essential(issue, pki):
    # Which organizationIdentifiers are accepted is a relying party's OrganizationPolicy.
    name = x509.Name([x509.NameAttribute(ORG_ID.oid, "12345987")])
    certificate = issue(Use.QWAC, subject=name)
    (finding,) = check_certificate(certificate, as_=Use.QWAC, at=pki.not_before, essential_only=True)
    assert (finding.code, finding.severity) == ("organization-identifier.malformed", Severity.WARNING)
    assert first_error((finding,)) is None
    judged = check_certificate(certificate, as_=Use.QWAC, at=pki.not_before)
    assert [f.severity for f in judged if f.code == finding.code] == [Severity.ERROR]


def test_all_broken_rules_are_reported_in_the_order_of_the_table(issue, pki):
    certificate = issue(Use.QSEALC, qc=write_qc_statements(qc_type="web", psd2=None, pds=(), compliance=False))
    findings = check_certificate(
        certificate, as_=Use.QSEALC, at=pki.not_before - timedelta(days=1), essential_only=True
    )
    expected = [
        "certificate.not-yet-valid",
        "qcstatements.no-compliance",
        "qcstatements.not-eseal",
    ]
    assert codes(findings) == expected
    assert first_error(findings) is findings[0]


def test_what_was_malformed_comes_before_the_rules(issue, pki):
    findings = check_certificate(issue(Use.QWAC, qc=b"\x30\x02\x05\x00"), as_=Use.QWAC, at=pki.not_before)
    assert codes(findings)[0] == "qcstatements.malformed"
    assert "qcstatements.no-psd2" in codes(findings)


def test_a_finding_names_the_values_that_were_compared(issue, pki):
    (finding,) = check_certificate(
        issue(Use.QWAC, qc=qc(Use.QSEALC)), as_=Use.QWAC, at=pki.not_before, essential_only=True
    )
    assert dict(finding.values) == {"qc_types": "eseal", "expected": "web"}


def test_a_seal_is_not_a_website_certificate(pki):
    found = codes(check_certificate(pki.qseal.certificate, as_=Use.QWAC, at=pki.not_before, essential_only=True))
    assert found == ["qcstatements.not-web", "certificate.no-client-auth", "certificate.key-usage"]


def test_an_authority_is_neither(pki):
    for use in Use:
        assert "certificate.is-ca" in codes(check_certificate(pki.root.certificate, as_=use, at=pki.not_before))


def test_a_time_without_zone_is_refused(pki):
    with refused(ConfigurationError, "time.naive"):
        check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=datetime(2026, 6, 1))


def test_an_aware_time_of_the_far_past_or_future_gets_a_verdict(pki):
    for at in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        assert len(check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=at)) == 1


# The edition that counts is the one of the day of issue, or the one that the caller names.

NOT_PSD, NOT_APPLICABLE = "organization-identifier.not-psd", "qcstatements.nca-not-applicable"
BEGIN_V1_5_1 = datetime(2021, 4, 1, tzinfo=UTC)


def of_vat_number(issue, begins: datetime) -> EidasCertificate:
    name = x509.Name([x509.NameAttribute(ORG_ID.oid, "VATLT-123456789")])
    return issue(Use.QSEALC, subject=name, not_before=begins)


def weights(certificate: EidasCertificate, code: str, **options: str) -> list[Severity]:
    findings = check_certificate(certificate, as_=Use.QSEALC, at=certificate.not_before, **options)
    return [finding.severity for finding in findings if finding.code == code]


def test_another_identifier_than_the_psd_form_is_a_warning_in_every_edition(issue):
    for begins in (BEGIN_V1_5_1 - timedelta(seconds=1), BEGIN_V1_5_1):
        assert weights(of_vat_number(issue, begins), NOT_PSD) == [Severity.WARNING]


def of_central_bank(issue, begins: datetime) -> EidasCertificate:
    bank = RoleOfPsp(oids.ROLE_OIDS["PSP_CB"], "PSP_CB")
    return issue(Use.QSEALC, qc=qc(Use.QSEALC, roles=(bank,)), not_before=begins)


def test_a_rule_counts_from_the_day_of_its_edition(issue):
    last, first = BEGIN_V1_5_1 - timedelta(seconds=1), BEGIN_V1_5_1
    assert weights(of_central_bank(issue, last), NOT_APPLICABLE) == []
    assert weights(of_central_bank(issue, first), NOT_APPLICABLE) == [Severity.ERROR]


@pytest.mark.parametrize(
    ("edition", "severities"),
    [("V1.1.2", []), ("V1.2.1", []), ("V1.4.1", []), ("V1.5.1", ["error"]), ("V1.8.1", ["error"])],
)
def test_a_named_edition_takes_the_place_of_the_day_of_issue(issue, edition, severities):
    for begins in (BEGIN_V1_5_1 - timedelta(days=400), BEGIN_V1_5_1 + timedelta(days=400)):
        assert weights(of_central_bank(issue, begins), NOT_APPLICABLE, edition=edition) == severities


def test_a_named_edition_moves_no_rule_of_another_document(issue):
    # In 2020 a public certificate could be valid for two years; the edition of 2026 says nothing about that.
    policies = [
        x509.PolicyInformation(x509.ObjectIdentifier(oid), None) for oid in (oids.POLICY_QNCP_W_GEN, "2.23.140.1.2.2")
    ]
    begins = datetime(2020, 6, 30, tzinfo=UTC)
    public = issue(Use.QWAC, x509.CertificatePolicies(policies), not_before=begins, days=700)
    by_day, by_edition = (check_certificate(public, as_=Use.QWAC, at=begins, edition=name) for name in (None, "V1.8.1"))
    assert by_edition == by_day
    assert "certificate.validity-too-long" not in codes(by_edition)


@pytest.mark.parametrize("edition", ["V1.7.1", "V9", "", "1.4.1", "v" * 1000])
def test_an_edition_that_is_not_known_is_refused(pki, edition):
    with pytest.raises(ConfigurationError) as refused:
        check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=pki.not_before, edition=edition)
    assert refused.value.code == "rules.edition"
    assert "V1.8.1" in refused.value.message


def test_every_edition_of_the_specification_can_be_named_and_they_are_in_order(pki):
    assert list(EDITIONS) == sorted(EDITIONS, key=lambda edition: edition.begins)
    for edition in EDITIONS:
        check_certificate(pki.qwac.certificate, as_=Use.QWAC, at=pki.not_before, edition=edition.version)


def test_no_rule_ends_before_it_begins_and_no_two_rows_of_a_code_and_check_overlap():
    for rule in RULES:
        assert rule.since is None or rule.until is None or rule.since.begins < rule.until.begins
    dated = [rule for rule in RULES if rule.since or rule.until]
    days = {edition.begins for rule in dated for edition in (rule.since, rule.until) if edition}
    for code in {rule.code for rule in dated}:
        rows = [rule for rule in dated if rule.code == code]
        assert all(sum(rule.holds_on(day) for rule in rows) <= 1 for day in days), code


def test_what_is_essential_is_an_error_on_every_day():
    essential = [rule for rule in RULES if rule.essential]
    assert {(rule.severity, rule.since, rule.until) for rule in essential} == {(Severity.ERROR, None, None)}


@pytest.mark.parametrize("use", Use)
def test_what_a_relying_party_refuses_for_is_part_of_the_whole_judgement(pki, use):
    for judged in (pki.qwac, pki.qseal, pki.server, pki.root):
        few = check_certificate(judged.certificate, as_=use, at=pki.not_before, essential_only=True)
        whole = check_certificate(judged.certificate, as_=use, at=pki.not_before)
        assert {f.code for f in few if f.severity is Severity.ERROR} <= {f.code for f in whole}


def test_a_relying_party_does_not_refuse_what_only_the_issuer_can_fix(pki, issue, paths):
    certificate = issue(Use.QSEALC, without=(x509.AuthorityInformationAccess, x509.CRLDistributionPoints))
    assert first_error(check_certificate(certificate, as_=Use.QSEALC, at=pki.not_before)) is not None
    assert paths.verify_use(certificate, as_=Use.QSEALC, at=pki.not_before).chain[0] is certificate


def test_the_calendar_states_what_changes_when_and_where_it_was_read():
    assert list(CALENDAR) == sorted(CALENDAR, key=lambda row: row.begins)
    assert len({str(row) for row in CALENDAR}) == len(CALENDAR)
    for row in CALENDAR:
        assert row.what.endswith(".")
        assert row.source
        assert row.read < NOT_FIXED
        assert set(row.roles) <= oids.ROLE_OIDS.keys()
    limits = [row.max_days for row in PUBLIC_LIMITS]
    assert limits == sorted(limits, reverse=True)
    assert {day for rule in RULES for day in (rule.since, rule.until)} <= {None, *CALENDAR}
