"""Qualified for what, by which service, at a time: lists made for the case, signed by signxml, asked as an auditor asks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from list_builder import (
    AT,
    NEXT_UPDATE,
    QWAC,
    ROOT,
    SEALS,
    START,
    WEB,
    Listed,
    ListFacts,
    State,
    criteria,
    list_of_lists,
    pointer,
    policies,
    qualifications,
    sign,
    verified,
    write_list,
)

from refusals import refused
from tppkit.certificates import oids
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.testpki import make_provider
from tppkit.testpki.profiles import qseal_extensions
from tppkit.trust import PathVerifier, TrustedLists

LONG_AGO, BEFORE_EIDAS = datetime(2010, 1, 1, tzinfo=UTC), datetime(2015, 3, 1, tzinfo=UTC)
OLD_STEM = "http://uri.etsi.org/TrstSvc/eSigDir-1999-93-EC-TrustedList/Svcstatus/"
GRANTED = State("granted", datetime(2020, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def web_ca(certify):
    return certify("Web CA", starts=LONG_AGO)


@pytest.fixture(scope="module")
def qwac(certify, web_ca):
    return certify("qwac", web_ca, **QWAC).certificate


@pytest.fixture(scope="module")
def qseal(certify, web_ca):
    return certify(
        "qseal", web_ca, ca=False, starts=START, extensions=tuple(qseal_extensions(make_provider()))
    ).certificate


@pytest.fixture(scope="module")
def make_lists(operator):
    def make(*services: Listed, facts: ListFacts | None = None, **top) -> TrustedLists:
        facts = replace(facts or ListFacts(), providers={"Provider": services})
        one = verified(sign(write_list(facts), operator), operator)
        if not top:
            return TrustedLists([one])
        lotl = sign(
            list_of_lists([pointer("PT", [operator.certificate]), pointer("LT", [operator.certificate])], **top),
            operator,
        )
        return TrustedLists([one], list_of_lists=verified(lotl, operator, "LOTL.xml"))

    return make


@pytest.fixture
def ask(make_lists, web_ca):
    """The status of a certificate when its issuer is listed with these states, the present one first."""

    def ask(certificate, *states: State, at: datetime = AT, issuer=web_ca):
        return make_lists(Listed(issuer.certificate, states)).status(certificate, at=at)

    return ask


def test_a_qwac_of_a_granted_service_is_qualified_for_the_web(ask, qwac):
    found = ask(qwac, GRANTED)
    assert (found.code, found.qualified_for, found.with_device) == (None, ("web",), False)
    assert found.at_issuance.qualified_for == ("web",)
    assert found.listing.instance.name == "Web CA"
    assert found.listing.issuer.provider.name == "Provider"
    assert found.listing.issuer.trusted_list.territory == "PT"
    assert found.listing.matched_by == "certificate"


def test_a_seal_is_qualified_for_seals(ask, qseal):
    assert ask(qseal, replace(GRANTED, information=(SEALS,))).qualified_for == ("eseal",)


def test_a_service_for_other_certificates_does_not_qualify_it(ask, qwac, qseal):
    assert ask(qwac, replace(GRANTED, information=(SEALS,))).code == "trusted-list.purpose"
    assert ask(qseal, GRANTED).code == "trusted-list.purpose"
    assert ask(qwac, replace(GRANTED, information=())).code == "trusted-list.purpose"


def test_granted_then_withdrawn_history_by_key_identifier_only(ask, qwac):
    """At issuance the granting state stands in the history, which names its key by subject and key identifier only."""
    withdrawn = State("withdrawn", datetime(2026, 4, 1, tzinfo=UTC))
    before = ask(qwac, withdrawn, GRANTED, at=datetime(2026, 3, 1, tzinfo=UTC))
    assert (before.code, before.qualified_for, before.listing.matched_by) == (None, ("web",), "key-id")
    after = ask(qwac, withdrawn, GRANTED)
    assert (after.code, after.qualified_for) == ("trusted-list.not-granted", ())
    assert after.at_issuance.qualified_for == ("web",)
    assert after.listing.instance.status_name == "withdrawn"


def test_a_status_begins_at_its_very_second(ask, qwac):
    moment = datetime(2026, 4, 1, tzinfo=UTC)
    states = State("withdrawn", moment), GRANTED
    assert ask(qwac, *states, at=moment - timedelta(seconds=1)).code is None
    assert ask(qwac, *states, at=moment).code == "trusted-list.not-granted"


def test_a_certificate_issued_while_withdrawn_is_not_qualified_when_the_service_is_granted_again(ask, qwac):
    states = (
        State("granted", datetime(2026, 3, 1, tzinfo=UTC)),
        State("withdrawn", datetime(2026, 1, 1, tzinfo=UTC)),
        GRANTED,
    )
    found = ask(qwac, *states)
    assert (found.code, found.at_issuance.qualified_for, found.at_time.qualified_for) == (
        "trusted-list.not-granted",
        (),
        ("web",),
    )


def test_a_certificate_issued_before_the_service_was_listed_is_not_qualified(ask, qwac):
    assert ask(qwac, State("granted", datetime(2026, 3, 1, tzinfo=UTC))).code == "trusted-list.not-yet-listed"


@pytest.mark.parametrize(
    "status", ["withdrawn", "supervisionceased", "supervisionrevoked", "accreditationceased", "accreditationrevoked",
               "undersupervision", "accredited", "supervisionincessation", "recognisedatnationallevel", "deprecatedbynationallaw",
               "setbynationallaw", "https://status.test.example/granted", "grantedish"],
)  # fmt: skip
def test_only_granted_counts_since_eidas(ask, qwac, status):
    assert ask(qwac, State(status, GRANTED.since)).code == "trusted-list.not-granted"


def test_nothing_was_qualified_before_eidas(ask, certify, web_ca):
    early = certify("early", web_ca, **QWAC | {"starts": BEFORE_EIDAS}).certificate
    for status in ("granted", "undersupervision", f"{OLD_STEM}accredited"):
        for at in (BEFORE_EIDAS, AT):
            assert ask(early, State(status, LONG_AGO), at=at).code == "trusted-list.not-granted"


def test_a_certificate_that_claims_nothing_is_not_qualified(ask, certify, web_ca):
    plain = certify("plain", web_ca, ca=False, starts=START).certificate
    assert ask(plain, GRANTED).code == "trusted-list.not-claimed"


def qualified_state(*names: str, of: str = oids.POLICY_QNCP_W_GEN, information=(WEB,), critical="true") -> State:
    return replace(
        GRANTED, information=information, extensions=qualifications(names, criteria(policies(of)), critical=critical)
    )


def test_the_list_may_say_what_the_certificate_does_not(ask, certify, web_ca):
    policy = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.2.3"), None)])
    plain = certify("plain", web_ca, ca=False, starts=START, extensions=((policy, False),)).certificate
    assert ask(plain, qualified_state("QCStatement", "QCForWSA", of="1.2.3")).qualified_for == ("web",)
    assert ask(plain, qualified_state("QCStatement", "QCForWSA", of="1.2.4")).code == "trusted-list.not-claimed"


@pytest.mark.parametrize("critical", ["true", "false"])
def test_the_list_may_deny(ask, qwac, critical):
    assert ask(qwac, qualified_state("NotQualified", critical=critical)).code == "trusted-list.not-qualified"
    assert ask(qwac, qualified_state("QCStatement", "NotQualified")).code == "trusted-list.not-qualified"
    assert ask(qwac, qualified_state("NotQualified", of="1.2.3")).code is None


def test_the_list_overrules_the_purpose(ask, qwac):
    assert ask(qwac, qualified_state("QCForESeal", information=(WEB, SEALS))).qualified_for == ("eseal",)
    assert ask(qwac, qualified_state("QCForESeal")).code == "trusted-list.purpose"


def test_several_purposes_of_the_list_are_decided_by_the_certificate(ask, qwac):
    assert ask(qwac, qualified_state("QCForESeal", "QCForWSA", information=(WEB, SEALS))).qualified_for == ("web",)
    assert (
        ask(qwac, qualified_state("QCForESeal", "QCForESig", information=(WEB, SEALS))).code == "trusted-list.conflict"
    )


@pytest.mark.parametrize(
    ("names", "with_device"),
    [
        (("QCWithQSCD",), True),
        (("QCWithSSCD",), True),
        (("QCQSCDManagedOnBehalf",), True),
        (("QCNoQSCD",), False),
        (("QCQSCDStatusAsInCert",), False),
        (("QCWithQSCD", "QCNoQSCD"), False),
        ((), False),
    ],
)
def test_the_list_says_whether_there_is_a_device(ask, qseal, names, with_device):
    found = ask(qseal, qualified_state(*names, of=oids.POLICY_QCP_L, information=(SEALS,)))
    assert (found.qualified_for, found.with_device) == (("eseal",), with_device)


def test_a_critical_extension_that_is_not_known_gives_nothing(ask, qwac):
    unknown = '<Extension Critical="{}"><add:Unheard/></Extension>'
    assert ask(qwac, replace(GRANTED, extensions=unknown.format("true"))).code == "trusted-list.unknown-extension"
    assert (
        ask(qwac, replace(GRANTED, extensions='<Extension Critical="true"/>')).code == "trusted-list.unknown-extension"
    )
    assert ask(qwac, replace(GRANTED, extensions=unknown.format("false"))).code is None


def test_criteria_that_are_not_understood_give_nothing(ask, qwac):
    state = replace(GRANTED, extensions=qualifications(["QCStatement"], criteria("<q:Unheard/>")))
    assert ask(qwac, state).code == "trusted-list.unknown-criteria"


def test_a_service_taken_over_is_reported(ask, qwac):
    taken = (
        '<Extension Critical="false"><add:TakenOverBy><add:TSPName><Name xml:lang="en">Heir</Name></add:TSPName>'
        "</add:TakenOverBy></Extension>"
    )
    found = ask(qwac, replace(GRANTED, extensions=taken))
    assert (found.code, [f.code for f in found.findings]) == (None, ["trusted-list.taken-over"])
    assert "Heir" in found.findings[0].message


def test_another_type_of_service_qualifies_nothing(ask, qwac):
    other = State("granted", GRANTED.since, type="http://uri.etsi.org/TrstSvc/Svctype/CA/PKC")
    assert ask(qwac, other).code == "trusted-list.no-service"
    assert ask(qwac, replace(other, since=datetime(2026, 2, 1, tzinfo=UTC)), GRANTED).code == "trusted-list.other-type"


def test_a_service_with_the_same_name_and_another_key_is_not_its_issuer(ask, certify, qwac):
    impostor = certify("Web CA", starts=LONG_AGO)
    found = ask(qwac, GRANTED, issuer=impostor)
    assert found.code == "trusted-list.no-service"
    assert "none with a certificate whose key made the signature" in found.findings[0].message


def test_of_two_keys_of_one_authority_the_one_that_signed_decides(make_lists, certify, web_ca, qwac):
    """After a rollover both keys are listed under one name: the withdrawn one must not speak for the other."""
    rolled = certify("Web CA", starts=LONG_AGO)
    withdrawn = State("withdrawn", GRANTED.since)
    assert make_lists(Listed(rolled.certificate, [withdrawn]), Listed(web_ca.certificate, [GRANTED])).status(
        qwac, at=AT
    ).qualified_for == ("web",)
    assert make_lists(
        Listed(rolled.certificate, [GRANTED]), Listed(web_ca.certificate, [withdrawn])
    ).status(qwac, at=AT).code == "trusted-list.not-granted"  # fmt: skip


def test_a_state_under_another_key_does_not_apply_to_this_one(ask, certify, qwac):
    rolled = certify("Web CA", starts=LONG_AGO).certificate
    found = ask(qwac, State("granted", datetime(2026, 3, 1, tzinfo=UTC)), replace(GRANTED, key=rolled))
    assert found.code == "trusted-list.other-key"


def test_several_services_of_one_key_are_joined(make_lists, web_ca, qwac, qseal):
    lists = make_lists(
        Listed(web_ca.certificate, [replace(GRANTED, information=(SEALS,))], name="Seals"),
        Listed(web_ca.certificate, [GRANTED], name="Web"),
        Listed(web_ca.certificate, [State("withdrawn", GRANTED.since)], name="Gone"),
    )
    assert lists.status(qwac, at=AT).listing.instance.name == "Web"
    assert lists.status(qseal, at=AT).listing.instance.name == "Seals"


def test_a_device_must_be_stated_by_all_that_grant(make_lists, web_ca, qseal):
    yes, no = (qualified_state(name, of=oids.POLICY_QCP_L, information=(SEALS,)) for name in ("QCWithQSCD", "QCNoQSCD"))
    lists = make_lists(Listed(web_ca.certificate, [yes], name="Yes"), Listed(web_ca.certificate, [no], name="No"))
    assert lists.status(qseal, at=AT).with_device is False


def test_a_denial_of_one_service_outweighs_the_other(make_lists, web_ca, qwac):
    lists = make_lists(
        Listed(web_ca.certificate, [GRANTED], name="Web"),
        Listed(web_ca.certificate, [qualified_state("NotQualified")], name="Denies"),
    )
    assert lists.status(qwac, at=AT).code == "trusted-list.not-qualified"


def test_a_service_without_a_certificate_is_ignored(make_lists, web_ca, qwac):
    lists = make_lists(Listed(web_ca.certificate, [GRANTED], bare=True))
    assert lists.status(qwac, at=AT, intermediates=[web_ca.certificate]).code == "trusted-list.no-service"


def test_an_intermediate_that_was_not_valid_at_issuance_leads_nowhere(make_lists, certify, web_ca):
    lapsed = certify("Lapsed CA", web_ca, starts=LONG_AGO, ends=START - timedelta(days=1))
    issued = certify("issued", lapsed, **QWAC).certificate
    lists = make_lists(Listed(web_ca.certificate, [replace(GRANTED, information=(WEB, ROOT))]))
    assert lists.status(issued, at=AT, intermediates=[lapsed.certificate]).code == "trusted-list.no-service"


def test_the_list_may_say_that_a_certificate_with_a_type_is_qualified(ask, certify, web_ca):
    """QcType without QcCompliance: the list adds what is missing, the type stays the certificate's."""
    statements = x509.UnrecognizedExtension(
        x509.ObjectIdentifier(oids.QC_STATEMENTS),
        write_qc_statements(qc_type="web", psd2=None, pds=(), compliance=False, semantics=None),
    )
    policy = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.2.3"), None)])
    plain = certify(
        "typed", web_ca, ca=False, starts=START, extensions=((statements, False), (policy, False))
    ).certificate
    assert ask(plain, GRANTED).code == "trusted-list.not-claimed"
    assert ask(plain, qualified_state("QCStatement", of="1.2.3")).qualified_for == ("web",)


