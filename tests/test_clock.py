"""Times: aware UTC inside, ISO 8601 with a Z outside."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refusals import refused
from tppkit._clock import as_utc, format_time, from_microseconds, parse_time, shift, to_microseconds, utc_now
from tppkit.errors import ConfigurationError, FormatError

ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)


@given(MOMENTS)
def test_a_written_time_is_read_as_the_same_moment(at):
    assert parse_time(format_time(at)) == at


@given(MOMENTS)
def test_a_time_as_a_number_of_microseconds_is_the_same_moment(at):
    assert from_microseconds(to_microseconds(at)) == at


@given(MOMENTS)
def test_a_written_time_ends_in_z(at):
    assert format_time(at).endswith("Z")


@given(st.text(max_size=40))
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59-23:59")
@example("\ud800")
def test_only_format_error_escapes_from_reading_a_time(text):
    with suppress(FormatError):
        assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00.250Z", datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)),
    ],
)
def test_iso_8601_is_read(text, expected):
    assert parse_time(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-30", "2026-01-31T25:00:00Z", "31.01.2026"])
def test_what_is_not_a_time_is_refused(text):
    with refused(FormatError, "time.malformed"):
        parse_time(text)


def test_microseconds_are_written_only_where_there_are_any():
    at = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert format_time(at) == "2026-06-01T12:00:00Z"
    assert format_time(at.replace(microsecond=5)) == "2026-06-01T12:00:00.000005Z"


def test_a_time_of_another_zone_becomes_utc():
    at = datetime(2026, 6, 1, 1, tzinfo=timezone(timedelta(hours=3)))
    assert as_utc(at) == at
    assert as_utc(at).tzinfo is UTC


@pytest.mark.parametrize("use", [as_utc, format_time])
def test_a_time_without_zone_is_refused(use):
    with refused(ConfigurationError, "time.naive"):
        use(datetime(2026, 6, 1))


def test_a_time_that_utc_has_no_year_for_is_refused():
    with refused(ConfigurationError, "time.out-of-range"):
        as_utc(datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))))


def test_the_present_is_aware_utc():
    assert utc_now().tzinfo is UTC


@pytest.mark.parametrize("by", [timedelta(days=1), timedelta.max, timedelta(days=-1), timedelta.min])
def test_a_shift_goes_no_further_than_the_calendar(by):
    end = (datetime.max if by > timedelta(0) else datetime.min).replace(tzinfo=UTC)
    assert shift(end, by) == end


def test_a_shift_within_the_calendar_is_a_sum():
    at = datetime(2026, 6, 1, tzinfo=UTC)
    assert shift(at, timedelta(hours=-1)) == at - timedelta(hours=1)
