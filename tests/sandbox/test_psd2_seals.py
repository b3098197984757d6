"""The seal on an initiation: what the bank refuses, and with which code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from raw_provider import PAYMENT, RawProvider, altered, assert_refused
from sealing import seal_by_hand

from tppkit.httpsig import make_digest
from tppkit.sandbox import SandboxServer
from tppkit.seals import Message
from tppkit.testpki import Issued, Pki, make_pki

Change = Callable[[Message], Message]


def without(name: str) -> Change:
    return lambda message: altered(message, headers=tuple(h for h in message.headers if h[0].lower() != name.lower()))


def with_value(name: str, change: Callable[[str], str]) -> Change:
    def changed(message: Message) -> Message:
        headers = tuple((n, change(v) if n.lower() == name.lower() else v) for n, v in message.headers)
        return altered(message, headers=headers)

    return changed


def test_a_sealed_payment_is_taken(tpp: RawProvider) -> None:
    response = tpp.initiate()
    assert response.status_code == 201
    assert response.json()["transactionStatus"] == "RCVD"
    assert response.headers["x-request-id"] == response.request.headers["x-request-id"]


def test_a_payment_without_a_seal_is_refused(tpp: RawProvider) -> None:
    assert_refused(tpp.send(tpp.message()), 401, "SIGNATURE_MISSING")


@pytest.mark.parametrize("header", ["Digest", "Signature", "TPP-Signature-Certificate"])
def test_a_payment_without_one_part_of_the_seal_is_refused(header: str, tpp: RawProvider) -> None:
    assert_refused(tpp.send(without(header)(tpp.sealed(tpp.message()))), 401, "SIGNATURE_MISSING")


@pytest.mark.parametrize(
    "change",
    [
        lambda message: altered(message, body=message.body.replace(b"12.50", b"99.50")),
        lambda message: altered(message, body=message.body + b" "),
        lambda message: altered(message, body=b""),
        lambda message: altered(message, target=message.target.replace("sepa", "instant-sepa")),
        lambda message: altered(message, target=message.target + "?x=1"),
        with_value("x-request-id", lambda _: str(uuid4())),
        with_value("digest", lambda value: value.replace("SHA-256", "SHA-512")),
        with_value("digest", lambda _: "MD5=XrY7u+Ae7tCTyyK7j1rNww=="),
        with_value("signature", lambda value: value.replace('signature="', 'signature="AAAA')),
        with_value("signature", lambda value: value.replace("digest ", "")),
        with_value("signature", lambda value: value.replace("x-request-id ", "")),
        with_value("signature", lambda value: value.replace(" (request-target)", "")),
        with_value("signature", lambda value: value.replace("SN=", "SN=1")),
        with_value("signature", lambda value: value.replace("ecdsa-sha256", "rsa-sha256")),
        with_value("signature", lambda value: value.replace("ecdsa-sha256", "none")),
        with_value("signature", lambda value: value + ',keyId="SN=1,CA=CN=x"'),
        with_value("signature", lambda _: "garbage"),
    ],
    ids=[
        "amount", "space behind the body", "no body", "product", "query", "request id", "digest algorithm", "weak digest",
        "signature", "digest uncovered", "request id uncovered", "target uncovered", "key id", "algorithm", "no algorithm",
        "parameter twice", "no parameters",
    ],
)  # fmt: skip
def test_what_was_changed_after_sealing_is_refused(change: Change, tpp: RawProvider) -> None:
    assert_refused(tpp.send(change(tpp.sealed(tpp.message()))), 401, "SIGNATURE_INVALID")


@pytest.mark.parametrize("header", ["Digest", "Signature", "TPP-Signature-Certificate"])
def test_a_part_of_the_seal_that_stands_twice_is_refused(header: str, tpp: RawProvider) -> None:
    sealed = tpp.sealed(tpp.message())
    assert_refused(tpp.send(sealed.with_headers((header, sealed.values(header)[0]))), 400, "FORMAT_ERROR")


def test_a_seal_of_another_organisation_is_refused(
    bank: SandboxServer, connect: Callable[..., RawProvider], second_provider: tuple[Issued, Issued]
) -> None:
    assert_refused(connect(bank, qseal=second_provider[1]).initiate(), 401, "SIGNATURE_INVALID")


def test_a_website_certificate_seals_nothing(tpp: RawProvider, bank_pki: Pki) -> None:
    assert_refused(tpp.send(seal_by_hand(tpp.message(), bank_pki.qwac)), 401, "CERTIFICATE_INVALID")


def test_a_seal_of_an_unknown_authority_is_refused(
    bank: SandboxServer, bank_pki: Pki, connect: Callable[..., RawProvider]
) -> None:
    foreign = make_pki(at=bank_pki.not_before, seed=12).qseal
    assert_refused(connect(bank, qseal=foreign).initiate(), 401, "CERTIFICATE_INVALID")


def test_an_expired_seal_is_refused(bank: SandboxServer, bank_pki: Pki, connect: Callable[..., RawProvider]) -> None:
    before = replace(bank_pki, not_before=bank_pki.not_before - timedelta(days=31), days=10)
    expired = before.issue_qseal(bank_pki.provider, label="expired-qseal")
    assert_refused(connect(bank, qseal=expired).initiate(), 401, "CERTIFICATE_EXPIRED")


def test_the_signature_of_one_request_does_not_fit_another(tpp: RawProvider) -> None:
    first, second = (tpp.sealed(tpp.message()) for _ in range(2))
    stolen = with_value("signature", lambda _: first.values("signature")[0])(second)
    assert_refused(tpp.send(stolen), 401, "SIGNATURE_INVALID")


@pytest.mark.parametrize(("algorithm", "status"), [("SHA-512", 401), ("SHA-512,SHA-256", 201), ("sha-256", 201)])
def test_the_digest_must_be_by_sha_256_whatever_stands_beside_it(
    algorithm: str, status: int, tpp: RawProvider, bank_pki: Pki
) -> None:
    message = tpp.message()
    digest = make_digest(message.body, algorithm=algorithm)
    response = tpp.send(seal_by_hand(message, bank_pki.qseal, digest=digest))
    assert response.status_code == status
    if status == 401:
        assert_refused(response, 401, "SIGNATURE_INVALID")
        assert "the profile psd2-v1 demands SHA-256, as in Digest: SHA-256=<base64>" in response.text


@pytest.mark.parametrize("space", [" ", "\t"])
def test_white_space_before_the_equals_sign_hides_no_algorithm(space: str, tpp: RawProvider, bank_pki: Pki) -> None:
    message = tpp.message()
    digest = f"SHA-256{space}=x,{make_digest(message.body, algorithm='SHA-512')}"
    assert_refused(tpp.send(seal_by_hand(message, bank_pki.qseal, digest=digest)), 401, "SIGNATURE_INVALID")


def test_header_names_in_any_case_are_taken(tpp: RawProvider) -> None:
    sealed = tpp.sealed(tpp.message(PAYMENT))
    shouted = altered(sealed, headers=tuple((name.upper(), value) for name, value in sealed.headers))
    assert tpp.send(shouted).status_code == 201