@pytest.fixture(scope="module")
def below(certify, web_ca):
    return certify("Sub CA", web_ca, starts=LONG_AGO)


@pytest.fixture(scope="module")
def deep(certify, below):
    return certify("deep", below, **QWAC).certificate


def test_an_intermediate_leads_to_a_root_that_is_listed_as_one(make_lists, web_ca, below, deep):
    lists = make_lists(Listed(web_ca.certificate, [replace(GRANTED, information=(WEB, ROOT))]))
    assert lists.status(deep, at=AT).code == "trusted-list.no-service"
    found = lists.status(deep, at=AT, intermediates=[below.certificate])
    assert (found.code, found.qualified_for, found.listing.issuer.direct) == (None, ("web",), False)


def test_an_intermediate_under_a_service_that_is_not_a_root_is_not_qualified(make_lists, web_ca, below, deep):
    found = make_lists(Listed(web_ca.certificate, [GRANTED])).status(deep, at=AT, intermediates=[below.certificate])
    assert found.code == "trusted-list.not-issuer"


def test_the_nearest_listed_authority_decides(make_lists, web_ca, below, deep):
    lists = make_lists(
        Listed(web_ca.certificate, [replace(GRANTED, information=(WEB, ROOT))]),
        Listed(below.certificate, [State("withdrawn", GRANTED.since)]),
    )
    assert lists.status(deep, at=AT, intermediates=[below.certificate]).code == "trusted-list.not-granted"


