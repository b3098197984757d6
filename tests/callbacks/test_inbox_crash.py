"""A receiver that dies at any statement, and comes back, has every effect once. `make crash` kills it twice each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inboxes import located, new_prefix

KILLS = os.environ.get("CRASH_KILLS", "1")
# The stores of SQLAlchemy take most time and run the same programs as the others: all of them by `make crash`.
FIRST = [(store, way) for store in ("sqlite", "postgresql", "redis") for way in ("handle", "work")]
LATER = [(store, way) for store in ("sqlalchemy-sqlite", "sqlalchemy-postgresql") for way in ("handle", "work")]


@pytest.mark.parametrize(("store", "way"), FIRST + LATER[: 1 if KILLS == "1" else None])
def test_every_effect_happens_once_wherever_the_process_dies(
    store: str, way: str, request: pytest.FixtureRequest, tmp_path: Path
):
    script = str(Path(__file__).with_name("crashing.py"))
    place = [store, located(store, tmp_path, request.getfixturevalue), new_prefix("crash")]
    command = [sys.executable, "-W", "error", script, *place, way, KILLS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    ends, again, *wrong = done.stdout.splitlines()
    assert wrong == []
    assert int(ends) > 40
    # The weaker promise is no pessimism: without a shared transaction there are ends after which an effect happens again.
    assert (int(again) > 0) == (store == "redis")


def poisoned(request: pytest.FixtureRequest, folder: Path, store: str, way: str, kills: int) -> Any:
    """What becomes of three callbacks, of which the second ends that many processes in a row."""
    script = str(Path(__file__).with_name("poisoning.py"))
    place = [store, located(store, folder, request.getfixturevalue), new_prefix("poison")]
    command = [sys.executable, "-W", "error", script, *place, way, str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    found = json.loads(done.stdout)
    assert found["ends"] == [signal.SIGKILL] * kills + [0, 0]
    return found


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "redis"])
@pytest.mark.parametrize(("way", "kills"), [("work", 2), ("handle", 4)])
def test_what_kills_its_process_again_and_again_is_applied_once_when_it_no_longer_does(
    store: str, way: str, kills: int, request: pytest.FixtureRequest, tmp_path: Path
):
    found = poisoned(request, tmp_path, store, way, kills)
    repeated = kills if store == "redis" else 0  # there each kill leaves its effect behind
    assert found["effects"] == ["t0 1", *["t1 1"] * (1 + repeated), "t2 1"]
    assert found["failed"] == []


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "redis"])
def test_what_kills_its_process_at_every_attempt_is_told_as_failed_and_holds_up_no_other(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
):
    found = poisoned(request, tmp_path, store, "work", 3)
    assert sorted(set(found["effects"])) == (["t0 1", "t1 1", "t2 1"] if store == "redis" else ["t0 1", "t2 1"])
    assert found["failed"] == [["r1", "lease-ended", True]]
