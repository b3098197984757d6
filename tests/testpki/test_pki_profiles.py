"""Test certificates have the profiles of production, and providers are checked by the rules their certificates are read by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID as Access
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._iso_codes import COUNTRIES
from tppkit.certificates import Use, check_certificate, oids
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError
from tppkit.testpki import Issued, Pki, Provider, make_pki, make_provider
from tppkit.testpki.provider import UNSUPERVISED

_ROLES = sorted(oids.ROLE_OIDS.keys() - UNSUPERVISED - {"Unspecified"})
_LATIN = st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=0x24F, exclude_characters="µ")
PROVIDERS = st.fixed_dictionaries({
    "organization_identifier": st.from_regex(
        rf"PSD({'|'.join(sorted(COUNTRIES))})-[A-Z]{{2,8}}-[0-9][0-9A-Z ./-]{{0,19}}", fullmatch=True
    ),
    "name": st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=16),
    "roles": st.just(["Unspecified"]) | st.lists(st.sampled_from(_ROLES), min_size=1, unique=True),
    "nca_name": st.text(_LATIN, min_size=1, max_size=256),
    "dns_name": st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z]\.example\.com", fullmatch=True),
})  # fmt: skip


def extension(issued: Issued, kind: type) -> x509.Extension:
    return issued.certificate.x509.extensions.get_extension_for_class(kind)


def issue_both(pki: Pki, provider: Provider) -> tuple[tuple[Issued, Use], tuple[Issued, Use]]:
    return (pki.issue_qwac(provider, label="a"), Use.QWAC), (pki.issue_qseal(provider, label="b"), Use.QSEALC)


@pytest.fixture(params=["qwac", "qseal"])
def leaf(request, pki) -> Issued:
    return getattr(pki, request.param)


@given(PROVIDERS)
def test_every_supervised_provider_gets_certificates_that_state_it_and_fail_no_check(pki, arguments):
    provider = make_provider(**arguments)
    for issued, use in issue_both(pki, provider):
        read = issued.certificate
        assert read.organization_identifier == provider.organization_identifier
        assert read.roles == tuple(arguments["roles"])
        assert read.subject.values("2.5.4.10") == (arguments["name"],)
        assert (read.qc.psd2.nca_name, read.qc.psd2.nca_id) == (arguments["nca_name"], provider.nca_id)
        assert first_error(check_certificate(read, as_=use, at=pki.not_before)) is None


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"roles": ["Unspecified", "PSP_PI"]}, "qcstatements.role-unspecified.*GEN-5.2.2-1"),
        ({"nca_name": "Τράπεζα"}, "qcstatements.nca-name:.*GEN-5.2.3-1"),
        ({"nca_name": "DE-BAFIN"}, "qcstatements.nca-name-identifier.*GEN-5.2.3-1"),
        ({"dns_name": "localhost"}, "certificate.internal-name.*BR section 7.1.4.2"),
        ({"dns_name": "tpp.invalid"}, "certificate.internal-name.*BR section 7.1.4.2"),
    ],
)
def test_a_certificate_that_breaks_its_profile_is_not_made(pki, arguments, rule):
    with refused(ConfigurationError, "pki.profile", match=rule):
        pki.issue_qwac(make_provider(**arguments), label="a")


@pytest.mark.parametrize(("day", "limit"), [(2020, 398), (2025, 398), (2026, 200), (2027, 100), (2029, 47), (2040, 47)])
def test_a_qwac_for_browsers_stays_a_day_below_what_browsers_accept(day, limit):
    at = datetime(day, 10, 1, tzinfo=UTC)
    made = make_pki(at=at, policy="ev", seed=1)
    assert made.days == min(365, limit - 1)
    with refused(ConfigurationError, "pki.profile", match=r"certificate.validity-too-long.*BR section 6.3.2"):
        make_pki(at=at, policy="ev", days=limit + 1, seed=1)
    assert make_pki(at=at, policy="ev", days=limit, seed=1).days == limit


def test_a_qwac_for_browsers_of_another_pki_stays_a_day_below_what_browsers_accept(pki):
    at = datetime(2026, 4, 1, tzinfo=UTC)
    made = make_pki(at=at, seed=1)
    later = made.issuing_from(datetime(2029, 4, 1, tzinfo=UTC), policy="ev")
    assert (made.days, made.issuing_from(at, policy="ev").days, later.days) == (365, 199, 46)
    lasts = later.issue_qwac(made.provider, label="a").certificate
    assert (lasts.not_after - lasts.not_before).days + 1 == 46


def test_a_qwac_is_for_servers_and_clients_and_a_seal_for_content_commitment(pki):
    qwac, qseal = pki.qwac.certificate.extensions, pki.qseal.certificate.extensions
    assert (qwac.key_usage, qwac.extended_key_usage) == (("digitalSignature",), ("serverAuth", "clientAuth"))
    assert (qseal.key_usage, qseal.extended_key_usage) == (("nonRepudiation",), ())
    assert (qwac.dns_names, qseal.dns_names) == ((pki.provider.dns_name,), ())
    assert set(qwac.critical) == set(qseal.critical) == {oids.KEY_USAGE}


def test_the_statements_of_a_leaf_are_those_of_a_qualified_certificate(leaf, pki):
    qc = leaf.certificate.qc
    assert qc.statement_oids == (
        "0.4.0.1862.1.1", "0.4.0.1862.1.5", "0.4.0.1862.1.6", "1.3.6.1.5.5.7.11.2", "0.4.0.19495.2"
    )  # fmt: skip
    assert (qc.compliance, qc.sscd, qc.semantics) == (True, False, "0.4.0.194121.1.2")
    assert qc.types == (("web",) if leaf is pki.qwac else ("eseal",))
    assert [(location.url[:8], location.language) for location in qc.pds] == [("https://", "en")]
    assert oids.QC_STATEMENTS not in leaf.certificate.extensions.critical


def test_a_leaf_has_the_addresses_of_its_status(leaf):
    # EN 319 412-2 GEN-4.4.1, GEN-4.3.11: no address of this machine.
    access = extension(leaf, x509.AuthorityInformationAccess)
    assert {d.access_method for d in access.value} == {Access.OCSP, Access.CA_ISSUERS}
    points = extension(leaf, x509.CRLDistributionPoints)
    urls = [d.access_location.value for d in access.value] + [point.full_name[0].value for point in points.value]
    files = ("ocsp", f"issuing-ca-{leaf.kind}.der", f"issuing-ca-{leaf.kind}.crl")
    assert urls == [f"http://pki.test.example.com/{file}" for file in files]
    assert not access.critical
    assert not points.critical


def test_keys_are_identified_along_the_chain(pki):
    issuers = {issuer.certificate.subject: issuer for issuer in (*pki.issuers, *pki.issued)}
    for issued in pki.issued:
        issuer = issuers[issued.certificate.issuer]
        named = extension(issued, x509.AuthorityKeyIdentifier).value.key_identifier
        assert named == extension(issuer, x509.SubjectKeyIdentifier).value.digest


def test_every_certificate_says_that_it_is_for_tests(pki):
    assert all("TEST" in str(issued.certificate.subject) for issued in pki.issued)
    nameless = make_provider(name="Real Bank")
    for issued in (pki.issue_qwac(nameless, label="a"), pki.issue_qseal(nameless, label="b")):
        (policy,) = extension(issued, x509.CertificatePolicies).value
        assert "TEST" not in str(issued.certificate.subject)
        assert "TEST" in policy.policy_qualifiers[0].explicit_text


def test_a_certificate_for_browsers_has_no_user_notice_and_says_in_its_name_that_it_is_for_tests():
    # BR section 7.1.2.7.9
    made = make_pki(at=datetime(2026, 4, 1, tzinfo=UTC), policy="ev", provider=make_provider(name="Real Bank"), seed=1)
    for issued in (made.qwac, made.issue_qwac(made.provider, label="a")):
        stated = extension(issued, x509.CertificatePolicies).value
        assert [policy.policy_qualifiers for policy in stated] == [None, None]
        assert issued.certificate.subject.values("2.5.4.7") == ("TEST",)


def test_the_server_certificate_is_for_localhost(pki):
    names = extension(pki.server, x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert pki.server.certificate.extensions.extended_key_usage == ("serverAuth",)
    assert pki.server.certificate.qc.statement_oids == ()


def test_country_and_authority_come_from_the_identifier_and_an_unknown_authority_gets_a_name():
    provider = make_provider(organization_identifier="PSDDE-BAFIN-123456")
    bafin = ("DE", "DE-BAFIN", "Federal Financial Supervisory Authority")
    assert (provider.country, provider.nca_id, provider.nca_name) == bafin
    assert make_provider(organization_identifier="PSDSM-ABC-1").nca_name == "Competent authority SM-ABC"


@pytest.mark.parametrize("role", ["PSP_CB", "PSP_PA"])
def test_a_central_bank_or_public_authority_names_no_authority(pki, role):
    provider = make_provider(roles=[role])
    assert (provider.nca_id, provider.nca_name) == ("NA", "NA")
    for issued, use in issue_both(pki, provider):
        assert check_certificate(issued.certificate, as_=use, at=pki.not_before) == ()


@pytest.mark.parametrize(
    ("identifier", "country"), [("VATEL-099028220", "GR"), ("VATXI-123456789", "GB"), ("NTRDE-HRB78770", "DE")]
)
def test_the_country_of_a_provider_is_one_of_iso_3166(identifier, country):
    provider = make_provider(organization_identifier=identifier)
    assert (provider.country, provider.nca_id) == (country, f"{country}-TEST")


# EN 319 412-1 LEG-5.1.4-03: ISO 3166, EU, EZ, SU, UN; EL and XI with VAT only. An authority is of a country (GEN-5.2.3-2).
@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"organization_identifier": "PSDXX-BL-1"}, "country XX.*LEG-5.1.4-03"),
        ({"organization_identifier": "PSDEL-BOG-1"}, "country EL.*LEG-5.1.4-03"),
        ({"organization_identifier": "PSDUK-FCA-1"}, "country UK.*LEG-5.1.4-03"),
        ({"organization_identifier": "PSDXI-FCA-1"}, "country XI.*LEG-5.1.4-03"),
        ({"organization_identifier": "NTREL-1"}, "country EL.*LEG-5.1.4-03"),
        ({"organization_identifier": "VATZZ-1"}, "country ZZ.*LEG-5.1.4-03"),
        ({"organization_identifier": "LB:ZZ-1"}, "country ZZ.*LEG-5.1.4-03"),
        ({"organization_identifier": "PSDEU-EBA-1", "country": "FR"}, "authority EU-EBA.*GEN-5.2.3-2"),
        ({"country": "ZZ"}, "ISO 3166-1.*LEG-4.2.1-4"),
        ({"country": "UK"}, "ISO 3166-1.*LEG-4.2.1-4"),
        ({"country": "EU"}, "ISO 3166-1.*LEG-4.2.1-4"),
    ],
)
def test_an_unknown_country_is_rejected_with_its_rule(arguments, rule):
    with pytest.raises(ConfigurationError, match=rule):
        make_provider(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"organization_identifier": "PSDXK-BQK-1"}, {"organization_identifier": "VATEU-372000001", "country": "IE"},
        {"organization_identifier": "NTRUN-1", "country": "CH"}, {"organization_identifier": "LB:LT-000000"},
        {"organization_identifier": "PSDEU-ECB-1", "country": "DE", "roles": ["PSP_CB"]},
        {"organization_identifier": "VATXI-123456789"}, {"organization_identifier": "VATLT-123456789"},
        {"organization_identifier": "LEIXG-AEYE00EKXESVZUUEBP67", "country": "LT"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["gen", "ev"])
def test_an_accepted_provider_gets_certificates_without_errors(pki, arguments, policy):
    made, provider = pki.issuing_from(pki.not_before, policy=policy), make_provider(**arguments)
    for issued, use in issue_both(made, provider):
        assert first_error(check_certificate(issued.certificate, as_=use, at=pki.not_before)) is None


def test_the_registrar_of_a_national_scheme_is_stated(pki):
    issued = pki.issue_qseal(make_provider(organization_identifier="LB:LT-000000"), label="a")
    assert issued.certificate.qc.name_registration_authorities == ("https://pki.test.example.com/register",)
    assert pki.qseal.certificate.qc.name_registration_authorities == ()


def test_a_new_identifier_or_role_changes_country_and_authority():
    first = make_provider(organization_identifier="PSDDE-BAFIN-1", name="Zahlgut", country="AT", nca_name="Aufsicht")
    assert make_provider(like=first) == first
    assert make_provider(like=first, name="Anders") == replace(first, name="Anders")
    other = make_provider(like=first, organization_identifier="PSDLT-BL-2")
    assert (other.name, other.country, other.nca_id, other.nca_name) == ("Zahlgut", "LT", "LT-BL", "Bank of Lithuania")
    assert make_provider(like=first, roles=["PSP_AI"]).nca_name == first.nca_name
    bank = make_provider(like=first, roles=["PSP_CB"])
    assert (bank.country, bank.nca_id, bank.nca_name) == ("AT", "NA", "NA")
    with pytest.raises(ConfigurationError):
        make_provider(like=first, name="")


BAD = {
    "organization_identifier": ["LB000000", "", "LEIXG-1234", "PSDLT-BL-N/A"],
    "name": ["", "n" * 65, "é" * 65, "PSDLT-BL-LB000000", "a\nb", "\ud800"],
    "nca_name": ["n" * 257, "a\x00", ""],
    "country": ["", "lt", "LTU", "Lithuania"],
    "roles": [(), ("PSP_XX",), ("PSP_PI", "PSP_PI"), ("psp_pi",)],
    "dns_name": ["", "TPP.example", "-a.example", "a..example", "a.example\n", "*.example", "a" * 30 + "." + "b" * 40],
}
CODES = {
    "organization_identifier": "pki.organization-identifier", "name": "pki.name", "nca_name": "pki.name", "country": "pki.country",
    "roles": "pki.role", "dns_name": "pki.dns-name",
}  # fmt: skip


@pytest.mark.parametrize(("argument", "value"), [(argument, value) for argument in BAD for value in BAD[argument]])
def test_a_provider_that_no_certificate_could_name_is_rejected(argument, value):
    with refused(ConfigurationError, CODES[argument]):
        make_provider(**{argument: value})


def test_a_name_that_is_refused_for_its_underscore_is_rejected_by_it():
    with pytest.raises(ConfigurationError, match="without underscores"):
        make_provider(dns_name="my_tpp.example")


@pytest.mark.parametrize(
    "arguments", [{"name": "n" * 64}, {"name": "é" * 64}, {"nca_name": "é" * 256}, {"dns_name": "a" * 60 + ".lt"}]
)
def test_texts_of_the_greatest_length_fit_into_certificates(pki, arguments):
    for issued, _ in issue_both(pki, make_provider(**arguments)):
        assert issued.certificate.findings == ()