def test_an_end_entity_is_not_an_intermediate(make_lists, certify, web_ca, qwac):
    key = certify("leaf", web_ca, ca=False, starts=START)
    forged = certify("forged", key, **QWAC).certificate
    lists = make_lists(Listed(web_ca.certificate, [replace(GRANTED, information=(WEB, ROOT))]))
    assert lists.status(forged, at=AT, intermediates=[key.certificate]).code == "trusted-list.no-service"


def test_an_expired_list_answers_for_the_past_only(ask, qwac):
    found = ask(qwac, GRANTED, at=NEXT_UPDATE + timedelta(seconds=1))
    assert (found.code, found.qualified_for, found.at_issuance.qualified_for) == ("trusted-list.expired", (), ("web",))
    assert ask(qwac, GRANTED, at=NEXT_UPDATE).code is None


def test_an_expired_list_of_lists_answers_for_the_past_only(make_lists, web_ca, qwac):
    lists = make_lists(Listed(web_ca.certificate, [GRANTED]), next_update=AT)
    assert lists.status(qwac, at=AT).code is None
    assert lists.status(qwac, at=AT + timedelta(seconds=1)).code == "trusted-list.expired"


def test_a_closed_list_answers_for_the_time_before(make_lists, web_ca, qwac):
    closed = ListFacts(issued=datetime(2026, 5, 1, tzinfo=UTC), next_update=None)
    lists = make_lists(Listed(web_ca.certificate, [GRANTED]), facts=closed)
    assert lists.status(qwac, at=closed.issued).code is None
    assert lists.status(qwac, at=AT).code == "trusted-list.closed"


