"""Whether an OCSP responder was revoked itself, by the CRLs of the authority that certified it."""

from __future__ import annotations

import pytest
from answering import AT, DAY, HOLD, HOUR, REVOKED, because, evidence, make_crl, make_ocsp, outcome, point
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tppkit.testpki.profiles import key_usage
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationPolicy

CRL_URL = "http://crl.example.com/1.crl"


@pytest.fixture(scope="module")
def leaf(certify, root):
    return certify("leaf", root, ca=False)


@pytest.fixture(scope="module")
def responder(certify, root):
    address = x509.DistributionPoint([x509.UniformResourceIdentifier(CRL_URL)], None, None, None)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING])
    extensions = (key_usage("digital_signature"), (usage, False), (x509.CRLDistributionPoints([address]), False))
    return certify("Responder", root, extensions=extensions)


@pytest.fixture
def judging(root, leaf, responder):
    """A verifier with one response of the responder, `said` of the leaf, and these CRLs."""

    def judging(*crls, said=None, **options) -> PathVerifier:
        answers = evidence(*crls, make_ocsp(leaf, root, responder=responder, **{"at": AT, **(said or {})}))
        return PathVerifier(Anchors((root.certificate,)), revocation=RevocationChecker(evidence=answers, **options))

    return judging


def test_a_responder_of_which_nothing_is_known_is_noted_or_refused_as_configured(judging, leaf):
    assert outcome(judging(), leaf, AT) == (None, ["ocsp.responder-unchecked"])
    required = judging(require_responder_status=True)
    assert outcome(required, leaf, AT) == ("revocation.unknown", ["ocsp.responder-unchecked"])


def test_a_fetched_list_clears_the_responder(judging, leaf, root):
    asked: list[str] = []

    def fetch(url, *, max_bytes, timeout, body=None, content_type=None):
        asked.append(url)
        return make_crl(root, at=AT).der

    paths = judging(fetch=fetch, require_responder_status=True)
    assert outcome(paths, leaf, AT) == (None, [])
    assert asked == [CRL_URL]


PART = point(full_name=[x509.UniformResourceIdentifier(CRL_URL)])


def partial_list(root, *revoked, at=AT, extensions=(PART,), **made):
    """A list for end entities that have the responder's distribution point: it does not speak of the leaf."""
    return make_crl(root, *revoked, at=at, extensions=extensions, **made)


def test_a_kept_list_clears_the_responder_for_as_long_as_it_is_fresh(judging, leaf, root):
    paths = judging(partial_list(root), require_responder_status=True)
    assert outcome(paths, leaf, AT) == (None, [])
    assert paths.verify(leaf.certificate, at=AT).window.not_after == AT + HOUR


def test_a_revoked_responder_is_not_trusted(judging, leaf, root, responder):
    code, findings = outcome(judging(partial_list(root, responder)), leaf, AT)
    assert code == "revocation.unknown"
    assert "ocsp.responder-revoked" in findings


def test_a_hold_that_a_revoked_responder_stated_counts(judging, leaf, root, responder):
    held = {"status": REVOKED, "reason": HOLD}
    paths = judging(partial_list(root, responder), said=held, policy=RevocationPolicy.SOFT_FAIL)
    assert outcome(paths, leaf, AT + 2 * DAY)[0] == "revocation.stale"


HELD = {"at": AT - 2 * HOUR, "entry_extensions": because(HOLD)}
NOT_YET = {"at": AT - 9 * DAY, "when": AT + HOUR / 2}


@pytest.mark.parametrize(
    ("of_responder", "lifted", "said", "first", "then"),
    [
        ({"at": AT - HOUR, "extensions": []}, False, {"status": REVOKED}, AT - HOUR / 2, AT),
        (HELD, True, {"at": AT - HOUR}, AT, AT - HOUR / 2),
        (NOT_YET, False, {}, AT, AT + HOUR / 2),
    ],
    ids=["revocation by a revoked responder", "hold of the responder", "later revocation of the responder"],
)
def test_a_remembered_verdict_is_that_of_a_new_check(
    judging, leaf, root, responder, of_responder, lifted, said, first, then
):
    lists = partial_list(root, responder, **of_responder), *[partial_list(root)] * lifted
    remembering, fresh = (judging(*lists, said=said) for _ in range(2))
    assert outcome(remembering, leaf, first)[0] is None
    assert outcome(fresh, leaf, then)[0] is not None
    assert outcome(remembering, leaf, then) == outcome(fresh, leaf, then)
