"""A receiver that is killed under concurrent deliveries loses and repeats no effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from killed_receiver import RECORDS

pytestmark = pytest.mark.slow

KILLS = os.environ.get("CRASH_KILLS", "50")
SEED = "16"


@pytest.mark.parametrize(
    ("kind", "how"), [("sqlite", "threads"), ("sqlite", "tasks"), ("postgresql", "threads"), ("postgresql", "tasks")]
)
def test_each_entry_takes_effect_once_however_often_its_receiver_is_killed(kind, how, request, tmp_path):
    url = f"sqlite:///{tmp_path}/killed.sqlite"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
    script = str(Path(__file__).with_name("killed_receiver.py"))
    done = subprocess.run(
        [sys.executable, script, url, KILLS, SEED, how], capture_output=True, text=True, timeout=900, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    found = json.loads(done.stdout)
    effects, last = Counter(found["effects"]), found["last"]
    assert max(effects.values()) == 1
    assert found["acknowledged"] == list(range(last))
    assert set(range(0, last, 2)) <= effects.keys()  # the entries without a version
    for record in range(RECORDS):
        versions = [number for number in found["effects"] if number % 2 and number // 2 % RECORDS == record]
        assert versions == sorted(versions)
        assert versions[-1] == max(n for n in range(1, last, 2) if n // 2 % RECORDS == record)
