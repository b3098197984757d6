"""Dialects that cover a Date, or the times of draft-cavage-12."""

from __future__ import annotations

from dataclasses import replace
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
)

from refusals import refused
from tppkit.errors import SignatureRejected
from tppkit.seals import PROFILES, SealPolicy, sign_request, verify_request_head
from tppkit.seals.profiles import PSD2_V1


def test_how_near_is_a_setting(rsa_pki):
    row, at = PROFILES["rabobank"], AT + timedelta(seconds=61)
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal))
    for minutes, expected in ((1, "signature.expired"), (2, "holds")):
        policy = SealPolicy(policy_of(row, rsa_pki).paths, profile=row, clock_skew=timedelta(minutes=minutes))
        assert verdict(sealed, policy, at=at) == expected


def test_the_times_of_a_seal_are_written_beside_the_covered_names(rsa_pki):
    row, seconds = PROFILES["cavage-12"], int(AT.timestamp())
    value = header(sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT), "Signature")
    assert (
        f",created={seconds},expires={seconds + 300},signature=" in value
    )  # no byte of them can change: test_verify_mutations


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("created={now},expires={later},", "holds"),
        ("created={later},", "signature.created"),
        ("expires={earlier},", "signature.expired"),
        ('created="{now}",', "signature.malformed"),
    ],
)
def test_times_that_are_not_covered_are_judged_as_well(times, expected, pki):
    now = int(AT.timestamp())
    text = times.format(now=now, later=now + 3600, earlier=now - 3600)
    sealed, policy = seal_by_hand(REQUEST, pki.qseal, template=text + TEMPLATE), policy_of(PSD2_V1, pki)
    assert [verdict(sealed, policy), verdict(sealed, policy)] == [expected, expected]


MADE = timedelta(days=20)
JWS_BY_DATE = replace(
    PROFILES["open-finance"], name="jws-by-date", covered=("(request-target)", "date", "digest"), covered_if_present=(),
    request_id=None, max_age=None,
)  # fmt: skip
RFC9421_BY_DATE = replace(
    PROFILES["amazon"], name="rfc9421-by-date", covered=("@method", "@request-target", "date", "content-digest"),
    digest_field="Content-Digest", max_age=None, key_id=PSD2_V1.key_id, certificate_header="TPP-Signature-Certificate",
)  # fmt: skip
CAVAGE_BY_AGE = replace(
    PROFILES["cavage-12"], name="cavage-by-age", covered=("(request-target)", "(created)", "digest"), request_id=None,
    expires_after=None, max_age=timedelta(minutes=5),
)  # fmt: skip
RFC9421_EXPIRING = replace(
    RFC9421_BY_DATE, name="rfc9421-expiring", covered=("@method", "@request-target", "content-digest"), request_id=None,
    expires_after=timedelta(minutes=5),
)  # fmt: skip
JWS_BY_AGE = replace(
    JWS_BY_DATE, name="jws-by-age", covered=("(request-target)", "digest"), max_age=timedelta(minutes=5)
)


@pytest.mark.parametrize(
    ("row", "minutes", "expected"),
    [
        *((PROFILES["rabobank"], minutes, expected) for minutes, expected in (  # a Date
            (0, "holds"), (5, "holds"), (-5, "holds"), (6, "signature.expired"), (-6, "signature.created"), (600, "signature.expired"),
        )),
        *((PROFILES["cavage-12"], minutes, expected) for minutes, expected in (  # created and expires
            (0, "holds"), (-5, "holds"), (-6, "signature.created"), (9, "holds"), (11, "signature.expired"),
        )),
        *((CAVAGE_BY_AGE, minutes, expected) for minutes, expected in (
            (9, "holds"), (11, "signature.expired"), (-6, "signature.created"),
        )),
    ],
)  # fmt: skip
def test_a_seal_counts_near_its_covered_date_or_between_its_times(row, minutes, expected, rsa_pki):
    policy = policy_of(row, rsa_pki)
    sealed = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT)
    assert verdict(sealed, policy, at=AT + timedelta(minutes=minutes)) == expected
    assert verdict(sealed, policy) == "holds"


def test_a_head_with_an_old_date_is_refused_unless_the_caller_takes_it(rsa_pki):
    row, later = PROFILES["rabobank"], AT + timedelta(minutes=6)
    sealed, policy = sign_request(request_for(row), seal=seal_of(row, rsa_pki.qseal), at=AT), policy_of(row, rsa_pki)
    with refused(SignatureRejected, "signature.expired"):
        verify_request_head(sealed, qwac=None, at=later, policy=policy)
    head = verify_request_head(sealed, qwac=None, at=later, policy=policy, allow_old_date=True)
    assert head.date_fault is not None
    assert head.date_fault.code == "signature.expired"
    assert verify_request_head(sealed, qwac=None, at=AT, policy=policy).date_fault is None


@pytest.mark.parametrize(
    "row",
    [
        PROFILES["rabobank"],
        JWS_BY_DATE,
        RFC9421_BY_DATE,
        CAVAGE_BY_AGE,
        PROFILES["cavage-12"],
        RFC9421_EXPIRING,
        JWS_BY_AGE,
    ],
    ids=lambda row: row.name,
)
def test_a_seal_that_a_time_identifies_is_not_accepted_again_days_later(row, pki, rsa_pki):
    one = rsa_pki if row.name == "rabobank" else pki
    sealed, policy = sign_request(request_for(row), seal=seal_of(row, one.qseal), at=AT), policy_of(row, one)
    assert verdict(sealed, policy) == "holds"
    assert verdict(sealed, policy, at=AT + MADE) == "signature.expired"
    assert verdict(sealed, policy_of(row, one), at=AT + MADE) == "signature.expired"


@pytest.mark.parametrize("row", [PSD2_V1, PROFILES["triodos"], PROFILES["samlink"]], ids=lambda row: row.name)
def test_a_covered_date_is_judged_where_the_dialect_does_not_demand_it(row, pki):
    wide = replace(row, covered=(*row.covered, "date"), only_these=False)
    policy = policy_of(replace(row, only_these=False), pki)
    for minutes, expected in ((0, "holds"), (6, "signature.expired"), (0, "holds"), (-6, "signature.created")):
        sealed = sign_request(request_for(wide), seal=seal_of(wide, pki.qseal))
        assert verdict(sealed, policy, at=AT + timedelta(minutes=minutes)) == expected


@pytest.mark.parametrize("row", [PROFILES["cavage-12"], RFC9421_EXPIRING], ids=lambda row: row.name)
@pytest.mark.parametrize("at", [AT, AT + MADE], ids=["at once", "later"])
def test_a_sender_cannot_give_its_seal_a_longer_life_than_the_dialect(row, at, pki):
    long = replace(row, expires_after=timedelta(days=3650))
    sealed = sign_request(request_for(row), seal=seal_of(long, pki.qseal), at=AT)
    assert verdict(sealed, policy_of(row, pki), at=at) == "signature.lifetime"
    assert verdict(sealed, policy_of(long, pki), at=at) == "holds"


def test_an_expiry_that_a_dialect_lives_by_must_be_there(pki):
    endless = replace(RFC9421_EXPIRING, expires_after=None, max_age=timedelta(minutes=5))
    sealed = sign_request(request_for(endless), seal=seal_of(endless, pki.qseal), at=AT)
    assert verdict(sealed, policy_of(endless, pki)) == "holds"
    assert verdict(sealed, policy_of(RFC9421_EXPIRING, pki)) == "signature.missing-parameter"
