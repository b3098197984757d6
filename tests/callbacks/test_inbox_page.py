"""Every code block of the page about the inbox runs, in order, in one fresh folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "inbox.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run(tmp_path: Path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "python", "text", "python", "python"]
    command = [sys.executable, "-W", "error", "-c", "\n".join(text for kind, text in blocks if kind == "python")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == [
        "applied",
        "repeated",
        "stale",
        "stored",
        "r-3 applied",
        "applied",
        "callback.time-unknown",
    ]
