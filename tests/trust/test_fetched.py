"""Answers about revocation that are fetched: when an address is asked, what is cached, and what a failure means for others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from answering import AT, DAY, HOLD, HOUR, REVOKED, UNKNOWN, code, make_crl, make_ocsp
from cryptography import x509
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID

from tppkit.errors import TransportError
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import Anchors, PathVerifier, RevocationChecker, RevocationPolicy
from tppkit.trust.path.window import Window
from tppkit.trust.revocation.answers import RevocationSource
from tppkit.trust.revocation.fetched import MAX_FETCHES, FetchedAnswers, FetchNeeded, without_fetching
from tppkit.trust.revocation.outcome import Inquiry

OCSP_URL, CRL_URL = "http://ocsp.example.com/", "http://crl.example.com/1.crl"
ACCESS = (
    x509.AuthorityInformationAccess(
        [x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(OCSP_URL))]
    ),
    False,
)
POINTS = (
    x509.CRLDistributionPoints([x509.DistributionPoint([x509.UniformResourceIdentifier(CRL_URL)], None, None, None)]),
    False,
)


@pytest.fixture(scope="module")
def leaf(certify, issuing):
    return certify("leaf", issuing, extensions=(key_usage("digital_signature"), ACCESS, POINTS))


@pytest.fixture(scope="module")
def other(certify, issuing):
    return certify("other", issuing, extensions=(key_usage("digital_signature"), ACCESS, POINTS))


class Responder:
    """Answers from addresses: bytes, or an error to raise; and what it was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked: list[tuple[str, bytes | None]] = []

    def __call__(self, url, *, max_bytes, timeout, body=None, content_type=None):
        self.asked.append((url, body))
        answer = self.answers.get("ocsp" if url == OCSP_URL else "crl")
        answer = answer(body) if callable(answer) else answer
        if answer is None:
            raise TransportError("fetch.failed", "nobody answers")
        return answer


def test_a_hold_ends_with_an_answer_that_is_fetched(judging, leaf, issuing):
    held = make_ocsp(leaf, issuing, at=AT, status=REVOKED, reason=HOLD)
    at = AT + 2 * DAY

    def fetch(url, **options) -> bytes:
        return make_crl(issuing, at=at).der if url == CRL_URL else b"nothing"

    assert code(judging(held, fetch=fetch, policy=RevocationPolicy.SOFT_FAIL), leaf, at) is None


def test_what_is_not_known_is_requested_once_while_fresh(judging, leaf, issuing):
    responder = Responder(ocsp=make_ocsp(leaf, issuing, at=AT).der)
    paths = judging(fetch=responder, remember=timedelta(minutes=1))
    for minutes in range(0, 60, 10):
        assert code(paths, leaf, AT + timedelta(minutes=minutes)) is None
    assert [url for url, _ in responder.asked] == [OCSP_URL]


def test_a_check_on_an_event_loop_uses_what_is_known_and_fetches_nothing(judging, leaf, issuing):
    responder = Responder(ocsp=make_ocsp(leaf, issuing, at=AT).der)
    paths = judging(fetch=responder)
    with pytest.raises(FetchNeeded):
        without_fetching(lambda at: code(paths, leaf, at), AT)
    assert not responder.asked
    assert code(paths, leaf) is None
    assert without_fetching(lambda at: code(paths, leaf, at), AT + HOUR) is None


def test_a_stale_answer_is_requested_again(judging, leaf, issuing):
    responder = Responder(ocsp=make_ocsp(leaf, issuing, at=AT, status=REVOKED, when=AT).der)
    paths = judging(make_ocsp(leaf, issuing, at=AT - 2 * DAY), fetch=responder)
    assert code(paths, leaf) == "revocation.revoked"


