"""A policy that remembers gives the verdicts of one that has seen nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    COVERED,
    REQUEST,
    TEMPLATE,
    changed,
    fresh_policy,
    header,
    issue_seal,
    seal_by_hand,
    verdict,
    with_value,
)

from tppkit._encoding import encode_base64
from tppkit.message import Message
from tppkit.seals import SealPolicy, sign_request
from tppkit.testpki import Pki

CERTIFICATE = "TPP-Signature-Certificate"
SIGNATURE_FIRST = 'signature="{signature}",keyId="{key_id}",algorithm="{algorithm}",headers="{headers}"'
TEMPLATES = (
    TEMPLATE,
    TEMPLATE.replace(",", ", "),
    SIGNATURE_FIRST,
    TEMPLATE + ',created=1402170695,note="x"',
    TEMPLATE + ',note="x,signature="',
    'note="x",' + TEMPLATE,
    'note="x,signature=",' + TEMPLATE,
)


def warmed_policy(pki: Pki, *messages: Message) -> SealPolicy:
    policy = fresh_policy(pki)
    assert {verdict(message, policy) for message in messages} == {"holds"}
    return policy


@pytest.fixture(scope="module")
def known(pki: Pki) -> list[Message]:
    """A good message for every way of writing the parameters."""
    return [seal_by_hand(REQUEST, pki.qseal, template=template) for template in TEMPLATES]


@pytest.fixture(scope="module")
def warmed(pki: Pki, known: list[Message]) -> SealPolicy:
    return warmed_policy(pki, *known, *known)


def same_verdict(message: Message, pki: Pki, warmed: SealPolicy, at: datetime = AT) -> str:
    """The verdict of both policies, which is the same."""
    fresh = verdict(message, fresh_policy(pki), qwac=pki.qwac.certificate, at=at)
    assert verdict(message, warmed, qwac=pki.qwac.certificate, at=at) == fresh
    return fresh


def test_the_same_parameters_hold_again_for_another_request(pki, seal, sealed):
    policy = warmed_policy(pki, sealed)
    other = sign_request(changed(REQUEST, body=b"{}", target="/psd2/v1/consents"), seal=seal)
    assert same_verdict(other, pki, policy) == "holds"


PIECES = (
    '"', ",", "=", " ", "\n", "A", ',signature="', 'signature="AAAA"', ',x="1"', ",x=1", ',x="', "keyId", '",', '"x', "digest ",
    " digest", "(created)", "rsa-sha256", "%20", "\x00", "é",
)  # fmt: skip
EDITS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.sampled_from(PIECES) | st.just("")), max_size=3)


@given(
    index=st.integers(0, len(TEMPLATES) - 1), name=st.sampled_from(["Signature", "Digest", CERTIFICATE]), edits=EDITS
)
def test_an_edited_header_gets_the_verdict_of_a_fresh_policy(index, name, edits, pki, known, warmed):
    value = header(known[index], name)
    for position, length, piece in edits:
        place = position % (len(value) + 1)
        value = value[:place] + piece + value[place + length :]
    same_verdict(with_value(known[index], name, value), pki, warmed)


def test_another_key_id_or_certificate_beside_a_known_one_is_compared(pki, sealed, warmed, other_qseal):
    for key_id, code in (("SN=1,CA=CN=other", "mismatch"), ("", "malformed"), ("https://a.example/pem", "malformed")):
        message = seal_by_hand(REQUEST, pki.qseal, key_id=key_id)
        assert same_verdict(message, pki, warmed) == f"key-id.{code}"
    assert same_verdict(sealed, pki, warmed) == "holds"
    key = ec.generate_private_key(ec.SECP256R1())
    forged = issue_seal(pki, key.public_key(), serial=pki.qseal.certificate.serial)
    swapped = with_value(sealed, CERTIFICATE, encode_base64(forged.der))
    assert same_verdict(swapped, pki, warmed) == "signature.invalid"
    policy = warmed_policy(pki, sealed, seal_by_hand(REQUEST, other_qseal))
    swapped = with_value(sealed, CERTIFICATE, encode_base64(other_qseal.certificate.der))
    assert same_verdict(swapped, pki, policy) == "key-id.mismatch"


def test_a_seal_is_compared_with_the_organisation_of_every_connection_and_no_refusal_is_remembered(
    pki, sealed, other_qseal
):
    policy = warmed_policy(pki, seal_by_hand(REQUEST, other_qseal))
    message = seal_by_hand(changed(REQUEST, body=b"{}"), other_qseal)
    assert same_verdict(message, pki, policy) == "seal.other-organisation"
    policy, compared = fresh_policy(pki), "seal.other-organisation"
    for beside, code in ((pki.qwac, "holds"), (other_qseal, compared), (pki.qwac, "holds"), (other_qseal, compared)):
        assert verdict(sealed, policy, qwac=beside.certificate) == code
    policy = fresh_policy(pki)
    message = seal_by_hand(REQUEST, other_qseal)
    assert verdict(message, policy, qwac=pki.qwac.certificate) == "seal.other-organisation"
    assert same_verdict(message, pki, policy) == "seal.other-organisation"
    assert verdict(message, policy) == "holds"


def test_a_known_seal_is_refused_after_its_time_and_holds_again_within_it(pki, sealed):
    policy = warmed_policy(pki, sealed)
    day = timedelta(days=1)
    times = [
        AT + 400 * day,
        AT,
        AT - day,
        AT,
        AT + 4000 * day,
        pki.qseal.certificate.not_after,
        pki.qseal.certificate.not_before,
    ]
    verdicts = [same_verdict(sealed, pki, policy, at=at) for at in times]
    assert verdicts == [
        "certificate.expired", "holds", "certificate.not-yet-valid", "holds", "certificate.expired", "holds", "holds",
    ]  # fmt: skip


def test_refused_requests_leave_nothing_behind_but_a_head_that_holds_is_remembered(pki, sealed):
    policy = fresh_policy(pki)
    spoilt = seal_by_hand(REQUEST, pki.qseal, sign=lambda data: b"\x00")
    less = seal_by_hand(REQUEST, pki.qseal, covered=COVERED[:-1])
    for message, code in ((spoilt, "signature.invalid"), (less, "signature.uncovered")):
        assert verdict(message, policy) == code
        assert len(policy.remembered) == 0
    for body in (b"{}", b""):
        assert verdict(changed(sealed, body=body), policy) == "digest.mismatch"
    assert len(policy.remembered) == 1


def test_the_memory_is_bounded_in_certificates(pki, sealed):
    policy = warmed_policy(pki, sealed)
    for number in range(300):
        issued = pki.issue_qseal(pki.provider, label=f"seal-{number}")
        assert verdict(seal_by_hand(REQUEST, issued, template=SIGNATURE_FIRST), policy) == "holds"
        assert len(policy.remembered) <= 256
    assert verdict(sealed, policy) == "holds"
    assert header(sealed, CERTIFICATE) in policy.remembered
