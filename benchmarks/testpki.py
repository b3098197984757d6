"""What making test PKIs costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Line, within
from tppkit.testpki import make_pki

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def making() -> Iterator[Line]:
    """A set in memory, and the command with and without faults as a process."""
    yield within("make a P-256 test PKI", lambda: make_pki(at=AT), limit_us=60_000, rounds=100)
    yield within("pki create", lambda: create(), limit_us=1_000_000, rounds=5)
    yield within("pki create --faults", lambda: create("--faults"), limit_us=3_000_000, rounds=5)


def create(*options: str) -> None:
    """Run the command into a folder that is then removed."""
    with TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("tppkit")), "pki", "create", f"{folder}/certs", *options]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # our own command
