"""A server that reads bodies in pieces verifies the head first, and gives the body out when it is proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sealing import (
    AT,
    REQUEST,
    REQUEST_ID,
    TARGET,
    changed,
    fresh_policy,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
)

from refusals import refused
from tppkit.errors import FormatError, SignatureRejected
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


def head_of(message: Message, policy: SealPolicy) -> VerifiedHead:
    return verify_request_head(changed(message, body=b""), qwac=None, at=AT, policy=policy)


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
        require_body(make_digest(REQUEST.body), REQUEST.body, PROFILES["amazon"])


def test_the_rules_for_no_body_are_the_same_in_halves(pki):
    braces = replace(PSD2_V1, empty_body=EmptyBody.BRACES)
    for method in ("GET", "POST"):
        sealed = sign_request(changed(REQUEST, method=method, body=b""), seal=seal_of(braces, pki.qseal))
        assert head_of(sealed, policy_of(braces, pki)).verify_body(b"").body == b""
    absent = PROFILES["chebanca"]
    sealed = sign_request(request_for(absent, body=b""), seal=seal_of(absent, pki.qseal))
    head = head_of(sealed, policy_of(absent, pki))
    assert head.verify_body(b"").body == b""
    assert refusal(head, b"smuggled") == "signature.uncovered"
