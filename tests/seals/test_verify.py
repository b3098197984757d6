"""What a verified request proves, and what is refused: headers, coverage, digest, signature; whole or in halves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sealing import (
    AT,
    COVERED,
    REQUEST,
    REQUEST_ID,
    TARGET,
    TEMPLATE,
    fresh_policy,
    header,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
    with_value,
    without,
)

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig import make_digest
from tppkit.message import Message
from tppkit.seals import (
    PROFILES,
    EmptyBody,
    SealPolicy,
    VerifiedHead,
    VerifiedRequest,
    sign_request,
    verify_request,
    verify_request_head,
)
from tppkit.seals.profiles import PSD2_V1
from tppkit.seals.verified import require_body
from tppkit.testpki import Issued


def test_a_sealed_request_verifies_and_says_what_was_proven(sealed, pki, policy):
    verified = verify_request(sealed, qwac=pki.qwac.certificate, at=AT, policy=policy)
    assert (verified.method, verified.target, verified.body) == ("POST", TARGET, REQUEST.body)
    assert verified.request_id == REQUEST_ID
    assert verified.seal.der == pki.qseal.certificate.der
    assert verified.organization_identifier == "PSDLT-BL-LB000000"
    assert [link.der for link in verified.chain] == [
        issued.certificate.der for issued in (pki.qseal, pki.qseal_ca, pki.root)
    ]
    assert verified.qwac is pki.qwac.certificate
    assert (verified.at, verified.profile.name) == (AT, "psd2-v1")


@pytest.mark.parametrize(
    ("further", "covered"),
    [
        ((), {}),
        ((("PSU-ID", "x"),), {"psu-id": "x"}),
        ((("PSU-Accept", "b"), ("psu-accept", " a\t")), {"psu-accept": "b, a"}),  # in the order on the wire
    ],
)
def test_covered_holds_the_covered_headers_and_nothing_else_and_cannot_be_changed(further, covered, pki, policy):
    sealed = seal_by_hand(REQUEST.with_headers(*further), pki.qseal, covered=(*COVERED, *covered))
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    assert verified.covered == {"digest": header(sealed, "Digest"), "x-request-id": REQUEST_ID, **covered}
    with pytest.raises(TypeError):
        verified.covered["psu-id"] = "x"  # type: ignore[index]
    with pytest.raises(AttributeError):
        verified.qwac = None  # type: ignore[misc]


def test_a_time_without_zone_is_refused_as_the_callers_mistake(sealed, policy):
    with refused(ConfigurationError, "time.naive"):
        verify_request(sealed, qwac=None, at=datetime(2026, 6, 1), policy=policy)


@pytest.mark.parametrize(
    "change",
    [
        lambda sealed: sealed._replace(headers=tuple([(name.upper(), value) for name, value in sealed.headers])),
        lambda sealed: sealed._replace(headers=sealed.headers[::-1]),
        lambda sealed: with_value(sealed, "X-Request-ID", f" {REQUEST_ID}\t"),
        lambda sealed: without(sealed, "PSU-IP-Address"),
    ],
    ids=["case of names", "order", "white space around a value", "an uncovered header"],
)
def test_what_the_signature_does_not_cover_may_change(change, sealed, policy):
    verified = verify_request(change(sealed), qwac=None, at=AT.astimezone(timezone(timedelta(hours=3))), policy=policy)
    assert verified.covered["x-request-id"] == verified.request_id == REQUEST_ID
    assert (verified.qwac, verified.at, verified.at.tzinfo) == (None, AT, UTC)


SINGLETONS = (
    "digest", "signature", "x-request-id", "content-type", "content-length", "host", "date", "authorization",
    "tpp-signature-certificate",
)  # fmt: skip


def twice(message: Message, name: str) -> Message:
    value = (message.values(name) or ("x",))[0]
    return without(message, name).with_headers((name.upper(), value), (name, value))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *((lambda sealed, name=name: without(sealed, name), "signature.missing")
          for name in ("Digest", "Signature", "TPP-Signature-Certificate")),
        *((lambda sealed, name=name: twice(sealed, name), "header.duplicate") for name in SINGLETONS),
        (lambda sealed: sealed._replace(target="/elsewhere").with_headers(("(request-target)", f"post {TARGET}")), "header.duplicate"),
    ],
)  # fmt: skip
def test_a_header_of_the_seal_is_there_once(change, code, sealed, policy):
    assert verdict(change(sealed), policy) == code


UNKNOWN = {
    "(status)": "covered-names",
    "()": "covered-names",
    "(created)": "missing-parameter",
    "(expires)": "missing-parameter",
}


@pytest.mark.parametrize(
    ("request_", "covered", "code"),
    [
        *((REQUEST, [other for other in COVERED if other != name], "signature.uncovered") for name in COVERED),
        *((REQUEST.with_headers((name, "1402170695")), (*COVERED, name), f"signature.{code}") for name, code in UNKNOWN.items()),
        (REQUEST._replace(target="/a\nb"), COVERED, "message.malformed"),
        (REQUEST._replace(method="post", target="/a"), COVERED, "message.malformed"),
    ],
)  # fmt: skip
def test_a_signature_covers_neither_too_little_nor_what_could_not_be_there(request_, covered, code, pki, policy):
    assert verdict(seal_by_hand(request_, pki.qseal, covered=covered), policy) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *((value, "digest.malformed") for value in ("", "SHA-256", "SHA-256=AAAA", "SHA-256=" + "A" * 2000)),
        *(
            (value, "holds")
            for value in ("MD5=AAAA,SHA-256={good}", "SHA-512={long}, sha-256={good}", "SHA-256={good} ")
        ),
        ("id-sha-256={good}", "digest.algorithm"),
        ("MD5=HUXZLQLMuI/KZ5KDcJPcOA==", "digest.algorithm"),
        ("sha-1=thvDyvhfIqlvFe+A9MYgxAfm1q5=", "digest.algorithm"),
        *((value, "digest.algorithm") for value in ("SHA-512={long}", "SHA-256X={good},SHA-512={long}")),
        *((f"SHA-256={{good}},{name}={{good}}", "digest.duplicate-algorithm") for name in ("SHA-256", "sha-256")),
        ("SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "digest.mismatch"),
        ("SHA-256={good},SHA-512=" + "A" * 86 + "==", "digest.mismatch"),
        ("sha-256=:{good}:", "base64.malformed"),
        ("SHA-256={stray}", "base64.noncanonical"),
    ],
)
def test_a_digest_under_a_good_signature_is_judged_for_itself(value, code, pki, policy):
    good = header(seal_by_hand(REQUEST, pki.qseal), "Digest").removeprefix("SHA-256=")
    long = make_digest(REQUEST.body, algorithm="SHA-512").removeprefix("SHA-512=")
    stray = good[:-2] + chr(ord(good[-2]) + 1) + "="
    sealed = seal_by_hand(REQUEST, pki.qseal, digest=value.format(good=good, long=long, stray=stray))
    assert verdict(sealed, policy) == code


SPOILT_BASE64 = [
    (lambda text: text[:-4] + "\n" + text[-4:], {"base64.malformed", "signature.malformed"}),
    (lambda text: text[:8] + " " + text[8:], {"base64.malformed"}),
    (lambda text: text.rstrip("="), {"base64.malformed", "base64.noncanonical"}),
    (lambda text: text + "=", {"base64.malformed", "base64.noncanonical"}),
    (lambda text: text + "AAAA", {"base64.malformed", "base64.noncanonical"}),
    (lambda text: "-" + text[1:], {"base64.malformed"}),
    (lambda text: "_" + text[1:], {"base64.malformed"}),
    (lambda text: "é" + text[1:], {"base64.malformed"}),
    (lambda text: text[:-2] + chr(ord(text[-2]) + 1) + "=", {"base64.noncanonical"}),
]


def padded(issued: Issued) -> Message:
    """A sealed request whose signature's base64 ends with one `=`."""
    for attempt in range(400):
        sealed = seal_by_hand(REQUEST._replace(body=b"%d" % attempt), issued)
        text = header(sealed, "Signature").rpartition('signature="')[2][:-1]
        if text.endswith("=") and not text.endswith("=="):
            return sealed
    raise AssertionError("no signature of that length")


