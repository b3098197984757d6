"""Three dialects, every byte: what is covered cannot change, and what is not covered is not in the verified view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from sealing import AT, changed, flips, header, policy_of, request_for, seal_of, verdict, with_value

from tppkit.httpsig import Message
from tppkit.seals import PROFILES, SealPolicy, SealProfile, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki

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


def test_the_verified_view_has_what_its_dialect_covers_and_nothing_else(case: Case) -> None:
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


def test_no_byte_of_a_covered_header_the_body_or_the_signature_header_can_change(case: Case) -> None:
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


def test_method_and_target_cannot_change_or_are_not_shown(case: Case) -> None:
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