def test_outside_its_own_validity_a_certificate_is_not_qualified(ask, certify, web_ca):
    short = certify("short", web_ca, ends=AT - timedelta(days=1), **QWAC).certificate
    assert ask(short, GRANTED).code == "certificate.expired"
    assert ask(short, GRANTED, at=START - timedelta(days=1)).code == "certificate.not-yet-valid"


def test_a_certificate_whose_countrys_list_is_absent_gets_that_reason(make_lists, pki, web_ca):
    """The test PKI is established in LT, which the list of the lists names."""
    lists = make_lists(Listed(web_ca.certificate, [GRANTED]), next_update=NEXT_UPDATE)
    found = lists.status(pki.qwac.certificate, at=AT)
    assert [f.code for f in found.findings] == ["trusted-list.missing", "trusted-list.no-service"]
    assert found.code == "trusted-list.missing"


def test_verifying_raises_what_the_status_says(make_lists, web_ca, qwac):
    lists = make_lists(Listed(web_ca.certificate, [GRANTED]))
    assert lists.verify_qualified(qwac, purpose="web", at=AT).qualified_for == ("web",)
    with refused(CertificateRejected, "trusted-list.purpose"):
        lists.verify_qualified(qwac, purpose="eseal", at=AT)
    with refused(CertificateRejected, "trusted-list.expired"):
        lists.verify_qualified(qwac, purpose="web", at=NEXT_UPDATE + timedelta(days=1))


