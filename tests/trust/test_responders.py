"""Whether an OCSP responder was revoked itself, by the CRLs of the authority that certified it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from answering import make_crl, make_ocsp, outcome, point
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tppkit.testpki.profiles import key_usage
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationEvidence

AT = datetime(2026, 6, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CRL_URL = "http://crl.example.com/1.crl"


@pytest.fixture(scope="module")
def root(certify):
    return certify("Root")


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
    """A verifier with one response of the responder, and these CRLs."""

    def judging(*crls, **options) -> PathVerifier:
        answers = RevocationEvidence(crls, (make_ocsp(leaf, root, at=AT, responder=responder),))
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


def partial_list(root, *revoked):
    """A list for end entities that have the responder's distribution point: it does not speak of the leaf."""
    extension = point(full_name=[x509.UniformResourceIdentifier(CRL_URL)])
    return make_crl(root, *revoked, at=AT, extensions=[extension])


def test_a_kept_list_clears_the_responder_for_as_long_as_it_is_fresh(judging, leaf, root):
    paths = judging(partial_list(root), require_responder_status=True)
    assert outcome(paths, leaf, AT) == (None, [])
    assert paths.verify(leaf.certificate, at=AT).window.not_after == AT + HOUR


def test_a_revoked_responder_is_not_trusted(judging, leaf, root, responder):
    code, findings = outcome(judging(partial_list(root, responder)), leaf, AT)
    assert code == "revocation.unknown"
    assert "ocsp.responder-revoked" in findings
