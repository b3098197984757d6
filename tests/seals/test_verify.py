"""What a verified request says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sealing import (
    AT,
    COVERED,
    REQUEST,
    REQUEST_ID,
    TARGET,
    changed,
    header,
    seal_by_hand,
    verdict,
    with_value,
    without,
)

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.seals import sign_request, verify_request


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


def test_a_request_without_body_has_the_digest_of_no_bytes(seal, policy):
    sealed = sign_request(changed(REQUEST, body=b""), seal=seal)
    assert header(sealed, "Digest") == "SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert verdict(sealed, policy) == "holds"


@pytest.mark.parametrize(
    "change",
    [
        lambda sealed: changed(sealed, headers=[(name.upper(), value) for name, value in sealed.headers]),
        lambda sealed: changed(sealed, headers=sealed.headers[::-1]),
        lambda sealed: with_value(sealed, "X-Request-ID", f" {REQUEST_ID}\t"),
        lambda sealed: without(sealed, "PSU-IP-Address"),
    ],
    ids=["case of names", "order", "white space around a value", "an uncovered header"],
)
def test_what_the_signature_does_not_cover_may_change(change, sealed, policy):
    verified = verify_request(change(sealed), qwac=None, at=AT.astimezone(timezone(timedelta(hours=3))), policy=policy)
    assert verified.covered["x-request-id"] == verified.request_id == REQUEST_ID
    assert (verified.qwac, verified.at, verified.at.tzinfo) == (None, AT, UTC)
