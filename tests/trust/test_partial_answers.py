"""Answers that cannot prove a certificate good, but can prove it revoked; and faults reported beside a good verdict."""

from __future__ import annotations

import subprocess
from datetime import datetime

import pytest
from answering import AT, DAY, GOOD, HOLD, HOUR, ODD, REVOKED, because, make_crl, make_ocsp, outcome, point
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from programs import needed
from tppkit.testpki.profiles import key_usage
from tppkit.trust import RevocationPolicy

REMOVED = x509.ReasonFlags.remove_from_crl
NAMELESS = x509.UnrecognizedExtension(
    x509.ObjectIdentifier("2.5.29.29"), b"\x30\x00"
)  # a certificateIssuer without a name
DELTA = (x509.DeltaCRLIndicator(1), True)
OCSP_URL = "http://ocsp.example.com/"


@pytest.fixture(scope="module")
def leaf(certify, issuing):
    access = x509.AccessDescription(
        x509.oid.AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(OCSP_URL)
    )
    return certify(
        "leaf", issuing,
        extensions=(key_usage("digital_signature"), (x509.AuthorityInformationAccess([access]), False)),
    )  # fmt: skip


@pytest.fixture
def judge(judging, leaf):
    """The code of the refusal, or None, and the codes of the findings."""

    def judge(*answers, at: datetime = AT, **options) -> tuple[str | None, list[str]]:
        return outcome(judging(*answers, **options), leaf, at)

    return judge


@pytest.fixture(scope="module")
def base(issuing):
    """A complete list that was fresh at the time and does not have the leaf."""
    return make_crl(issuing, at=AT - 2 * HOUR, lasts=30 * DAY, extensions=[(x509.CRLNumber(1), False)])


def of(authority) -> tuple[x509.CertificateIssuer, bool]:
    return x509.CertificateIssuer([x509.DirectoryName(authority.certificate.x509.subject)]), True


ELSEWHERE = [x509.UniformResourceIdentifier("http://crl.example.com/2.crl")]
PARTIAL = {
    "delta": (DELTA, "crl.delta"),
    "indirect": (point(indirect_crl=True), "crl.indirect"),
    "some reasons": (point(only_some_reasons=frozenset({x509.ReasonFlags.key_compromise})), None),
    "another point": (point(full_name=ELSEWHERE), None),
    "authorities only": (point(only_contains_ca_certs=True), None),
    "critical extension": ((ODD, True), "crl.critical-extension"),
}


@pytest.mark.parametrize(("extension", "fault"), PARTIAL.values(), ids=PARTIAL)
def test_a_partial_list_adds_revocations_and_proves_nothing_good(judge, base, issuing, leaf, extension, fault):
    revoking = make_crl(issuing, leaf, at=AT - HOUR, extensions=[extension])
    assert judge(base, revoking)[0] == "revocation.revoked"
    assert judge(revoking, at=AT - 2 * HOUR)[0] == "revocation.unknown"  # before the revocation
    silent = make_crl(issuing, at=AT - HOUR, extensions=[extension])
    assert judge(silent)[0] == "revocation.unknown"
    assert judge(base, silent) == (None, [fault] if fault else [])


@pytest.mark.parametrize("extension", [DELTA, point(indirect_crl=True), (ODD, True)], ids=["delta", "indirect", "odd"])
def test_a_partial_list_with_a_forged_signature_changes_nothing_and_is_reported(
    certify, judge, base, issuing, leaf, extension
):
    forged = make_crl(issuing, leaf, at=AT - HOUR, extensions=[extension], key=certify("Issuing").key)
    assert judge(base, forged) == (None, ["crl.signature"])


def test_a_list_of_attribute_certificates_says_nothing_about_a_certificate(judge, base, issuing, leaf):
    listing = make_crl(issuing, leaf, at=AT - HOUR, extensions=[point(only_contains_attribute_certs=True)])
    assert judge(base, listing) == (None, [])


def test_an_indirect_list_revokes_what_its_entries_name_by_issuer(certify, judge, base, root, issuing, leaf):
    other, indirect = certify("Other"), [point(indirect_crl=True)]
    cases = (
        (issuing, of(issuing), "revocation.revoked", []),
        (issuing, of(other), None, ["crl.indirect"]),  # the serial number of another authority's certificate
        (root, of(issuing), "revocation.revoked", []),  # an authority above
        (root, None, None, ["crl.indirect"]),  # the serial number of a certificate of the root
        (issuing, (NAMELESS, True), None, ["crl.indirect"]),  # an unreadable name
        (other, of(issuing), None, ["crl.indirect"]),  # of no authority of the chain, so nothing is proven
    )
    for signer, named, code, found in cases:
        entry = [named] if named else []
        listing = make_crl(signer, leaf, at=AT - HOUR, extensions=indirect, entry_extensions=entry)
        assert judge(base, listing) == (code, found)
    forged = make_crl(root, leaf, at=AT - HOUR, extensions=indirect, entry_extensions=[of(issuing)], key=other.key)
    assert judge(base, forged) == (None, ["crl.signature"])


def test_an_entry_of_an_indirect_list_belongs_to_the_issuer_named_last(certify, judge, base, issuing, leaf):
    other, filler = certify("Other"), certify("filler", issuing, ca=False)
    unreadable = (NAMELESS, True)
    cases = (
        ([filler, leaf], [[of(other)], []], None),
        ([filler, leaf], [[of(issuing)], []], "revocation.revoked"),
        ([filler, leaf], [[unreadable], []], None),
        ([filler, leaf], [[unreadable], [of(issuing)]], "revocation.revoked"),
        ([leaf, filler], [[], [unreadable]], "revocation.revoked"),
    )
    for listed, entries, expected in cases:
        listing = make_crl(
            issuing, *listed, at=AT - HOUR, extensions=[point(indirect_crl=True)], entry_extensions=entries
        )
        assert judge(base, listing)[0] == expected