def test_a_time_without_a_zone_is_refused(make_lists, web_ca, qwac):
    with refused(ConfigurationError, "time.naive"):
        make_lists(Listed(web_ca.certificate, [GRANTED])).status(qwac, at=datetime(2026, 6, 1))


def test_granted_authorities_are_anchors_for_paths(make_lists, web_ca, qwac):
    lists = make_lists(Listed(web_ca.certificate, [State("withdrawn", AT), GRANTED]))
    anchors = lists.make_anchors(purpose="web", at=AT - timedelta(days=1))
    assert PathVerifier(anchors).verify(qwac, at=AT).chain == (qwac, web_ca.certificate)
    for purpose, at in (("web", AT), ("eseal", AT - timedelta(days=1)), ("web", NEXT_UPDATE + timedelta(days=1))):
        with refused(ConfigurationError, "trust.no-anchors"):
            lists.make_anchors(purpose=purpose, at=at)


def test_asking_again_gives_the_same_answer(make_lists, web_ca, qwac):
    lists = make_lists(Listed(web_ca.certificate, [State("withdrawn", AT), GRANTED]))
    times = [AT - timedelta(days=1), AT, AT - timedelta(days=1)]
    assert [lists.status(qwac, at=at).code for at in times] == [None, "trusted-list.not-granted", None]
