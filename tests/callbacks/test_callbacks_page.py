"""Every code block of the page about callbacks runs, in order, in one fresh folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "callbacks.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocks_of_the_page_run(tmp_path):
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert [kind for kind, _ in blocks] == ["sh", "python", "python", "sh"]
    run(["sh", "-ec", blocks[0][1]], tmp_path)
    printed = run([sys.executable, "-c", blocks[1][1] + blocks[2][1]], tmp_path).splitlines()
    assert printed[0] == "live-2026 https://tpp.example/cb/ 2030-01-01 12:00:00+00:00"
    assert [line.partition(" ")[0] for line in printed[1:]] == ["callback.signature", "callback-cause.body-changed"]
    told = run(["sh", "-ec", blocks[3][1]], tmp_path)
    assert told.startswith("holds")
    assert "callback-cause.url-slash" in told