def test_a_delta_list_lifts_no_hold(judge, issuing, leaf):
    held = make_crl(issuing, leaf, at=AT - 2 * HOUR, lasts=30 * DAY, entry_extensions=because(HOLD))
    lifting = make_crl(issuing, leaf, at=AT - HOUR, extensions=[DELTA], entry_extensions=because(REMOVED))
    assert judge(held, lifting)[0] == "revocation.revoked"
    lifted = make_crl(issuing, at=AT - HOUR / 2)
    assert judge(held, lifting, lifted) == (None, ["crl.delta"])


@pytest.mark.parametrize("policy", [RevocationPolicy.HARD_FAIL, RevocationPolicy.SOFT_FAIL])
def test_a_hold_in_a_newer_answer_is_not_lifted_by_an_older_one_that_is_still_fresh(judge, base, issuing, leaf, policy):
    held = make_crl(issuing, leaf, at=AT - HOUR, extensions=[DELTA], entry_extensions=because(HOLD))
    answered = make_ocsp(leaf, issuing, at=AT - HOUR, status=REVOKED, reason=HOLD)
    for answer in (held, answered):
        assert judge(base, answer, at=AT + 9 * DAY, policy=policy)[0] == "revocation.stale"
        assert judge(base, answer, at=AT - 2 * HOUR, policy=policy)[0] is None


def test_an_answer_from_after_the_present_adds_revocations(judge, base, issuing, leaf):
    late = {"at": AT + HOUR, "when": AT - HOUR}
    for answer in (make_crl(issuing, leaf, **late), make_ocsp(leaf, issuing, status=REVOKED, **late)):
        assert judge(base, answer, now=lambda: AT)[0] == "revocation.revoked"
        assert judge(base, answer, now=lambda: AT, at=AT - 2 * HOUR) == (None, ["revocation.future"])
    assert judge(base, make_crl(issuing, at=AT + HOUR), now=lambda: AT) == (None, ["revocation.future"])


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        ({"extensions": [(ODD, True)]}, "ocsp.critical-extension"),
        ({"produced_at": AT - DAY}, "ocsp.dates"),
        ({"lasts": HOUR / 2}, None),  # stale
    ],
    ids=["critical extension", "dates", "stale"],
)
def test_a_refused_ocsp_answer_adds_revocations(judge, base, issuing, leaf, made, fault):
    made = {"at": AT - HOUR, **made}
    assert judge(base, make_ocsp(leaf, issuing, status=REVOKED, **made))[0] == "revocation.revoked"
    assert judge(base, make_ocsp(leaf, issuing, **made)) == (None, [fault] if fault else [])


def test_a_fetched_ocsp_answer_with_another_nonce_adds_revocations(judge, issuing, leaf):
    def fetch(url, **options) -> bytes:
        return make_ocsp(leaf, issuing, at=AT, status=REVOKED, extensions=[(x509.OCSPNonce(b"old"), False)]).der

    assert judge(fetch=fetch, make_nonce=lambda: b"new", policy=RevocationPolicy.SOFT_FAIL)[0] == "revocation.revoked"


@pytest.mark.parametrize("is_revoked", [False, True], ids=["unchecked", "revoked"])
def test_a_revocation_counts_whatever_became_of_the_responder(certify, judge, base, issuing, leaf, is_revoked):
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING]), False
    responder = certify("Responder", issuing, extensions=(key_usage("digital_signature"), usage))
    lists = [make_crl(issuing, responder, at=AT - HOUR)] if is_revoked else []
    answers = {
        status: make_ocsp(leaf, issuing, at=AT - HOUR, status=status, responder=responder) for status in (REVOKED, GOOD)
    }
    strict = {"require_responder_status": True}
    assert judge(*lists, answers[REVOKED], **strict)[0] == "revocation.revoked"
    assert judge(*lists, answers[GOOD], **strict)[0] == (None if is_revoked else "revocation.unknown")


def test_openssl_finds_the_same_certificate_revoked(tmp_path, judge, root, issuing, leaf):
    # OpenSSL looks for a delta list only if the complete list has a freshestCRL extension; versions differ in all other cases.
    at = x509.DistributionPoint([x509.UniformResourceIdentifier("http://crl.example.com/")], None, None, None)
    numbered = (x509.CRLNumber(1), False), (x509.FreshestCRL([at]), False)
    base = make_crl(issuing, at=AT - 2 * HOUR, lasts=30 * DAY, extensions=numbered)
    newer = {"at": AT - HOUR, "when": AT - HOUR, "lasts": 30 * DAY}
    delta = make_crl(issuing, leaf, extensions=[DELTA, (x509.CRLNumber(2), False)], **newer)
    made = {"leaf": leaf.certificate, "issuing": issuing.certificate, "root": root.certificate, "base": base}
    for name, one in {**made, "delta": delta}.items():
        (tmp_path / name).write_bytes(one.x509.public_bytes(Encoding.PEM))
    anchors = ("-attime", str(int(AT.timestamp())), "-CAfile", "root", "-untrusted", "issuing")
    command = [needed("openssl"), "verify", *anchors, "-crl_check", "-use_deltas", "-CRLfile", "base"]
    for more, answers, code in (
        ((), (base,), None),
        (("-CRLfile", "delta"), (base, delta), "revocation.revoked"),
    ):
        done = subprocess.run([*command, *more, "leaf"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (code is None), done.stderr
        assert judge(*answers)[0] == code
