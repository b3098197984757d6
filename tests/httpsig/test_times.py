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


SKEW, AGE = {"skew": timedelta(seconds=10)}, {"max_age": timedelta(minutes=1)}


@pytest.mark.parametrize(
    ("created", "expires", "options", "code"),
    [
        (None, None, {}, None),
        (NOW + 300, None, {}, None),
        (NOW + 301, None, {}, "signature.created"),
        (None, NOW - 300, {}, None),
        (None, NOW - 301, {}, "signature.expired"),
        (NOW - 10**9, NOW, {}, None),
        (-(10**15), -(10**15), {}, "signature.expired"),
        (10**15, 10**15, {}, "signature.created"),
        (NOW + 10, None, SKEW, None),
        (NOW + 11, None, SKEW, "signature.created"),
        (NOW - 360, None, AGE, None),
        (NOW - 361, None, AGE, "signature.expired"),
        (None, None, AGE, "signature.created"),
        (NOW + 301, None, AGE, "signature.created"),
    ],
)
def test_a_signature_counts_from_its_creation_to_its_end_or_the_callers_age(created, expires, options, code):
    assert code_of(created, expires, **options) == code
    with refused(ConfigurationError, "time.naive"):
        verify_times(None, None, at=datetime(2026, 6, 1))
