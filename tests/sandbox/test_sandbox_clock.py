"""The sandbox's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text

from refusals import refused
from tppkit.errors import ConfigurationError, TransportError
from tppkit.protocol.psd2 import PaymentProduct
from tppkit.protocol.psd2.payment import PAYMENT, Progress
from tppkit.sandbox.bank.ledger import CLEARING, Booking, Move, post, start_transfer
from tppkit.sandbox.bank.tables import TABLES as BANK_TABLES
from tppkit.sandbox.bank.tables import Transfer
from tppkit.sandbox.clock import MAX_ADVANCE, TABLES, Events, SandboxClock
from tppkit.sandbox.database import Database
from tppkit.sandbox.psd2 import tables
from tppkit.sandbox.queries import LatestTime, latest_time

BASE = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATEST_TIME = LatestTime(tables.PAYMENTS.c.active_at, tables.PAYMENTS.c.approved_at)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'clock.sqlite'}", TABLES, tables.TABLES, BANK_TABLES)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def clock(database: Database) -> SandboxClock:
    return make_clock(database, base=lambda: BASE)


def make_clock(database: Database, *, base: Callable[[], datetime]) -> SandboxClock:
    return SandboxClock(
        database, latest=database.run_at_start(partial(latest_time, interfaces=[LATEST_TIME])), base=base
    )


def at(*times: datetime) -> Callable[[], datetime]:
    """A machine's clock that shows these times, one after the other."""
    return iter(times).__next__


async def test_the_clock_is_ahead_of_the_one_below_by_its_offset(database):
    below = [BASE]
    clock = make_clock(database, base=lambda: below[-1])
    assert await clock.advance(timedelta(minutes=5)) == BASE + timedelta(minutes=5)
    await clock.advance(timedelta(seconds=1))
    below.append(BASE + HOUR)
    assert clock.now() == BASE + HOUR + timedelta(minutes=5, seconds=1)


def test_the_clock_continues_when_the_machines_clock_is_set_back(database):
    clock = make_clock(database, base=at(BASE, BASE - HOUR, BASE - HOUR + timedelta(seconds=5)))
    assert [clock.now() for _ in range(3)] == [BASE, BASE, BASE + timedelta(seconds=5)]


@pytest.mark.parametrize("restarted", [BASE + HOUR, BASE - HOUR])
def test_it_is_kept_in_the_database_and_never_moves_back(restarted, clock, database):
    ahead = asyncio.run(clock.advance(timedelta(days=1)))
    assert make_clock(database, base=lambda: restarted).now() == max(ahead, restarted + timedelta(days=1))


@pytest.mark.parametrize("field", ["active_at", "approved_at"])
def test_the_clock_never_moves_behind_a_stored_event(field, database):
    progress = Progress(PAYMENT.initial, **{"active_at": BASE, field: BASE + HOUR})
    payment = tables.StoredPayment("p-1", "A", PaymentProduct.SEPA, b"{}", "t-1", None, progress)
    database.run_at_start(lambda db: tables.PAYMENTS.add(db, payment))
    assert make_clock(database, base=lambda: BASE).now() == BASE + HOUR


@pytest.mark.parametrize(("state", "then"), [("booked", BASE + HOUR), ("failed", BASE + HOUR), ("pending", BASE)])
def test_it_never_moves_back_behind_an_execution(state, then, database):
    names = "Owner", "DE89370400440532013000", "Shop", None
    transfer = Transfer(tables.SOURCE, "p-1", "a", 1, *names, True, BASE, BASE + HOUR, state)
    database.run_at_start(lambda db: post(db, [Booking("in", BASE, "In", "Owner", None, (Move(CLEARING, "a", 1),))]))
    database.run_at_start(lambda db: start_transfer(db, transfer))
    assert make_clock(database, base=lambda: BASE).now() == then


@pytest.mark.parametrize(
    "step", [timedelta(microseconds=-1), timedelta(days=-1), MAX_ADVANCE + timedelta(microseconds=1), timedelta.max]
)
async def test_a_step_back_or_too_far_is_refused_and_changes_nothing(step, clock):
    with refused(ConfigurationError, "clock.backwards"):
        await clock.advance(step)
    assert clock.now() == BASE


def test_an_advance_that_is_not_stored_moves_nothing(clock, database):
    refuse = text("CREATE TRIGGER full BEFORE UPDATE ON clock BEGIN SELECT RAISE(ABORT, 'full'); END")
    database.run_at_start(lambda db: db.execute(refuse))
    with pytest.raises(TransportError):
        asyncio.run(clock.advance(timedelta(days=2)))
    assert clock.now() == BASE


async def test_it_can_be_advanced_ten_years_in_all(clock):
    await clock.advance(MAX_ADVANCE)
    with pytest.raises(ConfigurationError):
        await clock.advance(timedelta(seconds=1))


def test_it_stops_at_each_due_time_once_a_second_at_most(clock):
    stops: list[timedelta] = []
    due = [HOUR, HOUR + timedelta(milliseconds=1), timedelta(days=400)]

    async def catch_up() -> datetime | None:
        stops.append(clock.now() - BASE)
        left = [one for one in due if one > stops[-1]]
        return BASE + left[0] if left else None

    asyncio.run(clock.advance_through(timedelta(days=1), catch_up))
    assert stops == [timedelta(), HOUR, HOUR + timedelta(seconds=1), timedelta(days=1)]
    with pytest.raises(ConfigurationError):
        asyncio.run(clock.advance_through(MAX_ADVANCE, catch_up))
    assert clock.now() == BASE + timedelta(days=1)


def test_scheduling_an_event_looks_for_deliveries_only_if_there_may_be_some(database):
    looked: list[bool] = []
    events = Events(database, lambda: BASE, (), then=lambda: looked.append(True))
    events.schedule(BASE + HOUR, delivers=False)
    assert looked == []
    events.schedule(BASE + HOUR)
    assert looked == [True]


async def test_a_frozen_clock_moves_only_by_hand_and_then_catches_up(database):
    below = [BASE]
    clock = make_clock(database, base=lambda: below[-1])
    clock.freeze()
    below.append(BASE + HOUR)
    assert clock.now() == BASE
    assert await clock.advance(timedelta(minutes=5)) == BASE + timedelta(minutes=5)
    clock.freeze(is_frozen=False)
    assert clock.now() == BASE + HOUR + timedelta(minutes=5)
    assert make_clock(database, base=lambda: BASE).now() == BASE + timedelta(minutes=5)
