"""No signed byte can change, no message makes the verifier fail but by a refusal, and a policy that remembers gives the same verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    COVERED,
    REQUEST,
    TEMPLATE,
    flips,
    fresh_policy,
    header,
    issue_seal,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
    with_value,
)

from tppkit._encoding import decode_base64, encode_base64
from tppkit.message import Message
from tppkit.seals import PROFILES, SealPolicy, SealProfile, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki

# A mutated certificate may have a negative serial number, of which `cryptography` warns.
pytestmark = pytest.mark.filterwarnings(
    f"ignore::{CryptographyDeprecationWarning.__module__}.CryptographyDeprecationWarning"
)


@pytest.fixture(scope="module")
def warmed(pki: Pki, sealed: Message) -> SealPolicy:
    policy = fresh_policy(pki)
    assert verdict(sealed, policy) == "holds"
    return policy


def test_the_order_of_what_is_covered_cannot_change(sealed, warmed):
    other = header(sealed, "Signature").replace(" ".join(COVERED), " ".join(reversed(COVERED)))
    assert verdict(with_value(sealed, "Signature", other), warmed) == "signature.invalid"


def test_no_byte_that_the_authority_signed_can_change(pki, sealed, warmed):
    name, original = "TPP-Signature-Certificate", pki.qseal.certificate.x509.tbs_certificate_bytes
    for value in list(flips(header(sealed, name)))[::3]:
        if verdict(with_value(sealed, name, value), warmed) == "holds":
            raw = decode_base64(value, what="certificate")
            # What is left is the spelling of the authority's own signature, for example its count of unused bits.
            assert x509.load_der_x509_certificate(raw).tbs_certificate_bytes == original


FIELDS = ("Digest", "Signature", "TPP-Signature-Certificate", "X-Request-ID", "Content-Type", "PSU-ID")
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet='",= \t\n\x00SN=CA()éabc+/', max_size=60),
    st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")),
    st.binary(max_size=60).map(encode_base64),
    st.binary(min_size=32, max_size=32).map(lambda raw: f"SHA-256={encode_base64(raw)}"),
    st.builds(
        TEMPLATE.format,
        key_id=st.text(max_size=20) | st.just("SN=1,CA=CN=A"),
        algorithm=st.sampled_from(["ecdsa-sha256", "rsa-sha256", "x"]),
        headers=st.lists(st.sampled_from([*COVERED, "psu-id", "(created)", "X", ""])).map(" ".join),
        signature=st.binary(max_size=80).map(encode_base64),
    ),
)


@given(data=st.data())
def test_an_arbitrary_message_is_refused_and_nothing_else(data, sealed, warmed):
    good = dict(sealed.headers)
    fields = st.sampled_from(FIELDS) | st.text(max_size=10)
    values = HOSTILE | st.sampled_from(sorted(good.values()))
    headers = data.draw(st.lists(st.tuples(fields, values), max_size=8))
    message = Message(data.draw(st.text(max_size=6)), data.draw(st.text(max_size=30)), tuple(headers), b"{}")
    assert verdict(message, warmed) != "holds"


@given(name=st.sampled_from(FIELDS[:4]), value=HOSTILE)
def test_a_hostile_header_in_a_good_message_is_refused_and_nothing_else(name, value, sealed, warmed):
    assert verdict(with_value(sealed, name, value), warmed) != "holds"


@given(
    method=st.text(max_size=8),
    target=st.binary(max_size=40),
    headers=st.lists(
        st.tuples(st.sampled_from([name.encode() for name in FIELDS]) | st.binary(), st.binary()), max_size=6
    ),
    body=st.binary(),
)
def test_arbitrary_bytes_from_the_wire_are_refused_and_nothing_else(method, target, headers, body, sealed, warmed):
    wire = [(name.encode(), value.encode("latin-1")) for name, value in sealed.headers]
    assert verdict(Message.from_wire(method, target, headers, body), warmed) != "holds"
    assert verdict(Message.from_wire(method, target, [*wire, *headers], body), warmed) != "holds"


@given(position=st.integers(0), byte=st.integers(0, 255))
def test_a_damaged_certificate_is_refused_and_nothing_else(position, byte, pki, sealed, warmed):
    der = bytearray(pki.qseal.certificate.der)
    end = len(der) - 80  # before the authority's signature
    if der[position % end] != byte:
        der[position % end] = byte
        value = encode_base64(bytes(der))
        assert verdict(with_value(sealed, "TPP-Signature-Certificate", value), warmed) != "holds"


# What a request may carry besides; some of it is covered by one dialect and not by another.
FURTHER = (
    ("PSU-ID", "psu-4711"), ("TPP-Redirect-URI", "https://tpp.example/back?a=%2F"), ("PSU-IP-Address", "192.0.2.7"),
    ("Authorization", "Bearer x"), ("Consent-ID", "c-1"), ("X-Forwarded-Host", "evil.example"), ("Accept", "*/*"),
)  # fmt: skip


class Case(NamedTuple):
    row: SealProfile
    sealed: Message
    policy: SealPolicy
    verified: VerifiedRequest


@pytest.fixture(scope="module", params=["psd2-v1", "berlin-group", "cavage-12"])
def case(request: pytest.FixtureRequest, pki: Pki) -> Case:
    row = PROFILES[request.param]
    sealed = sign_request(request_for(row).with_headers(*FURTHER), seal=seal_of(row, pki.qseal), at=AT)
    policy = policy_of(row, pki)
    return Case(row, sealed, policy, verify_request(sealed, qwac=None, at=AT, policy=policy))


def those_that_hold(case: Case, forged: Iterator[Message]) -> list[Message]:
    return [message for message in forged if verdict(message, case.policy) == "holds"]


def test_the_verified_view_has_what_its_dialect_covers_and_nothing_else(case):
    expected = {
        "psd2-v1": {"digest", "x-request-id"},
        "berlin-group": {"digest", "x-request-id", "psu-id", "tpp-redirect-uri"},
        "cavage-12": {"digest", "x-request-id"},
    }
    assert case.verified.covered.keys() == expected[case.row.name]
    sealing = {"signature", "tpp-signature-certificate"}
    uncovered = {name.lower() for name, _ in case.sealed.headers} - case.verified.covered.keys() - sealing
    assert uncovered
    for name in uncovered:
        other = with_value(case.sealed, name, "forged")
        verified = verify_request(other, qwac=None, at=AT, policy=case.policy)
        assert verified.covered == case.verified.covered
        assert "forged" not in repr([*verified.covered.items(), verified.signing_string, verified.parameters])
        assert name not in verified.covered


def test_no_byte_of_a_covered_header_the_body_or_the_signature_header_can_change(case):
    for name in case.verified.covered:
        values = flips(header(case.sealed, name))
        assert those_that_hold(case, (with_value(case.sealed, name, value) for value in values)) == []
    bodies = (text.encode("latin-1") for text in flips(case.sealed.body.decode("latin-1")))
    forged = [case.sealed._replace(body=body) for body in bodies]
    assert {verdict(message, case.policy) for message in forged} == {"digest.mismatch"}
    values = flips(header(case.sealed, "Signature"))
    held = those_that_hold(case, (with_value(case.sealed, "Signature", value) for value in values))
    # A name is as good in another case where it is compared as a name: in the issuer within keyId, which is a hint.
    for message in held:
        value, original = header(message, "Signature"), header(case.sealed, "Signature")
        assert value.casefold() == original.casefold()
        assert value.partition('",algorithm=')[2] == original.partition('",algorithm=')[2]


def test_method_and_target_cannot_change_or_are_not_shown(case):
    forged = [case.sealed._replace(target=target) for target in flips(case.sealed.target)]
    forged += [case.sealed._replace(method=method) for method in ("GET", *flips(case.sealed.method))]
    if case.row.covers_target:
        assert those_that_hold(case, iter(forged)) == []
        assert case.verified.target == case.sealed.target
    else:
        assert not case.verified.covers_target
        for name in ("method", "target"):
            with pytest.raises(Exception, match="does not cover method and target"):
                getattr(case.verified, name)


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
def knowing(pki: Pki, known: list[Message]) -> SealPolicy:
    return warmed_policy(pki, *known, *known)


def same_verdict(message: Message, pki: Pki, knowing: SealPolicy, at: datetime = AT) -> str:
    """The verdict of both policies, which is the same."""
    fresh = verdict(message, fresh_policy(pki), qwac=pki.qwac.certificate, at=at)
    assert verdict(message, knowing, qwac=pki.qwac.certificate, at=at) == fresh
    return fresh


def test_the_same_parameters_hold_again_for_another_request(pki, seal, sealed):
    policy = warmed_policy(pki, sealed)
    other = sign_request(REQUEST._replace(body=b"{}", target="/psd2/v1/consents"), seal=seal)
    assert same_verdict(other, pki, policy) == "holds"


PIECES = (
    '"', ",", "=", " ", "\n", "A", ',signature="', 'signature="AAAA"', ',x="1"', ",x=1", ',x="', "keyId", '",', '"x', "digest ",
    " digest", "(created)", "rsa-sha256", "%20", "\x00", "é",
)  # fmt: skip
EDITS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.sampled_from(PIECES) | st.just("")), max_size=3)


@given(
    index=st.integers(0, len(TEMPLATES) - 1), name=st.sampled_from(["Signature", "Digest", CERTIFICATE]), edits=EDITS
)
def test_an_edited_header_gets_the_verdict_of_a_fresh_policy(index, name, edits, pki, known, knowing):
    value = header(known[index], name)
    for position, length, piece in edits:
        place = position % (len(value) + 1)
        value = value[:place] + piece + value[place + length :]
    same_verdict(with_value(known[index], name, value), pki, knowing)


def test_another_key_id_or_certificate_beside_a_known_one_is_compared(pki, sealed, knowing, other_qseal):
    for key_id, code in (("SN=1,CA=CN=other", "mismatch"), ("", "malformed"), ("https://a.example/pem", "malformed")):
        message = seal_by_hand(REQUEST, pki.qseal, key_id=key_id)
        assert same_verdict(message, pki, knowing) == f"key-id.{code}"
    assert same_verdict(sealed, pki, knowing) == "holds"
    key = ec.generate_private_key(ec.SECP256R1())
    forged = issue_seal(pki, key.public_key(), serial=pki.qseal.certificate.serial)
    swapped = with_value(sealed, CERTIFICATE, encode_base64(forged.der))
    assert same_verdict(swapped, pki, knowing) == "signature.invalid"
    policy = warmed_policy(pki, sealed, seal_by_hand(REQUEST, other_qseal))
    swapped = with_value(sealed, CERTIFICATE, encode_base64(other_qseal.certificate.der))
    assert same_verdict(swapped, pki, policy) == "key-id.mismatch"


def test_a_seal_is_compared_with_the_organisation_of_every_connection_and_no_refusal_is_remembered(
    pki, sealed, other_qseal
):
    policy = warmed_policy(pki, seal_by_hand(REQUEST, other_qseal))
    message = seal_by_hand(REQUEST._replace(body=b"{}"), other_qseal)
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
        assert verdict(sealed._replace(body=body), policy) == "digest.mismatch"
    assert len(policy.remembered) == 1


def test_the_memory_is_bounded_in_certificates(pki, sealed):
    policy = warmed_policy(pki, sealed)
    for number in range(300):
        issued = pki.issue_qseal(pki.provider, label=f"seal-{number}")
        assert verdict(seal_by_hand(REQUEST, issued, template=SIGNATURE_FIRST), policy) == "holds"
        assert len(policy.remembered) <= 256
    assert verdict(sealed, policy) == "holds"
    assert header(sealed, CERTIFICATE) in policy.remembered
