"""What authorities, trusted lists and answers prove together, and for how long that is remembered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from list_builder import ROOT, SEALS, WEB, Listed, State, verified_lists

from refusals import refused
from tppkit.certificates import Use
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.testpki import make_pki
from tppkit.trust import RevocationEvidence, TrustMaterial, check_trust, load_trust, make_anchors, parse_revocation

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
SINCE, WITHDRAWN = datetime(2020, 1, 1, tzinfo=UTC), AT + timedelta(days=10)
LATER = WITHDRAWN + timedelta(days=1)


@pytest.fixture
def lists(operator, pki):
    """Lists that grant the authority of the QWAC until it is withdrawn."""
    states = [State("withdrawn", WITHDRAWN, (WEB,)), State("granted", SINCE, (WEB,))]
    return verified_lists(operator, Listed(pki.qwac_ca.certificate, states))


def code(material: TrustMaterial, certificate, use: Use = Use.QWAC, at: datetime = AT) -> str:
    with pytest.raises(CertificateRejected) as refused:
        material.verify_use(certificate, as_=use, at=at)
    return refused.value.code


def test_without_authorities_the_lists_give_them(lists, pki):
    path = TrustMaterial(lists=lists).verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT)
    assert path.chain == (pki.qwac.certificate, pki.qwac_ca.certificate)


def test_authorities_may_come_from_anchors_from_lists_or_from_neither(lists, pki):
    every = (TrustMaterial(make_anchors(pki.authorities)), TrustMaterial(lists=lists), TrustMaterial())
    assert [material.has_anchors for material in every] == [True, True, False]


def test_a_verdict_is_remembered_until_a_state_of_a_service_ends(lists, pki):
    material = TrustMaterial(make_anchors(pki.authorities), lists=lists)
    path = material.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT)
    assert path is material.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT + timedelta(days=1))
    assert path.lists == {one.sha256: one.xml for one in lists.lists}
    assert all(path.lists.values())
    assert path.window.not_after < WITHDRAWN <= path.window.not_after + timedelta(seconds=1)
    assert code(material, pki.qwac.certificate, at=LATER) == "trusted-list.not-granted"
    assert code(TrustMaterial(lists=lists), pki.qwac.certificate, at=LATER) == "trust.no-anchors"


@pytest.mark.parametrize("sent", [True, False])
def test_a_chain_through_another_authority_is_judged_each_time(sent, operator, pki):
    listed = Listed(pki.root.certificate, [State("granted", SINCE, (WEB, ROOT))])
    others = [make_pki(at=AT, seed=number).qseal_ca.certificate for number in range(16 * (not sent))]  # of other names
    authorities = [pki.root.certificate] if sent else [*others, *pki.authorities]
    material = TrustMaterial(make_anchors(authorities), lists=verified_lists(operator, listed))
    between = [pki.qwac_ca.certificate] if sent else []
    path = material.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT, intermediates=between)
    assert (path.window.not_before, path.window.not_after) == (AT, AT)
    report = check_trust(pki.qwac.certificate, as_=Use.QWAC, at=AT, material=material, intermediates=between)
    assert report.status is not None
    assert report.status.code is None


@pytest.mark.parametrize(
    ("name", "use", "expected"),
    [
        ("qseal", Use.QSEALC, "trusted-list.no-service"),
        ("qseal", Use.QWAC, "qcstatements.not-web"),
        ("server", Use.QWAC, "qcstatements.no-compliance"),
    ],
)
def test_a_certificate_that_chains_must_be_qualified_for_its_use(lists, pki, name, use, expected):
    material = TrustMaterial(make_anchors(pki.authorities), lists=lists)
    assert code(material, getattr(pki, name).certificate, use) == expected


def test_an_authority_that_is_granted_for_another_use_is_not_enough(operator, pki):
    lists = verified_lists(operator, Listed(pki.qwac_ca.certificate, [State("granted", SINCE, (SEALS,))]))
    material = TrustMaterial(make_anchors(pki.authorities), lists=lists)
    assert code(material, pki.qwac.certificate) == "trusted-list.purpose"


@pytest.mark.parametrize(
    ("anchored", "at", "expected"),
    [(False, AT, []), (True, AT, []), (True, LATER, ["trusted-list.not-granted"]),
     (False, LATER, ["trust.no-anchors", "trusted-list.not-granted"])],
)  # fmt: skip
def test_a_check_gives_every_finding(lists, pki, anchored, at, expected):
    material = TrustMaterial(make_anchors(pki.authorities) if anchored else None, lists=lists)
    report = check_trust(pki.qwac.certificate, as_=Use.QWAC, at=at, material=material)
    assert [finding.code for finding in report.findings] == expected
    assert (report.path is not None) == (anchored or not expected)
    assert report.status is not None


def test_a_check_without_material_finds_nothing(pki):
    report = check_trust(pki.qwac.certificate, as_=Use.QWAC, at=AT, material=TrustMaterial())
    assert (report.findings, report.path, report.status) == ((), None, None)
    assert code(TrustMaterial(), pki.qwac.certificate) == "trust.no-anchors"


def test_answers_without_authorities_are_refused():
    with refused(ConfigurationError, "trust.no-anchors"):
        load_trust(answers=RevocationEvidence(), now=AT)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "trust.no-anchors"), ({"trust": ""}, "file.path"), ({"trust": ".", "now": datetime(2026, 1, 1)}, "time.naive"),
        ({"trust": ".", "now": lambda: datetime(2026, 1, 1)}, "time.naive"),
    ],
)  # fmt: skip
def test_arguments_without_meaning_are_refused_at_the_call(given, code):
    with refused(ConfigurationError, code):
        load_trust(**given)


def test_further_answers_are_added_to_the_others_and_the_lists_stay(lists, pki):
    answers = [parse_revocation(pki.crl(issuer, at=at), name="crl") for at in (AT, LATER) for issuer in pki.issuers]
    bare = TrustMaterial(make_anchors(pki.authorities), lists=lists)
    assert code(bare.with_answers(RevocationEvidence(), now=LATER), pki.qwac.certificate) == "revocation.unknown"
    material = bare.with_answers(answers[0] + answers[1], now=LATER).with_answers(answers[2], now=LATER)
    path = material.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=AT)
    assert len(path.answers) == len(path.chain) - 1
    assert len(path.lists) == 1
    assert code(bare.with_answers(answers[3] + answers[4], now=LATER), pki.qwac.certificate, at=LATER) == (
        "trusted-list.not-granted"
    )
