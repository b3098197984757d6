"""Two receivers get one event at the same moment, and one of them has its effect."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from inboxes import AT, STORES, Case, located, login, memory_case, new_prefix, open_case, outcome, receiver

from tppkit.callbacks import Inbox, Outcome

SHARED = [name for name in STORES if name != "memory"]
COUNT = 40


def race(store: str, location: str, prefix: str, way: str) -> list[list[str]]:
    """What two processes print that start at the same moment."""
    script = str(Path(__file__).with_name("racing.py"))
    command = [sys.executable, "-W", "error", script, store, location, prefix, way, str(COUNT)]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        return [racer.communicate("go\n", timeout=60)[0].splitlines() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    return request.param, located(request.param, tmp_path, request.getfixturevalue), new_prefix("race")


def test_of_two_processes_one_has_the_effect(place: tuple[str, str, str]):
    with open_case(*place) as case:
        printed = race(*place, way="handle")
        assert [len(lines) for lines in printed] == [COUNT, COUNT]
        for number in range(COUNT):
            both = sorted(lines[number].split()[1] for lines in printed)
            assert both in (["applied", "repeated"], ["applied", "busy"]), f"callback {number}"
        assert sorted(case.effects()) == sorted(f"r{n} -" for n in range(COUNT))


def test_of_two_workers_one_takes_each_callback(place: tuple[str, str, str]):
    with open_case(*place) as case:
        inbox = Inbox(receiver(), case.store)
        for n in range(COUNT):
            inbox.accept(login(f"r{n}"), at=AT)
        printed = race(*place, way="work")
        assert sorted(line for lines in printed for line in lines) == sorted(f"r{n} applied" for n in range(COUNT))
        assert sorted(case.effects()) == sorted(f"r{n} -" for n in range(COUNT))


def in_threads(case: Case, deliveries: list[Any]) -> Counter[Outcome]:
    """The outcomes of deliveries that as many threads hand to one inbox at the same moment."""
    inbox = Inbox(receiver(), case.store)
    start = threading.Barrier(len(deliveries))

    def deliver(received: Any) -> Outcome:
        start.wait()
        return inbox.handle(received, case.handler, at=AT).outcome

    with ThreadPoolExecutor(len(deliveries)) as threads:
        return Counter(threads.map(deliver, deliveries))


@pytest.mark.parametrize("store", STORES)
def test_of_many_threads_one_has_the_effect(store: str, request: pytest.FixtureRequest, tmp_path: Path):
    with open_case(store, located(store, tmp_path, request.getfixturevalue), new_prefix("race")) as case:
        for n in range(10):
            outcomes = in_threads(case, [login(f"r{n}")] * 4)
            assert outcomes[Outcome.APPLIED] == 1
            assert outcomes[Outcome.APPLIED] + outcomes[Outcome.REPEATED] + outcomes[Outcome.BUSY] == 4
        assert sorted(case.effects()) == sorted(f"r{n} -" for n in range(10))


@pytest.mark.parametrize("store", [name for name in SHARED if name != "redis"])
def test_versions_that_race_are_applied_upwards(store: str, request: pytest.FixtureRequest, tmp_path: Path):
    with open_case(store, located(store, tmp_path, request.getfixturevalue), new_prefix("race")) as case:
        in_threads(case, [outcome(f"r{ver}", ver=ver) for ver in (3, 1, 4, 2)])
        applied = [int(line.split()[1]) for line in case.effects()]
        assert applied == sorted(applied)
        assert applied[-1] == 4


def test_threads_share_a_memory_store():
    case = memory_case()
    outcomes = in_threads(case, [outcome(f"r{n}", record=f"t{n}") for n in range(8)])
    assert outcomes == {Outcome.APPLIED: 8}
    assert len(case.effects()) == 8