@pytest.mark.parametrize(("spoil", "codes"), SPOILT_BASE64)
def test_signature_and_certificate_are_read_as_canonical_base64_only(spoil, codes, pki, sealed, policy):
    message, name = padded(pki.qseal), "TPP-Signature-Certificate"
    head, mark, last = header(message, "Signature").rpartition('signature="')
    assert verdict(with_value(message, "Signature", f'{head}{mark}{spoil(last[:-1])}"'), policy) in codes
    text = header(sealed, name).rstrip("=")
    text = text[: len(text) // 4 * 4 - 2] + "A="
    assert verdict(with_value(sealed, name, spoil(text)), policy) in codes


@pytest.mark.parametrize(
    ("kind", "algorithms"),
    [
        ("ec", ["rsa-sha256", "ecdsa-sha384", "ecdsa-sha512", "hs2019", "", "SHA256withECDSA", "ES256", "ECDSA-SHA256", "ecdsa-sha256 "]),
        ("rsa", ["ecdsa-sha256", "hmac-sha256", "rsa-sha1", "rsa-sha384", "hs2019", "rsa-pss-sha256", "SHA256withRSA", "RSA-SHA256"]),
    ],
)  # fmt: skip
def test_a_key_signs_with_its_own_algorithms_only(kind, algorithms, pki, rsa_pki):
    one = {"ec": pki, "rsa": rsa_pki}[kind]
    for algorithm in algorithms:
        sealed = seal_by_hand(REQUEST, one.qseal, algorithm=algorithm)
        assert verdict(sealed, fresh_policy(one)) == "signature.algorithm", algorithm


def test_an_unknown_parameter_is_ignored(pki, policy):
    assert verdict(seal_by_hand(REQUEST, pki.qseal, template=TEMPLATE + ',created=1,note="x"'), policy) == "holds"


def head_of(message: Message, policy: SealPolicy) -> VerifiedHead:
    return verify_request_head(message._replace(body=b""), qwac=None, at=AT, policy=policy)


def refusal(head: VerifiedHead, body: bytes) -> str:
    with pytest.raises((SignatureRejected, FormatError)) as caught:
        head.verify_body(body)
    return caught.value.code


def test_both_halves_prove_what_the_whole_proves_and_the_head_alone_nothing_of_a_body(sealed, pki):
    policy, qwac = fresh_policy(pki), pki.qwac.certificate
    head = verify_request_head(sealed, qwac=qwac, at=AT, policy=policy)
    assert head.verify_body(sealed.body) == verify_request(sealed, qwac=qwac, at=AT, policy=policy)
    head = verify_request_head(sealed, qwac=None, at=AT, policy=policy)
    assert (head.method, head.target, head.request_id) == ("POST", TARGET, REQUEST_ID)
    assert head.organization_identifier == "PSDLT-BL-LB000000"
    assert not hasattr(head, "body")
    assert head.unverified_message.body == b""
    assert not isinstance(head, VerifiedRequest)


@pytest.mark.parametrize(
    "body",
    [b"", REQUEST.body[:-1], REQUEST.body + b"\n", REQUEST.body * 2, b"\x00" + REQUEST.body],
    ids=["none", "cut", "longer", "twice", "begun otherwise"],
)
def test_another_body_is_refused(body, sealed, policy):
    assert refusal(head_of(sealed, policy), body) == "digest.mismatch"


def test_a_head_without_a_valid_signature_or_a_readable_digest_is_refused_before_the_body(pki, other_qseal, policy):
    spoilt = seal_by_hand(REQUEST, pki.qseal, sign=lambda data: b"\x00")
    with refused(SignatureRejected, "signature.invalid"):
        head_of(spoilt, policy)
    theirs, qwac = seal_by_hand(REQUEST, other_qseal), pki.qwac.certificate
    with refused(SignatureRejected, "seal.other-organisation"):
        verify_request_head(theirs, qwac=qwac, at=AT, policy=policy)
    with refused(FormatError, "digest.malformed"):
        head_of(seal_by_hand(REQUEST, pki.qseal, digest="SHA-256=AAAA"), policy)


def test_every_digest_of_a_header_is_compared(pki, policy):
    good, other = make_digest(REQUEST.body), make_digest(b"other", algorithm="SHA-512")
    both = f"{good},{make_digest(REQUEST.body, algorithm='SHA-512')}"
    assert head_of(seal_by_hand(REQUEST, pki.qseal, digest=both), policy).verify_body(REQUEST.body)
    head = head_of(seal_by_hand(REQUEST, pki.qseal, digest=f"{good},{other}"), policy)
    assert refusal(head, REQUEST.body) == "digest.mismatch"


def test_a_digest_in_the_form_of_another_format_is_refused():
    with refused(FormatError, "structured.malformed"):
        require_body(make_digest(REQUEST.body), REQUEST, PROFILES["amazon"])


def test_the_rules_for_no_body_are_the_same_in_halves(pki):
    braces = replace(PSD2_V1, empty_body=EmptyBody.BRACES)
    for method in ("GET", "POST"):
        sealed = sign_request(REQUEST._replace(method=method, body=b""), seal=seal_of(braces, pki.qseal))
        assert head_of(sealed, policy_of(braces, pki)).verify_body(b"").body == b""
    absent = PROFILES["chebanca"]
    sealed = sign_request(request_for(absent, body=b""), seal=seal_of(absent, pki.qseal))
    head = head_of(sealed, policy_of(absent, pki))
    assert head.verify_body(b"").body == b""
    assert refusal(head, b"smuggled") == "signature.uncovered"
