"""The example of the outbox on the page about evidence runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_of_the_outbox_runs() -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8").partition("\n## Outbox\n")[2])
    assert [kind for kind, _ in blocks] == ["python", "python", "text"]
    command = [sys.executable, "-W", "error", "-c", "\n".join(text for kind, text in blocks if kind == "python")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", blocks[-1][1])
