"""Rules of the legacy interface."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.protocol.legacy.rules import (
    CATEGORIES,
    category,
    is_token,
    read_local_time,
    read_time_stamp,
    require_token,
    write_local_time,
    write_time_stamp,
)


@pytest.mark.parametrize("length", [19, 20, 40, 41])
def test_tokens_have_20_to_40_characters(length):
    assert is_token("a" * length) == (20 <= length <= 40)


@pytest.mark.parametrize("other", ["-", "_", " ", "/", "é", "\u0661", "\n"])
def test_tokens_have_ascii_letters_and_digits_only(other):
    assert is_token("0aZ" * 7)
    assert not is_token("0aZ" * 7 + other)


def test_a_malformed_token_is_named_and_not_shown():
    assert require_token("a" * 32, "uuid") == "a" * 32
    with pytest.raises(FormatError) as refused:
        require_token("5f6c0f1e-9c1b-4c55-8f0a-1d2d9b6f4c11", "uuid")
    assert (refused.value.code, "uuid" in refused.value.message, "5f6c" in refused.value.message) == (
        "token.malformed",
        True,
        False,
    )


def test_the_document_has_17_categories_and_others_are_general_transfers():
    assert len(CATEGORIES) == 17
    assert [category(code) for code in ("GRCR", "ZZZZ", "grcr", "", None)] == ["groceries", *["general transfer"] * 4]


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC)))
def test_times_make_the_round_trip(at):
    assert read_local_time(write_local_time(at)) == at
    assert read_time_stamp(write_time_stamp(at)) == at


def test_local_times_are_read_in_their_zone():
    zone = ZoneInfo("Europe/Vilnius")
    assert read_local_time("2026-07-01 12:00:00", zone) == datetime(2026, 7, 1, 9, tzinfo=UTC)
    assert read_local_time("2026-10-25 03:30:00", zone) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # the first of two
    with pytest.raises(ValueError, match="not a time"):
        read_local_time("0001-01-01 00:00:00", zone)
