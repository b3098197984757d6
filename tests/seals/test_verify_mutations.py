"""No byte that was signed can change, and no message whatever makes the verifier fail otherwise than by a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from hypothesis import given
from hypothesis import strategies as st
from sealing import (
    AT,
    COVERED,
    TEMPLATE,
    changed,
    flips,
    fresh_policy,
    header,
    policy_of,
    request_for,
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
    forged = [changed(case.sealed, body=body) for body in bodies]
    assert {verdict(message, case.policy) for message in forged} == {"digest.mismatch"}
    values = flips(header(case.sealed, "Signature"))
    held = those_that_hold(case, (with_value(case.sealed, "Signature", value) for value in values))
    # A name is as good in another case where it is compared as a name: in the issuer within keyId, which is a hint.
    for message in held:
        value, original = header(message, "Signature"), header(case.sealed, "Signature")
        assert value.casefold() == original.casefold()
        assert value.partition('",algorithm=')[2] == original.partition('",algorithm=')[2]


def test_method_and_target_cannot_change_or_are_not_shown(case):
    forged = [changed(case.sealed, target=target) for target in flips(case.sealed.target)]
    forged += [changed(case.sealed, method=method) for method in ("GET", *flips(case.sealed.method))]
    if case.row.covers_target:
        assert those_that_hold(case, iter(forged)) == []
        assert case.verified.target == case.sealed.target
    else:
        assert not case.verified.covers_target
        for name in ("method", "target"):
            with pytest.raises(Exception, match="does not cover method and target"):
                getattr(case.verified, name)
