"""Each thing that a renewal can change gives its finding, and what always changes gives notices."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st
from varying import AI, KEYS, NAME, PI, QSEALC, QWAC, RSA_KEY, START, statements, with_statements

from tppkit.certificates import Use, check_certificate, check_renewal, der, oids
from tppkit.certificates.qcstatements import RoleOfPsp
from tppkit.errors import Finding, Severity

ERROR, WARNING, NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE
YEAR, DAY = timedelta(days=365), timedelta(days=1)
# What a flawless renewal changes: serial number, key and dates.
USUAL = {"serial": 0x11, "key": KEYS[13], "not_before": START + YEAR - 30 * DAY, "not_after": START + 2 * YEAR}
NOTICES = {"renewal.thumbprint", "renewal.issuer-and-serial", "renewal.public-key", "renewal.overlap"}
IDENTIFIER = "organization-identifier"
CN = ("2.5.4.3", "tpp.test.example")
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def with_identifier(text: str) -> dict[str, object]:
    return {"name": (*NAME[:2], (oids.ORGANIZATION_IDENTIFIER, text), CN)}


# What of the new certificate is other than in a flawless renewal; the findings beside the usual notices; the strategy that trips.
CHANGES = [
    ({"qc_type": "eseal"}, {"renewal.kind": ERROR}, "kind"),
    ({"compliance": False}, {"renewal.not-qualified": ERROR}, "kind"),
    (with_identifier("PSDLT-BL-LB000001"), {"renewal.other-organisation": ERROR, "renewal.subject": WARNING}, IDENTIFIER),
    (with_identifier("PSDLT-BL-PI:LB000000"), {"renewal.organisation-text": WARNING, "renewal.subject": WARNING}, IDENTIFIER),
    (with_identifier("NTRLT-LB000000"), {"renewal.organisation-scheme": WARNING, "renewal.subject": WARNING}, IDENTIFIER),
    ({"name": (*NAME[:2], CN)}, {"renewal.no-organisation": ERROR, "renewal.subject": WARNING}, IDENTIFIER),
    ({"roles": (PI,)}, {"renewal.roles-removed": WARNING}, "roles"),
    (with_identifier("PSDLT-BL-none"), {"renewal.no-organisation": ERROR, "renewal.subject": WARNING}, IDENTIFIER),
    ({"roles": None}, {"renewal.no-psd2": ERROR}, "roles"),
    ({"roles": ()}, {"renewal.no-psd2": ERROR}, "roles"),
    ({"roles": (PI, AI, RoleOfPsp("0.4.0.19495.1.4", "PSP_IC"))}, {"renewal.roles-added": NOTICE}, "roles"),
    ({"roles": (PI, RoleOfPsp("2.999.3", "PSP_AI"))}, {"renewal.roles-removed": WARNING, "renewal.roles-added": NOTICE}, "roles"),
    ({"nca": ("Bank of Lithuania", "LT-LB")}, {"renewal.authority": WARNING}, "authority"),
    ({"nca": ("Lietuvos bankas", "LT-BL")}, {"renewal.authority-name": NOTICE}, "authority"),
    ({"name": (*NAME, ("2.5.4.3", "new.test.example"))}, {"renewal.subject": WARNING}, "subject"),
    ({"name": (*NAME[::-1], CN)}, {"renewal.subject": WARNING}, "subject"),
    ({"issuer": "Test CA 2"}, {"renewal.issuer": WARNING}, "issuer"),
    ({"authority_key": b"new"}, {"renewal.issuer-key": WARNING}, "issuer"),
    ({"key": RSA_KEY}, {"renewal.key-algorithm": WARNING}, "key-algorithm"),
    ({"extended": (SERVER,)}, {"renewal.client-auth": WARNING}, "extended-key-usage"),
    ({"extended": (CLIENT,)}, {"renewal.extended-key-usage": WARNING}, "extended-key-usage"),
    ({"extended": (SERVER, CLIENT, ExtendedKeyUsageOID.EMAIL_PROTECTION)}, {"renewal.extended-key-usage": NOTICE}, "extended-key-usage"),
    ({"extended": (ExtendedKeyUsageOID.EMAIL_PROTECTION,)},
     {"renewal.client-auth": WARNING, "renewal.extended-key-usage": WARNING}, "extended-key-usage"),
    ({"usage": ("digital_signature", "key_encipherment")}, {"renewal.key-usage": WARNING}, "key-usage"),
    ({"names": ("new.test.example",)}, {"renewal.names": WARNING}, "names"),
    ({"names": ("tpp.test.example", "new.test.example")}, {"renewal.names": NOTICE}, "names"),
    ({"policies": (oids.POLICY_QCP_L,)}, {"renewal.policies": WARNING}, "policies"),
    ({"policies": (oids.POLICY_QNCP_W_GEN, "0.4.0.19495.3.1")}, {"renewal.policies": NOTICE}, "policies"),
    ({"ocsp": "http://ocsp2.test.example"}, {"renewal.revocation-addresses": NOTICE}, "revocation-addresses"),
    ({"not_after": START + YEAR}, {"renewal.not-longer": WARNING}, "validity"),
]  # fmt: skip


def by_code(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    assert len({finding.code for finding in findings}) == len(findings)
    return {finding.code: finding for finding in findings}


def test_a_flawless_renewal_gives_only_the_notices_that_every_renewal_gives():
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL)))
    assert findings.keys() == NOTICES
    assert {finding.severity for finding in findings.values()} == {NOTICE}


@pytest.mark.parametrize(
    ("change", "expected", "strategy"), CHANGES, ids=[f"{n} {'+'.join(row[1])}" for n, row in enumerate(CHANGES)]
)
def test_one_change_gives_its_findings_beside_the_usual(change, expected, strategy):
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL | change)))
    assert {code: findings[code].severity for code in findings.keys() - NOTICES} == expected
    assert findings.keys() >= NOTICES
    assert findings[next(iter(expected))].values["strategy"] == strategy


def test_every_finding_names_its_strategy_and_both_values():
    change = {**USUAL, "issuer": "Test CA 2", "roles": (PI,), "names": ("new.test.example",), "key": RSA_KEY}
    for finding in check_renewal(QWAC.make(), QWAC.make(**change)):
        assert finding.values.keys() == {"strategy", "old", "new"}
        assert finding.values["old"] != finding.values["new"] or finding.code == "renewal.public-key"


def test_a_gap_is_reported_with_its_length():
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL | {"not_before": START + YEAR + 3 * DAY})))
    assert "renewal.overlap" not in findings
    assert (findings["renewal.gap"].severity, "3 days" in findings["renewal.gap"].message) == (WARNING, True)


def test_a_statement_that_comes_with_the_renewal_only_adds_roles():
    findings = by_code(check_renewal(QWAC.make(roles=None), QWAC.make(**USUAL)))
    assert findings.keys() - NOTICES == {"renewal.roles-added"}


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(-1, "renewal.overlap"), (0, "renewal.overlap"), (1, "renewal.overlap"), (2, "renewal.gap")],
)
def test_validities_that_touch_leave_no_gap(seconds, code):
    new = QWAC.make(**USUAL | {"not_before": START + YEAR + timedelta(seconds=seconds)})
    assert by_code(check_renewal(QWAC.make(), new)).keys() & {"renewal.gap", "renewal.overlap"} == {code}


@pytest.mark.parametrize(("is_lost", "severity"), [(True, WARNING), (False, NOTICE)])
def test_a_device_that_is_no_longer_stated_weighs_more_than_one_that_is_new(is_lost, severity):
    stated = {"qc": with_statements(statements(QWAC), der.write_sequence(der.write_oid(oids.QC_SSCD)))}
    old, new = (stated, {}) if is_lost else ({}, stated)
    findings = by_code(check_renewal(QWAC.make(**old), QWAC.make(**USUAL | new)))
    assert findings.keys() - NOTICES == {"renewal.device"}
    assert findings["renewal.device"].severity is severity


@pytest.mark.parametrize(("is_new", "severity"), [(True, WARNING), (False, NOTICE)])
def test_a_malformed_encoding_weighs_more_where_it_is_new(is_new, severity):
    malformed = {"qc": with_statements(statements(QWAC), b"\x05\x00")}
    old, new = ({}, malformed) if is_new else (malformed, {})
    findings = by_code(check_renewal(QWAC.make(**old), QWAC.make(**USUAL | new)))
    assert findings.keys() - NOTICES == {"renewal.malformed"}
    assert findings["renewal.malformed"].severity is severity


def test_a_qualification_that_is_new_is_reported():
    findings = by_code(check_renewal(QWAC.make(compliance=False), QWAC.make(**USUAL)))
    assert findings.keys() - NOTICES == {"renewal.qualified"}
    assert findings["renewal.qualified"].severity is NOTICE


SIGNS = {"usage": ("content_commitment", "digital_signature")}
NO_TYPE = {"usage": ("content_commitment", "crl_sign")}
# The kind of both, what is other in the old one and in the new one, the code, and what its message says.
MESSAGES = [
    (QWAC, USUAL, {}, "renewal.not-longer", ["interchanged"]),
    (QWAC, {}, {"not_before": START - YEAR, "not_after": START + 3 * DAY}, "renewal.overlap", ["for 3 days"]),
    (QSEALC, {}, NO_TYPE, "renewal.key-usage", ["nonRepudiation, cRLSign (no type of EN 319 412-2)"]),
    (QSEALC, {}, SIGNS, "renewal.key-usage", ["type A", "type B"]),
    (QSEALC, {}, {}, "renewal.issuer-and-serial", ["keyId"]),
    (QWAC, {}, {"name": (*NAME[::-1], CN)}, "renewal.subject", ["order"]),
    (QWAC, {}, {"name": (*NAME, ("2.5.4.3", "TPP.test.example"))}, "renewal.subject", ["case"]),
    (QWAC, {}, {"name": (*NAME, ("2.5.4.3", "x"))}, "renewal.subject", ["changed: CN"]),
]


@pytest.mark.parametrize(("kind", "old", "new", "code", "texts"), MESSAGES)
def test_a_message_says_how_the_two_differ(kind, old, new, code, texts):
    renewed = kind.make() if old else kind.make(**USUAL | new)
    message = by_code(check_renewal(kind.make(**old), renewed))[code].message
    assert [text for text in texts if text not in message] == []


def test_only_a_seal_has_a_key_id_to_change():
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL)))
    assert "keyId" not in findings["renewal.issuer-and-serial"].message


def test_the_thumbprints_are_in_the_message():
    old, new = QWAC.make(), QWAC.make(**USUAL)
    message = by_code(check_renewal(old, new))["renewal.thumbprint"].message
    assert f"from {old.sha256} to {new.sha256}" in message


def test_a_key_that_is_kept_is_reported():
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL | {"key": KEYS[11]})))
    assert findings.keys() == NOTICES - {"renewal.public-key"} | {"renewal.public-key-kept"}


def test_only_a_qwac_needs_client_auth():
    seal = {"usage": ("digital_signature",), "extended": (CLIENT, ExtendedKeyUsageOID.EMAIL_PROTECTION)}
    new = seal | {"extended": (ExtendedKeyUsageOID.EMAIL_PROTECTION,)}
    findings = by_code(check_renewal(QSEALC.make(**seal), QSEALC.make(**USUAL | new)))
    assert findings.keys() - NOTICES == {"renewal.extended-key-usage"}


def test_the_end_of_client_auth_is_reported_with_the_same_dates_as_in_the_rules():
    message = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL | {"extended": (SERVER,)})))[
        "renewal.client-auth"
    ].message
    public = QWAC.make(policies=(oids.POLICY_QNCP_W_GEN, "2.23.140.1.2.2"))
    (told,) = (
        f.message for f in check_certificate(public, as_=Use.QWAC, at=START) if f.code == "certificate.client-auth-ends"
    )
    assert all(day in text for day in ("2026-06-15", "2027-03-15") for text in (message, told))


@given(st.lists(st.sampled_from(CHANGES), max_size=4))
def test_whatever_changes_together_each_change_is_reported(chosen):
    change = {name: value for fields, _, _ in chosen for name, value in fields.items()}
    findings = by_code(check_renewal(QWAC.make(), QWAC.make(**USUAL | change)))
    states_authority = change.get("roles") is not None or "roles" not in change
    for fields, expected, strategy in chosen:
        kept = all(change[name] == value for name, value in fields.items())
        if kept and (states_authority or strategy != "authority"):
            another_issuer = {"renewal.issuer-key"} if "issuer" in change else set()  # its key is another as well
            assert expected.keys() - another_issuer <= findings.keys()


@pytest.mark.shared
def test_a_certificate_is_its_own_renewal_without_a_warning(real_certificates):
    for certificate in real_certificates:
        assert [finding.code for finding in check_renewal(certificate, certificate)] == ["renewal.same-certificate"]


@pytest.mark.slow
@pytest.mark.shared
def test_every_fact_that_differs_between_two_real_certificates_is_reported(real_certificates):
    for number, old in enumerate(real_certificates):
        for new in real_certificates[number % 7 :: 7]:
            findings = check_renewal(old, new)
            strategies = {finding.values["strategy"] for finding in findings}
            both = old.qc.psd2 and new.qc.psd2
            differ = {name for name, fact in FACTS.items() if fact(old) != fact(new) and (both or name != "authority")}
            assert differ <= strategies
            assert all(len(finding.message) < 1000 for finding in findings)


FACTS = {
    "kind": lambda c: (sorted(c.qc.types), c.qc.compliance, c.qc.sscd),
    "organization-identifier": lambda c: c.organization_identifier,
    "roles": lambda c: {*c.roles},
    "authority": lambda c: c.qc.psd2 and (c.qc.psd2.nca_id, c.qc.psd2.nca_name),
    "thumbprint": lambda c: c.sha256,
    "subject": lambda c: str(c.subject),
    "issuer": lambda c: str(c.issuer),
    "issuer-and-serial": lambda c: (str(c.issuer), c.serial),
    "key-algorithm": lambda c: (c.key.type, c.key.bits, c.key.curve),
    "extended-key-usage": lambda c: {*c.extensions.extended_key_usage},
    "key-usage": lambda c: {*c.extensions.key_usage},
    "names": lambda c: {*c.extensions.dns_names, *c.extensions.ip_addresses},
    "policies": lambda c: {*c.extensions.policies},
    "revocation-addresses": lambda c: {*c.extensions.ocsp_urls, *c.extensions.crl_urls, *c.extensions.ca_issuers_urls},
    "validity": lambda c: (c.not_before, c.not_after),
}