@pytest.mark.parametrize("fault", ["no answer", "rubbish", "unknown", "stale"])
def test_the_list_is_requested_where_the_responder_is_of_no_use(judging, leaf, issuing, fault):
    answers = {
        "no answer": None,
        "rubbish": b"<html>",
        "unknown": make_ocsp(leaf, issuing, at=AT, status=UNKNOWN).der,
        "stale": make_ocsp(leaf, issuing, at=AT - 9 * DAY).der,
    }
    responder = Responder(ocsp=answers[fault], crl=make_crl(issuing, at=AT).der)
    path = judging(fetch=responder).verify(leaf.certificate, at=AT)
    assert path.revocation[0].answer.source is RevocationSource.CRL
    assert [url for url, _ in responder.asked] == [OCSP_URL, CRL_URL]


def test_an_address_that_failed_is_left_alone_for_a_minute(judging, leaf):
    responder = Responder()
    paths = judging(fetch=responder)
    for seconds in (0, 20, 40):
        assert code(paths, leaf, AT + timedelta(seconds=seconds)) == "revocation.unknown"
    assert len(responder.asked) == 2
    assert code(paths, leaf, AT + timedelta(seconds=60)) == "revocation.unknown"
    assert len(responder.asked) == 4


@pytest.mark.parametrize(("failure", "expected"), [("fetch.failed", None), ("fetch.timeout", "revocation.unknown")])
def test_a_responder_that_fails_for_one_certificate_is_asked_for_others_unless_it_hangs(
    judging, leaf, other, issuing, failure, expected
):
    def fetch(url, *, body=None, **options) -> bytes:
        if url == OCSP_URL and ocsp.load_der_ocsp_request(body).serial_number == other.certificate.serial:
            return make_ocsp(other, issuing, at=AT).der
        raise TransportError(failure, "no answer")

    paths = judging(fetch=fetch)
    assert code(paths, leaf) == "revocation.unknown"
    assert code(paths, other) == expected


def of_lists(asked: list[tuple[str, bytes | None]]) -> int:
    return [url for url, _ in asked].count(CRL_URL)


def test_a_fetched_list_that_does_not_settle_one_certificate_settles_others(judging, leaf, other, issuing):
    held = make_ocsp(leaf, issuing, at=AT - 2 * HOUR, lasts=HOUR, status=REVOKED, reason=HOLD)
    responder = Responder(crl=make_crl(issuing, at=AT - 3 * HOUR).der)
    paths = judging(held, fetch=responder)
    for _ in range(2):
        assert code(paths, leaf) == "revocation.stale"
        assert code(paths, other) is None
    assert of_lists(responder.asked) == 1


def test_a_fetched_response_that_does_not_settle_its_certificate_is_not_kept(judging, leaf, other, issuing):
    unknown = make_ocsp(leaf, issuing, at=AT, status=UNKNOWN, more=[make_ocsp(other, issuing, at=AT)])
    responder = Responder(ocsp=unknown.der)
    paths = judging(fetch=responder)
    assert code(paths, leaf) == "revocation.unknown"
    assert code(paths, other) is None
    assert [url for url, _ in responder.asked] == [OCSP_URL, CRL_URL, OCSP_URL]


def test_a_fetched_list_that_is_stale_or_forged_is_fetched_once_a_minute_for_each_certificate(
    certify, judging, leaf, other, issuing
):
    for useless in (make_crl(issuing, at=AT - 2 * DAY), make_crl(issuing, at=AT, key=certify("Issuing").key)):
        responder = Responder(crl=useless.der)
        paths = judging(fetch=responder)
        for _ in range(2):
            assert {code(paths, leaf), code(paths, other)} <= {"revocation.stale", "revocation.unknown"}
        assert of_lists(responder.asked) == 2
        responder.answers["crl"] = make_crl(issuing, at=AT).der
        assert code(paths, leaf, AT + timedelta(minutes=1)) is None


