"""Dialects that cover a Date, or the times of draft-cavage-12."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sealing import (
    AT,
    REQUEST,
    TEMPLATE,
    header,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
    with_value,
    without,
)

from tppkit.errors import ConfigurationError
from tppkit.seals import PROFILES, PSD2_V1, SealPolicy, sign_request
from tppkit.testpki import Pki


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (0, "holds"),
        (5, "holds"),
        (-5, "holds"),
        (6, "signature.expired"),
        (-6, "signature.created"),
        (600, "signature.expired"),
    ],
)
def test_a_covered_date_must_be_near(minutes: int, expected: str, rsa_pki: Pki) -> None:
    row = PROFILES["rabobank"]
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal))
    assert verdict(sealed, policy_of(row, rsa_pki), at=AT + timedelta(minutes=minutes)) == expected


def test_how_near_is_a_setting(rsa_pki: Pki) -> None:
    row, at = PROFILES["rabobank"], AT + timedelta(seconds=61)
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal))
    for minutes, expected in ((1, "signature.expired"), (2, "holds")):
        policy = SealPolicy(policy_of(row, rsa_pki).paths, profile=row, clock_skew=timedelta(minutes=minutes))
        assert verdict(sealed, policy, at=at) == expected


def test_a_covered_date_in_another_form_is_refused(rsa_pki: Pki) -> None:
    row = PROFILES["rabobank"]
    message = with_value(request_for(row), "Date", "Mon, 1 Jun 2026 12:00:00 GMT")
    assert verdict(sign_request(message, seal=seal_of(row, rsa_pki.qseal)), policy_of(row, rsa_pki)) == "header.date"
    assert (
        verdict(without(sign_request(message, seal=seal_of(row, rsa_pki.qseal)), "Date"), policy_of(row, rsa_pki))
        == "signature.header-absent"
    )


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(0, "holds"), (-5, "holds"), (-6, "signature.created"), (9, "holds"), (11, "signature.expired")],
)
def test_a_seal_with_times_counts_between_them(minutes: int, expected: str, rsa_pki: Pki) -> None:
    row, policy = PROFILES["cavage-12"], policy_of(PROFILES["cavage-12"], rsa_pki)
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT)
    assert verdict(sealed, policy, at=AT + timedelta(minutes=minutes)) == expected
    assert verdict(sealed, policy) == "holds"


def test_times_cannot_be_changed(rsa_pki: Pki) -> None:
    row = PROFILES["cavage-12"]
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT)
    value, seconds = header(sealed, "Signature"), int(AT.timestamp())
    assert f",created={seconds},expires={seconds + 300},signature=" in value
    for old, new in (
        (f"created={seconds}", f"created={seconds + 1}"),
        (f"expires={seconds + 300}", f"expires={seconds + 999}"),
    ):
        assert (
            verdict(with_value(sealed, "Signature", value.replace(old, new)), policy_of(row, rsa_pki))
            == "signature.invalid"
        )


def test_a_seal_with_times_must_be_told_the_time(rsa_pki: Pki) -> None:
    row = PROFILES["cavage-12"]
    with pytest.raises(ConfigurationError) as caught:
        sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal))
    assert caught.value.code == "seal.time-needed"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("created={now},expires={later},", "holds"),
        ("created={later},", "signature.created"),
        ("expires={earlier},", "signature.expired"),
        ('created="{now}",', "signature.malformed"),
    ],
)
def test_times_that_are_not_covered_are_judged_as_well(times: str, expected: str, pki: Pki) -> None:
    now = int(AT.timestamp())
    text = times.format(now=now, later=now + 3600, earlier=now - 3600)
    sealed, policy = seal_by_hand(REQUEST, pki.qseal, template=text + TEMPLATE), policy_of(PSD2_V1, pki)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == [expected, expected]


def test_a_header_with_a_time_in_it_fills_no_memory(pki: Pki) -> None:
    policy = policy_of(PSD2_V1, pki)
    for second in range(3):
        created = f"created={int(AT.timestamp()) + second},"
        assert verdict(seal_by_hand(REQUEST, pki.qseal, template=created + TEMPLATE), policy) == "holds"
    assert (len(policy.memory.seals), len(policy.memory.heads)) == (1, 0)
