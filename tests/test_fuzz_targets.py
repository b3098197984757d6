"""Every reader that is fuzzed: a short pass over its seeds and over changes of them, and a few seconds of libFuzzer."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from targets import TARGETS

pytestmark = pytest.mark.slow

FUZZ = Path(__file__).parents[1] / "fuzz" / "run.py"
CHANGES = 300


def changed(seed: bytes, chance: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[place : place + chance.randrange(1, 16)]
            case 2:
                data[place:place] = data[chance.randrange(len(data) + 1) :][:32]
            case _:
                data[place : place + 4] = chance.choice(
                    (b"\xff\xff\xff\xff", b"\x30\x80\x30\x80", b"\x84\x7f\xff\xff", b"\x00" * 4)
                )
    return bytes(data)


def inputs(name: str) -> Iterator[bytes]:
    seeds = TARGETS[name].seeds()
    chance = random.Random(name)
    yield from (b"", *seeds)
    for number in range(CHANGES):
        yield changed(seeds[number % len(seeds)], chance)


@pytest.mark.parametrize("name", TARGETS)
def test_only_format_errors_escape(name):
    for data in inputs(name):
        TARGETS[name].run(data)


def test_libfuzzer_finds_nothing_within_seconds(tmp_path):
    pytest.importorskip("atheris", reason="needs atheris, which the dev extra installs on Linux")
    command = [sys.executable, str(FUZZ), "certificate", "qcstatements", "--seconds", "3"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok") == 2
    assert list(tmp_path.iterdir()) == []
