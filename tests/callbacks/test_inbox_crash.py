"""A receiver that dies at any statement, and comes back, has every effect once. `make crash` kills it twice each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
