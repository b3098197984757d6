"""Each difference between a QWAC and a QSealC gives its finding alone, and a good pair gives none."""

from __future__ import annotations

from datetime import timedelta

import pytest
from varying import AI, KEYS, NAME, PI, QSEALC, QWAC, START

from tppkit.certificates import check_pair, der, oids
from tppkit.certificates.pair import valid_together
from tppkit.certificates.qcstatements import RoleOfPsp
from tppkit.errors import Severity

ERROR, WARNING, NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE
YEAR = timedelta(days=365)


def named(**values: str) -> dict[str, object]:
    by_name = {"C": "2.5.4.6", "O": "2.5.4.10", "ID": oids.ORGANIZATION_IDENTIFIER}
    changed = {by_name[name]: value for name, value in values.items()}
    return {"name": tuple((oid, changed.get(oid, value)) for oid, value in (*NAME, ("2.5.4.3", "Provider TEST")))}


# What of the seal is other than in the good pair, and the one finding that it gives.
DIFFERENCES = [
    ("pair.other-organisation", ERROR, named(ID="PSDLT-BL-LB000001")),
    ("pair.organisation-text", ERROR, named(ID="PSDLT-BL-lb000000")),
    ("pair.organisation-scheme", ERROR, named(ID="VATLT-LB000000")),
    ("pair.no-organisation", ERROR, {"name": (*NAME, NAME[2])}),
    ("pair.no-organisation", ERROR, {"name": NAME[:2]}),
    ("pair.no-organisation", ERROR, named(ID="PSDLT-BL-none")),
    ("pair.no-psd2", ERROR, {"roles": None}),
    ("pair.other-authority", ERROR, {"nca": ("Bank of Lithuania", "LT-XX")}),
    ("pair.authority-name", NOTICE, {"nca": ("Lietuvos bankas", "LT-BL")}),
    ("pair.other-roles", ERROR, {"roles": (PI,)}),
    ("pair.other-roles", ERROR, {"roles": (PI, AI, RoleOfPsp("0.4.0.19495.1.4", "PSP_IC"))}),
    ("pair.other-roles", ERROR, {"roles": (PI, RoleOfPsp("2.999.1", "PSP_AI"))}),
    ("pair.organisation-name", WARNING, named(O="Provider Group TEST")),
    ("pair.country", WARNING, named(C="LV")),
    ("pair.kind", ERROR, {"qc_type": "esign"}),
    ("pair.never-together", ERROR, {"not_before": START + 2 * YEAR, "not_after": START + 3 * YEAR}),
    ("pair.validity", NOTICE, {"not_after": START + 2 * YEAR}),
    ("pair.same-key", WARNING, {"key": KEYS[11]}),
    ("pair.other-issuer", NOTICE, {"issuer": "Another CA"}),
]


def test_a_good_pair_gives_no_finding():
    assert check_pair(QWAC.make(), QSEALC.make()) == ()


@pytest.mark.parametrize(
    ("code", "severity", "change"), DIFFERENCES, ids=[f"{n} {row[0]}" for n, row in enumerate(DIFFERENCES)]
)
def test_one_difference_gives_its_finding_alone(code, severity, change):
    (finding,) = check_pair(QWAC.make(), QSEALC.make(**change))
    assert (finding.code, finding.severity) == (code, severity)


@pytest.mark.parametrize("identifier", ["N/A", "-", "none", "VATLT--", "x" * 257])
def test_one_placeholder_in_both_proves_no_organisation(identifier):
    findings = check_pair(QWAC.make(**named(ID=identifier)), QSEALC.make(**named(ID=identifier)))
    assert "pair.no-organisation" in [finding.code for finding in findings]


def test_the_order_of_roles_does_not_matter():
    assert check_pair(QWAC.make(roles=(AI, PI)), QSEALC.make(roles=(PI, AI))) == ()


def test_a_swapped_pair_is_reported():
    (finding,) = check_pair(QSEALC.make(), QWAC.make())
    assert (finding.code, finding.severity) == ("pair.swapped", ERROR)


def test_two_qwacs_are_not_a_pair():
    findings = check_pair(QWAC.make(), QWAC.make(serial=0x11, key=KEYS[13]))
    assert [(finding.code, finding.severity) for finding in findings] == [("pair.kind", ERROR)]


def test_one_certificate_twice_is_not_a_pair():
    qwac = QWAC.make()
    assert [finding.code for finding in check_pair(qwac, qwac)] == ["pair.same-certificate", "pair.kind"]


def test_the_message_about_roles_says_which_certificate_lacks_what():
    (finding,) = check_pair(QWAC.make(roles=(PI,)), QSEALC.make(roles=(AI,)))
    assert "PSP_PI only in the QWAC" in finding.message
    assert "PSP_AI only in the seal" in finding.message
    assert finding.values == {"qwac": "PSP_PI", "qseal": "PSP_AI"}


def test_a_thousand_roles_are_not_all_listed():
    roles = tuple(RoleOfPsp(f"2.999.{number}", "x") for number in range(1000))
    (finding,) = check_pair(QWAC.make(), QSEALC.make(roles=(PI, AI, *roles)))
    assert finding.code == "pair.other-roles"
    assert "2.999.19, 980 more only in the seal" in finding.message


def test_a_malformed_statement_is_reported_with_what_could_be_read():
    info = der.write_sequence(der.write_sequence(*(der.write_sequence(der.write_oid(r.oid), der.write_text(r.name)) for r in (PI, AI))),
        der.write_text("Bank of Lithuania"), der.write_text("LT-BL"),
    )  # fmt: skip
    compliance = der.write_sequence(der.write_oid(oids.QC_COMPLIANCE), b"\x05\x00")
    eseal = der.write_sequence(der.write_oid("0.4.0.1862.1.6.2"))
    kind = der.write_sequence(der.write_oid(oids.QC_TYPE), eseal)
    psd2 = der.write_sequence(der.write_oid(oids.QC_PSD2), info)
    (finding,) = check_pair(QWAC.make(), QSEALC.make(qc=der.write_sequence(compliance, kind, psd2)))
    assert (finding.code, finding.severity) == ("pair.malformed", WARNING)
    assert finding.values == {"qwac": "", "qseal": "qcstatements.unexpected-info"}


def test_certificates_that_touch_in_one_second_are_valid_together_then():
    qwac, qsealc = QWAC.make(), QSEALC.make(not_before=START + YEAR, not_after=START + 2 * YEAR)
    assert valid_together(qwac, qsealc) == (START + YEAR, START + YEAR)
    assert [finding.code for finding in check_pair(qwac, qsealc)] == ["pair.validity"]


@pytest.mark.shared
def test_whatever_two_certificates_are_compared_there_is_an_answer(real_certificates):
    for number, qwac in enumerate(real_certificates):
        for qsealc in real_certificates[number % 7 :: 7]:
            findings = check_pair(qwac, qsealc)
            told = {finding.code for finding in findings if finding.severity is ERROR}
            ours, theirs = qwac.organization_identifier, qsealc.organization_identifier
            if ours is None or theirs is None or ours.text != theirs.text or {*qwac.roles} != {*qsealc.roles}:
                assert told
            assert all(len(finding.message) < 1000 for finding in findings)
