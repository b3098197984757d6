"""The life of a consent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2.consent import (
    CONSENT,
    ConsentProgress,
    ConsentStatus,
    ConsentTrigger,
    cap_valid_until,
    due_consent_trigger,
    require_valid,
)

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TODAY = START.date()
INACTIVITY = timedelta(seconds=300)
TICK = timedelta(microseconds=1)
DAY = timedelta(days=1)
RECEIVED = ConsentProgress(ConsentStatus.RECEIVED, START, TODAY + 10 * DAY)
VALID = replace(RECEIVED, status=ConsentStatus.VALID)

# (state, trigger) to state, by the first letters; the document shows the first, the others are assumptions.
MOVES = {
    "ra": "v",
    "rd": "revoked",
    "re": "e",
    "rr": "revoked",
    "rt": "revoked",
    "ve": "e",
    "vr": "revoked",
    "vt": "revoked",
}


def test_a_consent_moves_as_the_table_says_and_not_otherwise():
    for state, trigger in product(["received", "valid", "expired", "revoked"], ConsentTrigger):
        expected = MOVES.get(state[0] + trigger[0]) if state != "revoked" else None
        if expected is not None:
            assert CONSENT.move(ConsentStatus(state), trigger).startswith(expected)
        else:
            with pytest.raises(LocalProtocolError):
                CONSENT.move(ConsentStatus(state), trigger)


def test_a_consent_begins_as_received_and_ends_as_expired_or_revoked():
    assert (CONSENT.initial, CONSENT.final) == ("received", {"expired", "revoked"})
    assert not {state for state, _ in CONSENT.moves} & CONSENT.final


@pytest.mark.parametrize(
    ("progress", "now", "today", "due"),
    [
        (RECEIVED, START + INACTIVITY - TICK, TODAY, None),
        (RECEIVED, START + INACTIVITY, TODAY, "expired"),
        (replace(RECEIVED, active_at=START + INACTIVITY), START + INACTIVITY, TODAY, None),
        (replace(RECEIVED, valid_until=TODAY), START + TICK, TODAY + DAY, "expired"),
        (VALID, START + 10 * DAY, TODAY + 10 * DAY, None),
        (VALID, START + 11 * DAY, TODAY + 11 * DAY, "expired"),
        (replace(VALID, status=ConsentStatus.REVOKED), START + 99 * DAY, TODAY + 99 * DAY, None),
        (replace(VALID, status=ConsentStatus.EXPIRED), START + 99 * DAY, TODAY + 99 * DAY, None),
    ],
)
def test_time_alone_ends_a_consent(progress, now, today, due):
    assert due_consent_trigger(progress, now=now, today=today, inactivity=INACTIVITY) == due


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (180, 180), (181, 180), (2_900_000, 180)])
def test_the_last_day_is_lowered_to_180_days(asked, given):
    assert cap_valid_until(TODAY + asked * DAY, TODAY) == TODAY + given * DAY


def test_a_last_day_that_has_passed_is_refused():
    with pytest.raises(FormatError) as caught:
        cap_valid_until(TODAY - DAY, TODAY)
    assert caught.value.code == "model.valid-until"


@pytest.mark.parametrize(
    ("status", "code"),
    [("received", "consent.invalid"), ("expired", "consent.expired"), ("revoked", "consent.invalid")],
)
def test_only_a_valid_consent_opens_account_data(status, code):
    require_valid(ConsentStatus.VALID)
    with pytest.raises(LocalProtocolError) as caught:
        require_valid(ConsentStatus(status))
    assert caught.value.code == code
