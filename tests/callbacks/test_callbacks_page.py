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
    assert [kind for kind, _ in blocks] == ["sh", "python", "python", "python", "sh"]
    run(["sh", "-ec", blocks[0][1]], tmp_path)
    printed = run([sys.executable, "-c", "".join(text for _, text in blocks[1:4])], tmp_path).splitlines()
    assert printed[0] == "live-2026 https://tpp.example/cb/ 2030-01-01 12:00:00+00:00"
    assert printed[1:3] == ["granted until 2030-01-01 12:00:00+00:00", "evidence of r-1 applied"]
    assert printed[3:9] == ["200", "evidence of r-1 repeated", "200", "400", "403", "404"]
    assert [line.partition(" ")[0] for line in printed[9:]] == ["callback.signature", "callback-cause.body-changed"]
    told = run(["sh", "-ec", blocks[4][1]], tmp_path)
    assert told.startswith("holds")
    assert "callback-cause.url-slash" in told
