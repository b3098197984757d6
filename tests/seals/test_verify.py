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
from tppkit.httpsig import Message
from tppkit.seals import Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki


def test_a_sealed_request_verifies_and_says_what_was_proven(sealed: Message, pki: Pki, policy: SealPolicy) -> None:
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


def test_covered_holds_the_covered_headers_and_nothing_else(sealed: Message, policy: SealPolicy) -> None:
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    assert dict(verified.covered) == {"digest": header(sealed, "Digest"), "x-request-id": REQUEST_ID}


def test_covered_holds_a_further_header_when_it_was_signed(pki: Pki, policy: SealPolicy) -> None:
    sealed = seal_by_hand(REQUEST, pki.qseal, covered=(*COVERED, "psu-ip-address"))
    assert verify_request(sealed, qwac=None, at=AT, policy=policy).covered["psu-ip-address"] == "192.0.2.7"


def test_a_covered_list_header_is_joined_in_wire_order(pki: Pki, policy: SealPolicy) -> None:
    request = REQUEST.with_headers(("PSU-Accept", "b"), ("psu-accept", " a\t"))
    sealed = seal_by_hand(request, pki.qseal, covered=(*COVERED, "psu-accept"))
    assert verify_request(sealed, qwac=None, at=AT, policy=policy).covered["psu-accept"] == "b, a"


def test_white_space_around_a_covered_value_is_not_part_of_it(sealed: Message, policy: SealPolicy) -> None:
    padded = with_value(sealed, "X-Request-ID", f" {REQUEST_ID}\t")
    verified = verify_request(padded, qwac=None, at=AT, policy=policy)
    assert verified.covered["x-request-id"] == verified.request_id == REQUEST_ID


def test_covered_cannot_be_changed(sealed: Message, policy: SealPolicy) -> None:
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    with pytest.raises(TypeError):
        verified.covered["psu-id"] = "x"  # type: ignore[index]
    with pytest.raises(AttributeError):
        verified.qwac = None  # type: ignore[misc]


def test_without_a_connection_the_result_says_that_there_was_no_qwac(sealed: Message, policy: SealPolicy) -> None:
    assert verify_request(sealed, qwac=None, at=AT, policy=policy).qwac is None


def test_the_result_gives_the_time_of_judgement_in_utc(sealed: Message, policy: SealPolicy) -> None:
    at = AT.astimezone(timezone(timedelta(hours=3)))
    assert verify_request(sealed, qwac=None, at=at, policy=policy).at.tzinfo is UTC


def test_a_time_without_zone_is_refused_as_the_callers_mistake(sealed: Message, policy: SealPolicy) -> None:
    with refused(ConfigurationError, "time.naive"):
        verify_request(sealed, qwac=None, at=datetime(2026, 6, 1), policy=policy)


def test_a_request_without_body_has_the_digest_of_no_bytes(seal: Seal, policy: SealPolicy) -> None:
    sealed = sign_request(changed(REQUEST, body=b""), seal=seal)
    assert header(sealed, "Digest") == "SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    assert verdict(sealed, policy) == "holds"


def test_header_names_are_accepted_in_any_case(sealed: Message, policy: SealPolicy) -> None:
    loud = changed(sealed, headers=[(name.upper(), value) for name, value in sealed.headers])
    assert verdict(loud, policy) == "holds"


def test_the_order_of_headers_does_not_matter(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(changed(sealed, headers=sealed.headers[::-1]), policy) == "holds"


def test_an_uncovered_header_may_change(sealed: Message, policy: SealPolicy) -> None:
    assert verdict(without(sealed, "PSU-IP-Address"), policy) == "holds"
