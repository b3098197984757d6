"""The seal on an initiation: rejected seals and their codes. `tests/seals` has every way in which a seal fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from raw_provider import altered, assert_refused
from sealing import seal_by_hand

from tppkit.httpsig import make_digest
from tppkit.seals import Message
from tppkit.testpki import Issued, Pki, make_pki


def with_value(message: Message, name: str, change: Callable[[str], str]) -> Message:
    return altered(message, headers=tuple((n, change(v) if n.lower() == name else v) for n, v in message.headers))


def test_a_payment_without_a_seal_is_refused(tpp):
    assert_refused(tpp.send(tpp.message()), 401, "SIGNATURE_MISSING")


CHANGES: dict[str, Callable[[Message], Message]] = {
    "amount": lambda message: altered(message, body=message.body.replace(b"12.50", b"99.50")),
    "no body": lambda message: altered(message, body=b""),
    "product": lambda message: altered(message, target=message.target.replace("sepa", "instant-sepa")),
    "request id": lambda message: with_value(message, "x-request-id", lambda _: str(uuid4())),
    "weak digest": lambda message: with_value(message, "digest", lambda _: "MD5=XrY7u+Ae7tCTyyK7j1rNww=="),
    "target uncovered": lambda message: with_value(message, "signature", lambda text: text.replace(" (request-target)", "")),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_request_that_was_changed_after_sealing_is_rejected(change, tpp):
    assert_refused(tpp.send(CHANGES[change](tpp.sealed(tpp.message()))), 401, "SIGNATURE_INVALID")


def of_another_time(pki: Pki) -> Issued:
    before = replace(pki, not_before=pki.not_before - timedelta(days=31), days=10)
    return before.issue_qseal(pki.provider, label="expired-qseal")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (of_another_time, "CERTIFICATE_EXPIRED"),
        (lambda pki: make_pki(at=pki.not_before, seed=12).qseal, "CERTIFICATE_INVALID"),
    ],
    ids=["expired", "unknown authority"],
)
def test_a_seal_that_is_not_trusted_is_refused(make, code, bank, bank_pki, connect):
    assert_refused(connect(bank, qseal=make(bank_pki)).initiate(), 401, code)


def test_a_seal_of_another_organisation_is_refused(bank, connect, second_provider):
    assert_refused(connect(bank, qseal=second_provider[1]).initiate(), 401, "SIGNATURE_INVALID")


def test_the_answer_to_another_digest_names_the_one_that_is_demanded(tpp, bank_pki):
    message = tpp.message()
    sealed = seal_by_hand(message, bank_pki.qseal, digest=make_digest(message.body, algorithm="SHA-512"))
    refused = tpp.send(sealed)
    assert_refused(refused, 401, "SIGNATURE_INVALID")
    assert "the profile psd2-v1 requires SHA-256, as in Digest: SHA-256=<base64>" in refused.text
