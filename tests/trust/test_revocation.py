"""Chains judged with their revocation: at a time, by policy, with what was kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from answering import (
    AT,
    DAY,
    HOLD,
    HOUR,
    REVOKED,
    UNKNOWN,
    because,
    code,
    evidence,
    make_crl,
    make_ocsp,
    outcome,
    point,
)
from asn1crypto import core
from cryptography import x509

from refusals import refused
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationPolicy, RevocationScope, State
from tppkit.trust.revocation.answers import RevocationSource

ENDS = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.fixture(scope="module")
def root(certify):
    return certify("Root", ends=ENDS + 900 * DAY)


@pytest.fixture(scope="module")
def issuing(certify, root):
    return certify("Issuing", root, ends=ENDS + 900 * DAY)


@pytest.fixture(scope="module")
def leaf(certify, issuing):
    return certify("leaf", issuing, ca=False)


def test_a_chain_holds_with_what_was_proven_of_each_certificate(judging, leaf, issuing, root):
    response, crl = make_ocsp(leaf, issuing, at=AT), make_crl(root, at=AT - HOUR)
    path = judging(response, crl, scope=RevocationScope.CHAIN).verify(leaf.certificate, at=AT)
    first, second = path.revocation
    assert (first.certificate, first.state, first.answer.source) == (
        leaf.certificate,
        State.GOOD,
        RevocationSource.OCSP,
    )
    assert (first.answer.sha256, first.answer.next_update) == (response.sha256, AT + DAY)
    assert (second.certificate, second.answer.source) == (issuing.certificate, RevocationSource.CRL)
    assert (first.answer.signer, second.answer.signer) == (issuing.certificate, root.certificate)


def test_a_revoked_leaf_is_refused(judging, leaf, issuing):
    assert code(judging(make_crl(issuing, leaf, at=AT)), leaf) == "revocation.revoked"
    assert code(judging(make_ocsp(leaf, issuing, at=AT, status=REVOKED)), leaf) == "revocation.revoked"


def test_a_revoked_authority_is_refused_unless_the_leaf_alone_is_asked_about(judging, leaf, issuing, root):
    answers = make_ocsp(leaf, issuing, at=AT), make_crl(root, issuing, at=AT)
    assert code(judging(*answers, scope=RevocationScope.CHAIN), leaf) == "revocation.revoked"
    assert code(judging(*answers), leaf) is None


def test_without_an_answer_a_hard_failure_refuses_and_a_soft_one_warns(judging, leaf):
    assert code(judging(), leaf) == "revocation.unknown"
    path = judging(policy=RevocationPolicy.SOFT_FAIL).verify(leaf.certificate, at=AT)
    assert [status.state for status in path.revocation] == [State.UNKNOWN]
    assert [(f.code, f.severity) for f in path.findings] == [("revocation.unknown", "warning")]


def test_a_hard_failure_for_the_leaf_alone_warns_of_the_authorities_above_it(judging, leaf, issuing, root):
    options = {"policy": RevocationPolicy.HARD_FAIL_LEAF, "scope": RevocationScope.CHAIN}
    good, of_root = make_crl(issuing, at=AT), make_crl(root, issuing, at=AT)
    assert code(judging(**options), leaf) == "revocation.unknown"
    assert code(judging(good, of_root, **options), leaf) == "revocation.revoked"
    path = judging(good, **options).verify(leaf.certificate, at=AT)
    assert [status.state for status in path.revocation] == [State.GOOD, State.UNKNOWN]
    assert [(f.code, f.severity) for f in path.findings] == [("revocation.unknown", "warning")]


def test_a_hard_failure_refuses_an_authority_of_which_nothing_is_known(judging, leaf, issuing):
    assert code(judging(make_crl(issuing, at=AT), scope=RevocationScope.CHAIN), leaf) == "revocation.unknown"


def test_a_soft_failure_does_not_let_a_revoked_certificate_pass(judging, leaf, issuing):
    paths = judging(make_crl(issuing, leaf, at=AT), policy=RevocationPolicy.SOFT_FAIL)
    assert code(paths, leaf) == "revocation.revoked"


def test_why_an_answer_is_of_no_use_is_reported(certify, judging, leaf):
    namesake = certify("Issuing")
    with pytest.raises(CertificateRejected) as refused:
        judging(make_crl(namesake, at=AT)).verify(leaf.certificate, at=AT)
    assert refused.value.code == "revocation.unknown"
    assert [finding.code for finding in refused.value.findings] == ["crl.signature"]


def test_an_answer_that_does_not_know_proves_nothing(judging, leaf, issuing):
    paths = judging(make_ocsp(leaf, issuing, at=AT, status=UNKNOWN))
    assert code(paths, leaf) == "revocation.unknown"


@pytest.mark.parametrize("make", ["crl", "ocsp"])
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (timedelta(0), None),
        (DAY, None),
        (DAY + timedelta(minutes=5), None),
        (DAY + timedelta(minutes=6), "revocation.stale"),
        (-30 * DAY, None),
    ],
    ids=["at thisUpdate", "at nextUpdate", "within the clocks' difference", "stale", "long before"],
)
def test_a_good_answer_proves_until_its_next_update_and_for_the_past(judging, leaf, issuing, make, after, expected):
    answer = make_crl(issuing, at=AT) if make == "crl" else make_ocsp(leaf, issuing, at=AT)
    assert code(judging(answer), leaf, AT + after) == expected


def test_a_stale_revocation_is_still_one(judging, leaf, issuing):
    assert code(judging(make_crl(issuing, leaf, at=AT - 90 * DAY)), leaf) == "revocation.revoked"


def test_before_its_revocation_a_certificate_was_good(judging, leaf, issuing):
    paths = judging(make_crl(issuing, leaf, at=AT, when=AT - HOUR))
    assert code(paths, leaf, AT - HOUR - timedelta(seconds=1)) is None
    assert code(paths, leaf, AT - HOUR) == "revocation.revoked"


def test_a_remembered_verdict_ends_where_the_revocation_begins(judging, leaf, issuing):
    path = judging(make_crl(issuing, leaf, at=AT, when=AT - HOUR)).verify(leaf.certificate, at=AT - 2 * HOUR)
    assert path.window.not_after < AT - HOUR


@pytest.mark.parametrize("turn", [1, -1], ids=["in this order", "reversed"])
@pytest.mark.parametrize(
    ("date", "made"),
    [
        (AT - HOUR, {"entry_extensions": [(x509.InvalidityDate((AT - HOUR).replace(tzinfo=None)), False)]}),
        (AT, {"extensions": [(x509.DeltaCRLIndicator(1), True)]}),
    ],
    ids=["invalidity date", "revocation by a list that proves nothing good"],
)
def test_a_remembered_verdict_is_that_of_a_new_check(judging, leaf, issuing, date, made, turn):
    answer, policy = make_crl(issuing, leaf, at=AT, **made), RevocationPolicy.SOFT_FAIL
    remembering = judging(answer, policy=policy)
    moments = [date - timedelta(seconds=1), date][::turn]
    fresh = [outcome(judging(answer, policy=policy), leaf, at) for at in moments]
    assert fresh[0] != fresh[1]
    assert [outcome(remembering, leaf, at) for at in moments] == fresh


def test_a_key_compromised_before_its_revocation_is_reported(judging, leaf, issuing):
    lost = x509.InvalidityDate((AT - DAY).replace(tzinfo=None))
    paths = judging(make_crl(issuing, leaf, at=AT, entry_extensions=[(lost, False)]))
    path = paths.verify(leaf.certificate, at=AT - HOUR)
    assert [finding.code for finding in path.findings] == ["revocation.invalidity-date"]


def test_a_key_compromised_earlier_by_any_answer_is_reported_while_the_revocation_is_to_come(judging, leaf, issuing):
    lost = x509.InvalidityDate((AT - DAY).replace(tzinfo=None))
    entry = [(lost, False), (x509.CRLReason(HOLD), False)]
    held = make_crl(issuing, leaf, at=AT - HOUR, lasts=9 * DAY, entry_extensions=entry)
    for later in (make_ocsp(leaf, issuing, at=AT, status=REVOKED), make_crl(issuing, at=AT)):
        assert outcome(judging(held, later), leaf, AT - 2 * HOUR) == (None, ["revocation.invalidity-date"])
    assert outcome(judging(held, later), leaf, AT) == (None, [])


def test_a_key_compromised_later_is_not_reported(judging, leaf, issuing):
    lost = x509.InvalidityDate((AT - HOUR).replace(tzinfo=None))
    paths = judging(make_crl(issuing, leaf, at=AT, entry_extensions=[(lost, False)]))
    assert paths.verify(leaf.certificate, at=AT - DAY).findings == ()


def test_a_later_list_says_nothing_of_what_had_expired_by_then(judging, leaf, issuing):
    after = ENDS + DAY
    assert code(judging(make_crl(issuing, at=after)), leaf) == "revocation.stale"
    since = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.60"), core.GeneralizedTime(AT).dump())
    assert code(judging(make_crl(issuing, at=after, extensions=[(since, False)])), leaf) is None


def test_a_list_from_just_after_the_end_says_nothing_of_what_left_it(judging, leaf, issuing):
    just_after = ENDS + timedelta(minutes=2)
    assert code(judging(make_crl(issuing, at=just_after)), leaf, ENDS) == "revocation.stale"
    assert code(judging(make_crl(issuing, at=ENDS)), leaf, ENDS) is None


def test_a_later_list_that_names_what_had_expired_proves_it_was_good_before(judging, leaf, issuing):
    assert code(judging(make_crl(issuing, leaf, at=ENDS + DAY, when=AT + HOUR)), leaf) is None


def test_a_revocation_is_final_whichever_answer_knows_of_it(judging, leaf, issuing):
    older = make_ocsp(leaf, issuing, at=AT - HOUR, status=REVOKED)
    assert code(judging(older, make_crl(issuing, at=AT)), leaf) == "revocation.revoked"


def test_of_a_hold_the_latest_answer_decides(judging, leaf, issuing):
    held = make_ocsp(leaf, issuing, at=AT - HOUR, status=REVOKED, reason=HOLD)
    assert code(judging(held), leaf) == "revocation.revoked"
    assert code(judging(held, make_crl(issuing, at=AT)), leaf) is None
    assert code(judging(held), leaf, AT + 2 * DAY) == "revocation.stale"


@pytest.mark.parametrize("make", ["crl", "ocsp"])
def test_what_was_last_reported_on_hold_fails_softly_too(judging, leaf, issuing, make):
    entry = because(HOLD)
    held = (
        make_crl(issuing, leaf, at=AT, entry_extensions=entry)
        if make == "crl"
        else make_ocsp(leaf, issuing, at=AT, status=REVOKED, reason=HOLD)
    )
    paths = judging(held, policy=RevocationPolicy.SOFT_FAIL)
    with refused(CertificateRejected, "revocation.stale", match="was on hold by the"):
        paths.verify(leaf.certificate, at=AT + 2 * DAY)


def test_a_hold_that_was_lifted_before_all_answers_grew_old_is_only_a_warning(judging, leaf, issuing):
    held = make_ocsp(leaf, issuing, at=AT, status=REVOKED, reason=HOLD)
    paths = judging(held, make_crl(issuing, at=AT + HOUR), policy=RevocationPolicy.SOFT_FAIL)
    path = paths.verify(leaf.certificate, at=AT + 9 * DAY)
    assert [finding.code for finding in path.findings] == ["revocation.stale"]


def test_an_authority_last_reported_on_hold_fails_softly_too(judging, leaf, issuing, root):
    held = make_crl(root, issuing, at=AT - 9 * DAY, entry_extensions=because(HOLD))
    good = make_ocsp(leaf, issuing, at=AT)
    paths = judging(held, good, policy=RevocationPolicy.SOFT_FAIL, scope=RevocationScope.CHAIN)
    assert code(paths, leaf) == "revocation.stale"


def test_a_hold_is_not_undone_by_a_later_list_without_it(judging, leaf, issuing):
    held = make_ocsp(leaf, issuing, at=AT - HOUR, status=REVOKED, reason=HOLD)
    lifted = make_crl(issuing, at=AT + HOUR)
    paths = judging(held, lifted)
    assert code(paths, leaf, AT + HOUR) is None
    assert code(paths, leaf) == "revocation.revoked"
    assert code(judging(make_crl(issuing, at=AT + 9 * DAY), held), leaf, AT + 8 * DAY) == "revocation.stale"


def numbered(issuing, number: int, *revoked, reason=HOLD, at=AT, extensions=()):
    entry = because(reason)
    return make_crl(
        issuing, *revoked, at=at, when=AT - HOUR, entry_extensions=entry if revoked else (),
        extensions=[(x509.CRLNumber(number), False), *extensions],
    )  # fmt: skip


def test_of_two_lists_of_one_moment_the_higher_number_decides(judging, leaf, issuing):
    lifted, held = numbered(issuing, 3), numbered(issuing, 2, leaf)
    assert code(judging(held, lifted), leaf, AT) is None
    assert code(judging(lifted, held), leaf, AT + HOUR) is None
    assert code(judging(numbered(issuing, 1), held), leaf) == "revocation.revoked"


def test_a_hold_lifted_within_a_second_does_not_outlive_the_lists(judging, leaf, issuing):
    lifted, held = numbered(issuing, 3), numbered(issuing, 2, leaf)
    paths = judging(held, lifted, policy=RevocationPolicy.SOFT_FAIL)
    assert [f.code for f in paths.verify(leaf.certificate, at=AT + 9 * DAY).findings] == ["revocation.stale"]


def test_before_the_moment_of_both_lists_the_hold_counted(judging, leaf, issuing):
    assert code(judging(numbered(issuing, 2, leaf), numbered(issuing, 3)), leaf, AT - HOUR / 2) == "revocation.revoked"


def test_a_higher_number_does_not_undo_a_final_revocation(judging, leaf, issuing):
    final = numbered(issuing, 2, leaf, reason=x509.ReasonFlags.superseded)
    assert code(judging(final, numbered(issuing, 3)), leaf) == "revocation.revoked"


def test_the_number_of_a_list_of_another_scope_says_nothing(judging, leaf, issuing):
    other = numbered(issuing, 3, extensions=[point(only_contains_user_certs=True)])
    assert code(judging(numbered(issuing, 2, leaf), other), leaf) == "revocation.revoked"


def test_answers_in_place_of_others_end_every_verdict_and_leave_nothing_of_them(judging, leaf, issuing):
    paths = judging(make_crl(issuing, leaf, at=AT))
    assert code(paths, leaf) == "revocation.revoked"
    paths.revocation.replace(evidence(make_crl(issuing, at=AT)))
    path = paths.verify(leaf.certificate, at=AT)
    assert paths.verify(leaf.certificate, at=AT) is path
    paths.revocation.replace(evidence(make_crl(issuing, leaf, at=AT)))
    assert not path.window.holds_at(AT)
    assert code(paths, leaf) == "revocation.revoked"


def test_a_hold_that_a_later_answer_reports_counts_from_its_date(judging, leaf, issuing):
    held = make_ocsp(leaf, issuing, at=AT + HOUR, status=REVOKED, reason=HOLD, when=AT)
    paths = judging(make_crl(issuing, at=AT), held)
    assert code(paths, leaf, AT - HOUR) is None
    assert code(paths, leaf, AT) == "revocation.revoked"


def test_where_a_hold_is_known_a_verdict_is_remembered_only_from_its_time_on_to_the_next_revocation(
    judging, leaf, issuing
):
    held = make_ocsp(leaf, issuing, at=AT - HOUR, status=REVOKED, reason=HOLD)
    revoked = make_ocsp(leaf, issuing, at=AT + HOUR, status=REVOKED)
    at = AT + HOUR / 2
    path = judging(held, make_crl(issuing, at=AT), revoked).verify(leaf.certificate, at=at)
    assert path.window.not_before == at
    assert at < path.window.not_after < AT + HOUR


def test_an_answer_from_after_the_present_is_refused(judging, leaf, issuing):
    response = make_crl(issuing, at=AT + HOUR)
    assert code(judging(response, now=lambda: AT), leaf) == "revocation.unknown"
    assert code(judging(response, now=lambda: AT + HOUR), leaf) is None


def test_a_response_without_next_update_is_fresh_for_a_day(judging, leaf, issuing):
    paths = judging(make_ocsp(leaf, issuing, at=AT, lasts=None))
    assert code(paths, leaf, AT + DAY) is None
    assert code(paths, leaf, AT + DAY + HOUR) == "revocation.stale"


def test_an_answer_that_is_older_than_requested_is_stale(judging, leaf, issuing):
    crl = make_crl(issuing, at=AT, lasts=900 * DAY)
    assert code(judging(crl), leaf, AT + 30 * DAY) is None
    paths = judging(crl, max_age=DAY)
    assert code(paths, leaf, AT + DAY) is None
    assert code(paths, leaf, AT + DAY + HOUR) == "revocation.stale"


def test_a_nonce_is_not_required_where_none_is_made():
    with refused(ConfigurationError, "revocation.no-nonce"):
        RevocationChecker(require_nonce=True)


def test_a_revocation_ends_other_verdicts_when_it_is_first_known(certify, judging, leaf, issuing):
    other = certify("other", issuing, ca=False)
    paths = judging(make_crl(issuing, other, at=AT))
    path = paths.verify(leaf.certificate, at=AT)
    assert code(paths, other) == "revocation.revoked"
    assert not path.holds_at(AT)
    path = paths.verify(leaf.certificate, at=AT)
    assert code(paths, other) == "revocation.revoked"
    assert path.holds_at(AT)


def test_another_revocation_of_a_certificate_ends_verdicts(certify, judging, leaf, issuing):
    other = certify("other", issuing, ca=False)
    good = make_crl(issuing, at=AT - HOUR)
    paths = judging(make_ocsp(other, issuing, at=AT - HOUR, status=REVOKED, reason=HOLD), good)
    assert code(paths, other) == "revocation.revoked"
    paths.revocation.replace(evidence(good, make_ocsp(other, issuing, at=AT, status=REVOKED)))
    path = paths.verify(leaf.certificate, at=AT)
    assert code(paths, other) == "revocation.revoked"
    assert not path.holds_at(AT)


def test_a_verdict_is_not_remembered_beyond_its_evidence(judging, leaf, issuing):
    path = judging(make_ocsp(leaf, issuing, at=AT)).verify(leaf.certificate, at=AT + DAY - HOUR / 2)
    assert path.window.not_after == AT + DAY
    short = judging(make_ocsp(leaf, issuing, at=AT), remember=HOUR).verify(leaf.certificate, at=AT)
    assert short.window.not_after == AT + HOUR
    # Without an answer, ask again soon if there is a way to ask; files do not change.
    for fetch, until in ((lambda request: None, AT + timedelta(minutes=1)), (None, AT + HOUR)):
        soft = judging(policy=RevocationPolicy.SOFT_FAIL, remember=HOUR, fetch=fetch).verify(leaf.certificate, at=AT)
        assert soft.window.not_after == until


NEVER_ENDS = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # as 99991231235959Z has it


@pytest.mark.parametrize("make", ["crl", "ocsp"])
@pytest.mark.parametrize(
    "at", [AT, NEVER_ENDS, datetime.max.replace(tzinfo=UTC)], ids=["now", "last second", "maximum"]
)
def test_times_at_the_end_of_the_calendar_are_times(certify, make, at):
    root = certify("Root", ends=NEVER_ENDS)
    leaf = certify("leaf", root, ca=False, ends=NEVER_ENDS)
    issued = {"at": min(at, NEVER_ENDS), "lasts": NEVER_ENDS - min(at, NEVER_ENDS)}
    answer = make_crl(root, **issued) if make == "crl" else make_ocsp(leaf, root, **issued)
    checker = RevocationChecker(evidence=evidence(answer), now=lambda: at, max_age=timedelta.max)
    paths = PathVerifier(Anchors((root.certificate,)), revocation=checker)
    expected = None if at <= NEVER_ENDS else "certificate.expired"
    assert code(paths, leaf, at) == expected


def test_an_undated_answer_of_the_last_day_of_the_calendar_is_read(certify):
    root = certify("Root", ends=NEVER_ENDS)
    leaf = certify("leaf", root, ca=False, ends=NEVER_ENDS)
    answer = make_ocsp(leaf, root, at=NEVER_ENDS - HOUR, lasts=None)
    soft = RevocationChecker(evidence=evidence(answer), policy=RevocationPolicy.SOFT_FAIL)
    assert code(PathVerifier(Anchors((root.certificate,)), revocation=soft), leaf, NEVER_ENDS) is None
    nothing = RevocationChecker(policy=RevocationPolicy.SOFT_FAIL)
    assert code(PathVerifier(Anchors((root.certificate,)), revocation=nothing), leaf, NEVER_ENDS) is None
