"""The Date header has one form."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.http_date import format_http_date, parse_http_date


def test_a_date_is_read_and_written_in_utc_and_a_wrong_day_of_the_week_named():
    assert parse_http_date("Tue, 15 Nov 1994 08:12:31 GMT") == datetime(1994, 11, 15, 8, 12, 31, tzinfo=UTC)
    with pytest.raises(FormatError, match="has the wrong day of the week: 15 Nov 1994 is a Tue"):
        parse_http_date("Mon, 15 Nov 1994 08:12:31 GMT")
    at = datetime(2026, 6, 1, 1, 0, tzinfo=timezone(timedelta(hours=3)))
    assert format_http_date(at) == "Sun, 31 May 2026 22:00:00 GMT"
    with pytest.raises(ConfigurationError):
        format_http_date(datetime(2026, 6, 1))


@pytest.mark.parametrize(
    "value",
    [
        "", "Tue, 5 Nov 1994 08:12:31 GMT", "Mon, 15 Nov 1994 08:12:31 GMT", "Tue, 15 Nov 1994 08:12:31 +0000",
        "Tuesday, 15-Nov-94 08:12:31 GMT", "Tue Nov 15 08:12:31 1994", "tue, 15 nov 1994 08:12:31 gmt",
        "Tue, 15 Nov 1994 8:12:31 GMT", "Tue, 31 Feb 1995 08:12:31 GMT", "Tue, 15 Nov 1994 24:12:31 GMT",
        "Tue, 15 Nov 1994 08:12:60 GMT", "Tue,  15 Nov 1994 08:12:31 GMT", "Tue, 15 Nov 1994 08:12:31 GMT ",
        "Tue, 15 Nov 0000 08:12:31 GMT", "Tue, ١٥ Nov 1994 08:12:31 GMT",
    ],
)  # fmt: skip
def test_another_form_is_refused(value):
    with refused(FormatError, "header.date"):
        parse_http_date(value)


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_reads_back(at):
    assert parse_http_date(format_http_date(at)) == at.replace(microsecond=0)


@given(st.text() | st.text(alphabet="TueNov, 0123456789:GMT", max_size=32))
def test_only_format_error_escapes(value):
    with suppress(FormatError):
        parse_http_date(value)