@pytest.mark.parametrize(
    "made",
    [{"at": AT - 2 * HOUR}, {"at": AT - HOUR / 2, "lasts": HOUR / 4}, {"at": AT + HOUR}],
    ids=["older", "stale", "from after the present"],
)
def test_a_list_that_proves_nothing_does_not_replace_one_that_revokes(judging, leaf, other, issuing, made):
    held = make_ocsp(leaf, issuing, at=AT - HOUR / 2, lasts=HOUR / 4, status=REVOKED, reason=HOLD)
    responder = Responder(crl=make_crl(issuing, other, at=AT - HOUR).der)
    paths, later = judging(held, fetch=responder, now=lambda: AT), AT + timedelta(minutes=1)
    assert code(paths, leaf) == "revocation.stale"
    responder.answers["crl"] = make_crl(issuing, **made).der
    assert code(paths, leaf, later) == "revocation.stale"
    assert of_lists(responder.asked) == 2
    assert code(paths, other, later) == "revocation.revoked"


@pytest.fixture
def together(judging, leaf):
    """Judge a leaf in four threads, of which three begin while the first one fetches; errors other than rejections are returned."""

    def together(fetch) -> tuple[PathVerifier, list[object]]:
        begun, all_ask = threading.Event(), threading.Barrier(4)

        def make_nonce() -> bytes:  # called just before the question is asked
            if begun.is_set():
                all_ask.wait(timeout=10)
            return b"0123456789abcdef"

        def slow(url, **options) -> bytes:
            if not begun.is_set():
                begun.set()
                all_ask.wait(timeout=10)
                time.sleep(0.5)
            return fetch(url)

        def judge() -> object:
            try:
                return code(paths, leaf)
            except RuntimeError as e:
                return e

        paths = judging(fetch=slow, make_nonce=make_nonce)
        with ThreadPoolExecutor() as pool:
            first = pool.submit(judge)
            assert begun.wait(timeout=10)
            judged = [first, *(pool.submit(judge) for _ in range(3))]
            return paths, [one.result(timeout=10) for one in judged]

    return together


def test_threads_share_an_answer_that_one_of_them_fetches(together, leaf, issuing):
    asked: list[str] = []

    def fetch(url) -> bytes:
        asked.append(url)
        return make_ocsp(leaf, issuing, at=AT).der

    assert together(fetch)[1] == [None] * 4
    assert asked == [OCSP_URL]


def test_an_answer_is_shared_until_it_is_judged(leaf, issuing):
    asked: list[str] = []

    def fetch(url, **_) -> bytes:
        asked.append(url)
        return make_ocsp(leaf, issuing, at=AT).der

    fetched = FetchedAnswers(fetch, None)

    def ask() -> Iterator[object]:
        return fetched.ask(Inquiry(leaf.certificate, issuing.certificate, AT, Window(), iter(range(9))))

    judged, other = ask(), ask()
    assert next(judged) is next(other)
    judged.close()
    assert (asked, fetched._under_way) == ([OCSP_URL], {})


def test_threads_share_the_failure_of_a_fetch(together):
    asked: list[str] = []

    def fetch(url) -> bytes:
        asked.append(url)
        time.sleep(0.2)
        raise TransportError("fetch.failed", "no answer")

    assert together(fetch)[1] == ["revocation.unknown"] * 4
    assert asked == [OCSP_URL, CRL_URL]


def test_an_unexpected_error_of_a_fetch_is_raised_in_its_thread_and_stops_no_other(together, issuing):
    def fetch(url) -> bytes:
        if url == OCSP_URL:
            raise RuntimeError(url)
        return make_crl(issuing, at=AT).der

    paths, (first, *others) = together(fetch)
    assert isinstance(first, RuntimeError)
    assert others == [None] * 3
    assert paths.revocation._fetched._under_way == {}


def test_nothing_is_fetched_for_a_chain_that_does_not_hold(certify, root, issuing, leaf):
    responder = Responder()
    paths = PathVerifier(
        Anchors((certify("Other").certificate,), (issuing.certificate, root.certificate)),
        revocation=RevocationChecker(fetch=responder),
    )
    assert code(paths, leaf) == "trust.no-path"
    assert responder.asked == []


