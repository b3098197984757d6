"""Leases in stores that have no transaction to undo what an overtaken worker did."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from inboxes import AT, Case, located, login, new_prefix, open_case, outcome, receiver

from tppkit.callbacks import AsyncInbox, Inbox, InboxSettings, Outcome, VerifiedCallback
from tppkit.callbacks.stores.redis import AsyncRedisStore
from tppkit.errors import CallbackRejected

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NUMBER, TAKES_S = 6, 40.0  # each within its lease of a minute, all of them not


class Clock:
    """Monotonic seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.seconds = 5000.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.seconds - 5000.0)


@pytest.fixture(params=["memory", "redis"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    location = located(request.param, tmp_path, request.getfixturevalue)
    with open_case(request.param, location, new_prefix("lease")) as case:
        yield case


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(case: Case, clock: Clock) -> Inbox:
    return Inbox(receiver(), case.store, clock=clock)


def told(answers: Any) -> list[Any]:
    return [one.code if isinstance(one, CallbackRejected) else one.outcome for one in answers]


@pytest.mark.parametrize("way", ["work", "handle_all"])
def test_a_batch_that_takes_longer_than_a_lease_has_each_effect_once(inbox: Inbox, case: Case, clock: Clock, way: str):
    batch = [login(f"r{n}") for n in range(NUMBER)]

    def slow(callback: VerifiedCallback, connection: None) -> None:
        clock.seconds += TAKES_S
        case.handler(callback, connection)
        # The service repeats it meanwhile.
        assert inbox.handle(login(callback.request_id), case.handler, at=clock.now()).outcome is Outcome.BUSY

    if way == "work":
        for one in batch:
            inbox.accept(one, at=AT)
        outcomes = told(inbox.work(slow, at=AT))
    else:
        outcomes = told(inbox.handle_all(batch, slow, at=AT))
    assert set(outcomes) == {Outcome.APPLIED}
    assert sorted(case.effects()) == [f"r{n} -" for n in range(NUMBER)]


def test_what_a_worker_had_renewed_when_it_died_is_taken_in_the_order_it_came(inbox: Inbox, case: Case, clock: Clock):
    class Killed(BaseException):
        """The process ends."""

    def third_ends(callback: VerifiedCallback, connection: None) -> None:
        clock.seconds += TAKES_S
        if callback.request_id == "r2":
            raise Killed
        case.handler(callback, connection)

    for n in range(NUMBER):
        inbox.accept(outcome(f"r{n}", ver=n), at=AT + n * SECOND)
    with pytest.raises(Killed):
        inbox.work(third_ends, at=AT + 10 * SECOND)
    assert inbox.work(case.handler, at=clock.now()) == []
    inbox.work(case.handler, at=clock.now() + MINUTE)
    assert case.effects() == [f"t1 {n}" for n in range(NUMBER)]


def test_what_was_overtaken_is_not_renewed(inbox: Inbox, case: Case, clock: Clock):
    for n in range(2):
        inbox.accept(login(f"r{n}"), at=AT + n * SECOND)
    overtaking: list[Outcome] = []

    def hangs(callback: VerifiedCallback, connection: None) -> None:
        clock.seconds += 3 * TAKES_S
        overtaking.extend(told(inbox.work(case.handler, at=clock.now())))

    assert told(inbox.work(hangs, at=AT + MINUTE)) == [Outcome.BUSY, Outcome.BUSY]
    assert overtaking == [Outcome.APPLIED, Outcome.APPLIED]
    assert case.effects() == ["r0 -", "r1 -"]


@pytest.mark.parametrize("way", ["work", "handle", "handle_all"])
def test_who_was_overtaken_during_the_effect_is_told_so(inbox: Inbox, case: Case, way: str):
    overtaking: list[Outcome] = []

    def slow(callback: VerifiedCallback, connection: None) -> None:
        overtaking.extend(told(inbox.work(case.handler, at=AT + 2 * MINUTE)))

    if way == "work":
        inbox.accept(login("r1"), at=AT)
        (late,) = told(inbox.work(slow, at=AT))
    elif way == "handle":
        receipt = inbox.handle(login("r1"), slow, at=AT)
        assert not receipt.acknowledged
        late = receipt.outcome
    else:
        (late,) = told(inbox.handle_all([login("r1")], slow, at=AT))
    assert (late, overtaking) == (Outcome.BUSY, [Outcome.APPLIED])
    assert inbox.handle(login("r1"), case.handler, at=AT + 2 * MINUTE).outcome is Outcome.REPEATED


def test_an_awaited_batch_that_takes_longer_than_a_lease_has_each_effect_once(redis_url: str, clock: Clock):
    async def scenario() -> None:
        async with redis.asyncio.Redis.from_url(redis_url) as client:
            store = AsyncRedisStore(client, prefix=f"{{{new_prefix('lease')}}}:")
            inbox, effects = AsyncInbox(receiver(), store, clock=clock), list[str]()

            async def write(callback: VerifiedCallback, _: object) -> None:
                effects.append(callback.request_id)

            async def slow(callback: VerifiedCallback, _: object) -> None:
                clock.seconds += TAKES_S
                effects.append(callback.request_id)
                await inbox.handle(login(callback.request_id), write, at=clock.now())

            for n in range(NUMBER):
                await inbox.accept(login(f"w{n}"), at=AT)
            await inbox.work(slow, at=AT)
            began = clock.now()
            await inbox.handle_all([login(f"h{n}") for n in range(NUMBER)], slow, at=began)
            assert sorted(effects) == sorted(f"{way}{n}" for way in "wh" for n in range(NUMBER))

            async def overtaken(callback: VerifiedCallback, _: object) -> None:
                await inbox.work(write, at=clock.now() + 2 * MINUTE)

            receipt = await inbox.handle(login("r1"), overtaken, at=clock.now())
            assert receipt.outcome is Outcome.BUSY

    asyncio.run(scenario())


def test_the_first_lease_begins_at_the_time_of_the_call(case: Case):
    class Killed(BaseException):
        """The process ends."""

    def ends(callback: VerifiedCallback, connection: None) -> None:
        raise Killed

    inbox = Inbox(receiver(), case.store, settings=InboxSettings(lease=MINUTE))  # by the machine's clock
    inbox.accept(login("r1"), at=AT)
    with pytest.raises(Killed):
        inbox.work(ends, at=AT)
    assert inbox.work(case.handler, at=AT + MINUTE - timedelta(microseconds=1)) == []
    assert told(inbox.work(case.handler, at=AT + MINUTE)) == [Outcome.APPLIED]
