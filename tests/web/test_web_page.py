"""Every code block of the page about the middleware runs, in order, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run() -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "web.md").read_text("utf-8"))
    assert [kind for kind, _ in blocks] == ["python", "python", "text"]
    command = [sys.executable, "-W", "error", "-c", "\n".join(text for kind, text in blocks if kind == "python")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # The two refusals are logged, and Python writes warnings to stderr where no logging is configured.
    assert re.findall(r"\[([a-z.-]+)\]$", done.stderr, re.MULTILINE) == ["digest.mismatch", "certificate.missing"]
    assert len(done.stderr.splitlines()) == 2
    assert done.stdout == "".join(text for kind, text in blocks if kind == "text")