@pytest.mark.parametrize(("required", "expected"), [(False, None), (True, "revocation.unknown")])
def test_a_response_without_the_nonce_is_accepted_as_configured(judging, leaf, issuing, required, expected):
    responder = Responder(ocsp=make_ocsp(leaf, issuing, at=AT).der)
    paths = judging(fetch=responder, make_nonce=lambda: b"0123456789abcdef", require_nonce=required)
    assert code(paths, leaf) == expected
    assert b"0123456789abcdef" in responder.asked[0][1]


def test_a_replayed_response_is_refused(judging, leaf, issuing):
    old = make_ocsp(leaf, issuing, at=AT, extensions=[(x509.OCSPNonce(b"yesterday"), False)])
    paths = judging(fetch=Responder(ocsp=old.der), make_nonce=lambda: b"today")
    assert code(paths, leaf) == "revocation.unknown"
    assert code(paths, leaf) == "revocation.unknown"  # nor is it trusted from memory


def test_a_response_with_another_nonce_that_revokes_one_certificate_proves_no_other_good_from_memory(
    certify, judging, leaf, issuing
):
    revoked = certify("revoked", issuing, extensions=(key_usage("digital_signature"), ACCESS))
    old = make_ocsp(
        revoked, issuing, at=AT, status=REVOKED, more=[make_ocsp(leaf, issuing, at=AT)],
        extensions=[(x509.OCSPNonce(b"yesterday"), False)],
    )  # fmt: skip
    responder = Responder(ocsp=old.der)
    paths = judging(fetch=responder, make_nonce=lambda: b"today", require_nonce=True)
    for _ in range(2):
        assert code(paths, revoked) == "revocation.revoked"
        assert code(paths, leaf) == "revocation.unknown"
    assert [url for url, _ in responder.asked] == [OCSP_URL, OCSP_URL, CRL_URL]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ldap://x/", "http://user@x/", "http://a b/", "http://", "x" * 3000]
)
def test_only_web_addresses_are_fetched(certify, issuing, judging, url):
    point = x509.DistributionPoint([x509.UniformResourceIdentifier(url)], None, None, None)
    leaf = certify(
        "leaf", issuing, extensions=(key_usage("digital_signature"), (x509.CRLDistributionPoints([point]), False))
    )
    responder = Responder()
    assert code(judging(fetch=responder), leaf) == "revocation.unknown"
    assert responder.asked == []


def test_the_fetches_for_one_chain_are_limited(certify, root):
    chain = [root]
    for name in ("First", "Second", "leaf"):
        urls = [x509.UniformResourceIdentifier(f"http://{name}.example.com/{number}") for number in range(4)]
        access = [x509.AccessDescription(AuthorityInformationAccessOID.OCSP, url) for url in urls[:2]]
        points = [x509.DistributionPoint([url], None, None, None) for url in urls[2:]]
        addresses = (x509.AuthorityInformationAccess(access), False), (x509.CRLDistributionPoints(points), False)
        chain.append(certify(name, chain[-1], extensions=(*authority_extensions(path_length=None), *addresses)))
    responder = Responder()
    checker = RevocationChecker(fetch=responder, policy=RevocationPolicy.SOFT_FAIL)
    checker.check([one.certificate for one in reversed(chain)], at=AT)
    assert len(responder.asked) == MAX_FETCHES


def test_many_addresses_are_not_all_fetched(certify, issuing, judging):
    points = [
        x509.DistributionPoint([x509.UniformResourceIdentifier(f"http://crl{n}.example.com/")], None, None, None)
        for n in range(50)
    ]
    leaf = certify(
        "leaf", issuing, extensions=(key_usage("digital_signature"), (x509.CRLDistributionPoints(points), False))
    )
    responder = Responder()
    assert code(judging(fetch=responder), leaf) == "revocation.unknown"
    assert len(responder.asked) == 2
