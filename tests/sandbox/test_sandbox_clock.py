"""The sandbox's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tppkit.errors import ConfigurationError
from tppkit.sandbox.clock import MAX_ADVANCE, SandboxClock

BASE = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> SandboxClock:
    return SandboxClock(lambda: BASE)


def test_it_begins_with_the_clock_below(clock: SandboxClock) -> None:
    assert clock.now() == BASE


def test_it_is_ahead_by_what_it_was_advanced(clock: SandboxClock) -> None:
    assert clock.advance(timedelta(minutes=5)) == BASE + timedelta(minutes=5)
    clock.advance(timedelta(seconds=1))
    assert clock.now() == BASE + timedelta(minutes=5, seconds=1)


def test_it_goes_on_with_the_clock_below() -> None:
    times = iter([BASE, BASE + timedelta(hours=1)])
    clock = SandboxClock(lambda: next(times))
    clock.advance(timedelta(days=1))
    assert clock.now() == BASE + timedelta(days=1, hours=1)


@pytest.mark.parametrize(
    "step", [timedelta(microseconds=-1), timedelta(days=-1), MAX_ADVANCE + timedelta(microseconds=1), timedelta.max]
)
def test_a_step_back_or_too_far_is_refused_and_changes_nothing(step: timedelta, clock: SandboxClock) -> None:
    with pytest.raises(ConfigurationError) as caught:
        clock.advance(step)
    assert caught.value.code == "clock.backwards"
    assert clock.now() == BASE


def test_it_can_be_advanced_ten_years_in_all(clock: SandboxClock) -> None:
    clock.advance(MAX_ADVANCE)
    with pytest.raises(ConfigurationError):
        clock.advance(timedelta(seconds=1))
