"""When a signature counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from refusals import refused
from tppkit.errors import ConfigurationError, SignatureRejected
from tppkit.httpsig.times import verify_times

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOW = int(AT.timestamp())


def code_of(created: int | None, expires: int | None, **options: timedelta) -> str | None:
    try:
        verify_times(created, expires, at=AT, **options)
    except SignatureRejected as e:
        return e.code
    return None


@pytest.mark.parametrize(
    ("created", "expires", "code"),
    [
        (None, None, None),
        (NOW + 300, None, None),
        (NOW + 301, None, "signature.created"),
        (None, NOW - 300, None),
        (None, NOW - 301, "signature.expired"),
        (NOW - 10**9, NOW, None),
        (-(10**15), -(10**15), "signature.expired"),
        (10**15, 10**15, "signature.created"),
    ],
)
def test_a_signature_counts_from_its_creation_to_its_end(
    created: int | None, expires: int | None, code: str | None
) -> None:
    assert code_of(created, expires) == code


def test_the_skew_is_the_callers() -> None:
    assert code_of(NOW + 10, None, skew=timedelta(seconds=10)) is None
    assert code_of(NOW + 11, None, skew=timedelta(seconds=10)) == "signature.created"


@pytest.mark.parametrize(
    ("created", "code"),
    [
        (NOW - 360, None),
        (NOW - 361, "signature.expired"),
        (None, "signature.created"),
        (NOW + 301, "signature.created"),
    ],
)
def test_a_signature_can_be_too_old_for_the_caller(created: int | None, code: str | None) -> None:
    assert code_of(created, None, max_age=timedelta(minutes=1)) == code


def test_a_time_without_zone_is_not_a_time() -> None:
    with refused(ConfigurationError, "time.naive"):
        verify_times(None, None, at=datetime(2026, 6, 1))
