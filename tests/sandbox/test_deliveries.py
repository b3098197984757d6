"""Deliveries: none is lost, streams keep their order, schedules are followed, and no receiver delays another."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tppkit.errors import TransportError
from tppkit.sandbox.database import Database
from tppkit.sandbox.deliveries import AT_ONCE, AT_ONCE_TO_ONE, Deliveries, Schedule
from tppkit.sandbox.delivery_tables import TABLES, Attempt, Delivery, Logged, add_delivery, latest_deliveries
from tppkit.sandbox.faults import Fault, Faults

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
SHOP = "https://shop.example/cb/"
HOURLY = Schedule((10, 60, 3600), timeout_s=4, last_s=86_400)


class Receivers:
    """A sender without network: it keeps what arrives, and answers as configured.

    Attributes:
        sent: address and version of each attempt.
        answers: for an address, what its next attempts get; afterwards they are acknowledged.
        stuck: receivers that answer when the event is set.
        under_way: attempts now, and the most that there were.
    """

    schedule = HOURLY

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []
        self.answers: dict[str, list[bool | Exception]] = {}
        self.stuck: dict[str, asyncio.Event] = {}
        self.under_way = [0, 0]

    async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
        self.sent.append((delivery.address, delivery.ver))
        self.under_way[0] += 1
        self.under_way[1] = max(self.under_way)
        try:
            await asyncio.sleep(0)
            if stuck := self.stuck.get(delivery.receiver):
                await stuck.wait()
        finally:
            self.under_way[0] -= 1
        answer = (self.answers.get(delivery.address) or [True]).pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Attempt(answer, "status 200" if answer else "status 500")


class Outbox:
    """Deliveries on a clock that moves only on request."""

    def __init__(self, url: str, receivers: Receivers) -> None:
        self.at = AT
        self.receivers, self.faults = receivers, Faults()
        self.database = Database(url, TABLES)
        self.deliveries = Deliveries(self.database, lambda: self.at, {"shop": self.receivers}, self.faults)

    async def add(self, *vers: int, address: str = SHOP, stream: str | None = "payment") -> None:
        def job(db: Any) -> None:
            for ver in vers:
                add_delivery(db, sender="shop", address=address, body=b"{}", at=self.at, stream=stream, ver=ver)

        await self.database.write(job, then=lambda _: self.deliveries.wake())

    async def run(self, after_s: float = 0) -> list[int]:
        """The versions that are sent when time has moved on."""
        self.at += timedelta(seconds=after_s)
        sent = len(self.receivers.sent)
        await self.deliveries.run_due()
        return [ver for _, ver in self.receivers.sent[sent:]]

    async def log(self) -> list[Logged]:
        """The oldest first."""
        return list(reversed(await self.database.read(lambda db: latest_deliveries(db, ["shop"], 50))))

    @contextmanager
    def watched(self) -> Iterator[None]:
        task = asyncio.create_task(self.deliveries.watch())
        try:
            yield
        finally:
            task.cancel()


@pytest.fixture
def outbox(tmp_path: Path, at_end: AsyncExitStack) -> Outbox:
    made = Outbox(f"sqlite:///{tmp_path / 'd'}", Receivers())
    at_end.push_async_callback(made.database.close)
    return made


async def test_a_delivery_is_sent_once_and_a_rolled_back_one_never(outbox):
    await outbox.add(1)

    def fails(db: Any) -> None:
        add_delivery(db, sender="shop", address=SHOP, body=b"{}", at=AT, stream=None, ver=2)
        raise ValueError

    with pytest.raises(ValueError):
        await outbox.database.write(fails)
    assert await outbox.run() == [1]
    assert await outbox.run(86_400) == []


async def test_a_failed_one_is_repeated_by_its_schedule_and_given_up_at_its_end(outbox):
    outbox.receivers.answers[SHOP] = [False] * 50
    await outbox.add(1)
    sent = [await outbox.run(after_s) for after_s in (0, 9.9, 0.1, 60, 3600)]
    assert sent == [[1], [], [1], [1], [1]]
    while await outbox.run(3600):
        pass
    (one,) = await outbox.log()
    assert (one.delivery.state, one.delivery.due_at, one.delivery.attempts) == ("given up", None, 26)
    assert {text for _, _, text in one.attempts} == {"status 500"}
    assert one.attempts[-1].at - AT <= timedelta(days=1)


def test_without_a_last_time_there_are_no_attempts_after_the_gaps():
    schedule = Schedule((120,) * 9, timeout_s=4)
    assert schedule.next_at(9, first_at=AT, at=AT) == AT + timedelta(minutes=2)
    assert schedule.next_at(10, first_at=AT, at=AT) is None


def test_retries_can_have_another_timeout_than_the_first_attempt():
    schedule = Schedule((120,) * 9, timeout_s=4, retry_timeout_s=10)
    assert [schedule.timeout_after(attempts) for attempts in range(3)] == [4, 10, 10]
    assert [HOURLY.timeout_after(attempts) for attempts in range(2)] == [4, 4]


async def test_a_stream_keeps_its_order_and_others_do_not_wait(outbox):
    outbox.receivers.answers[SHOP] = [False, True]
    await outbox.add(1, 2)
    await outbox.add(3)
    await outbox.add(7, stream="other", address="https://other.example/")
    await outbox.add(8, stream=None, address="https://other.example/")
    assert await outbox.run() == [1, 7, 8]
    assert await outbox.run(10) == [1, 2, 3]


@pytest.mark.parametrize(("schedule", "after_s"), [(HOURLY, 86_401), (Schedule((), timeout_s=4), 0)])
async def test_a_delivery_after_its_last_time_or_gap_is_given_up_and_the_next_one_is_sent(outbox, schedule, after_s):
    outbox.receivers.schedule = schedule
    outbox.receivers.answers[SHOP] = [False]
    await outbox.add(1, 2)
    assert [*await outbox.run(), *await outbox.run(after_s)] == [1, 2]
    assert [one.delivery.state for one in await outbox.log()] == ["given up", "acknowledged"]


async def test_one_that_is_added_between_two_reads_is_sent_in_the_same_run(outbox, monkeypatch):
    read = outbox.database.read

    async def read_before_it_is_added(job: Any) -> Any:
        found = await read(job)
        monkeypatch.undo()
        await outbox.database.write(
            lambda db: add_delivery(db, sender="shop", address=SHOP, body=b"{}", at=AT, stream=None, ver=1)
        )
        return found

    monkeypatch.setattr(outbox.database, "read", read_before_it_is_added)
    async with asyncio.timeout(30):
        assert await outbox.run() == [1]


async def test_a_slow_receiver_delays_no_other(outbox):
    outbox.receivers.stuck["slow.example"] = slow = asyncio.Event()
    for number in range(100):
        await outbox.add(number, address="https://slow.example/", stream=f"s{number}")
    for number in range(100, 140):
        await outbox.add(number, address=f"https://{number}.example/", stream=None)
    with outbox.watched():
        due = asyncio.create_task(outbox.deliveries.run_due())
        async with asyncio.timeout(5):
            while len(outbox.receivers.sent) < 40 + AT_ONCE_TO_ONE:
                await asyncio.sleep(0.01)
        assert not due.done()
        slow.set()
        await due
    assert outbox.receivers.sent[-1][0] == "https://slow.example/"
    assert len(outbox.receivers.sent) == len(set(outbox.receivers.sent)) == 140
    assert AT_ONCE_TO_ONE < outbox.receivers.under_way[1] <= AT_ONCE


async def test_the_first_attempt_is_made_at_once(outbox, monkeypatch):
    monkeypatch.setattr("tppkit.sandbox.deliveries._TICK_S", 60)  # after which the watch looks by itself
    with outbox.watched():
        await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            await outbox.add(1)
            while not outbox.receivers.sent:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("sends", "turns"), [*((False, turns) for turns in range(4)), *((True, turns) for turns in range(16))]
)
async def test_a_watch_that_is_cancelled_just_as_it_wakes_or_sends_ends(outbox, sends, turns):
    task = asyncio.create_task(outbox.deliveries.watch())
    await asyncio.sleep(0.01)
    if sends:
        await outbox.add(1)
    outbox.deliveries.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=2)
    assert task.cancelled()


async def test_a_sender_that_raises_is_a_failed_attempt(outbox):
    outbox.receivers.answers[SHOP] = [RuntimeError("of the test")]
    await outbox.add(1)
    assert await outbox.run() == [1]
    assert await outbox.run(10) == [1]
    (one,) = await outbox.log()
    assert one.attempts[0].text == "the sender fails: RuntimeError"


async def test_a_result_that_cannot_be_written_is_not_sent_again(outbox, monkeypatch):
    monkeypatch.setattr("tppkit.sandbox.deliveries._RETRY_S", 0.01)
    full = text("CREATE TRIGGER full BEFORE INSERT ON delivery_attempts BEGIN SELECT RAISE(ABORT, 'full'); END")
    await outbox.add(1)
    await outbox.database.write(lambda db: db.execute(full))
    with pytest.raises(TransportError):
        await outbox.run()
    await outbox.database.write(lambda db: db.execute(text("DROP TRIGGER full")))
    assert await outbox.run() == []
    assert [(one.delivery.state, one.attempts[-1].text) for one in await outbox.log()] == [
        ("acknowledged", "status 200")
    ]


@pytest.mark.slow
async def test_an_attempt_during_which_the_process_is_killed_is_made_again(outbox, tmp_path):
    program = f"import test_deliveries; test_deliveries.send_forever({str(tmp_path / 'd')!r})"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sent 1\n"
        process.kill()
    assert await outbox.run() == [1, 2]
    assert [len(one.attempts) for one in await outbox.log()] == [1, 1]


def send_forever(path: str) -> None:
    class Slow(Receivers):
        async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
            print("sent", delivery.ver, flush=True)
            return await asyncio.Future()

    async def main() -> None:
        outbox = Outbox(f"sqlite:///{path}", Slow())
        await outbox.add(1, 2)
        await outbox.run()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fault", "sent", "texts"),
    [
        (Fault("duplicate"), [1, 1, 2], ["status 200", "status 200", "status 200"]),
        (Fault("drop", sender="shop"), [2], ["dropped by a fault", "status 200"]),
        (Fault("drop", sender="other"), [1, 2], ["status 200", "status 200"]),
        (Fault("reorder"), [2, 1], ["held by a fault until the next one of its stream is sent", "status 200", "status 200"]),
        (Fault("delay", delay_s=30), [], ["put off by 30 s by a fault"]),
    ],
)  # fmt: skip
async def test_faults_in_transit(outbox, fault, sent, texts):
    outbox.faults.add(fault)
    await outbox.add(1, 2)
    assert await outbox.run() == sent
    assert [text for one in await outbox.log() for _, _, text in one.attempts] == texts
    assert await outbox.run(30) == ([] if sent else [1, 2])


async def test_faults_of_several_deliveries_reorder_each_stream(outbox):
    outbox.faults.add(Fault("reorder", count=2))
    for stream in ("a", "b"):
        await outbox.add(1, 2, stream=stream)
        assert await outbox.run() == [2, 1]


async def test_a_reordered_delivery_waits_for_the_next_one(outbox):
    outbox.faults.add(Fault("reorder"))
    await outbox.add(1)
    assert await outbox.run() == []
    outbox.at += timedelta(hours=1)
    await outbox.add(2)
    assert await outbox.run() == [2, 1]


async def test_the_log_has_no_body(outbox):
    await outbox.add(1)
    await outbox.run()
    (one,) = await outbox.log()
    assert one.as_object() == {
        "id": 1, "address": SHOP, "stream": "payment", "ver": 1, "state": "acknowledged",
        "added_at": "2026-06-01T12:00:00Z", "due_at": None,
        "attempts": [{"at": "2026-06-01T12:00:00Z", "ok": True, "text": "status 200"}],
    }  # fmt: skip
