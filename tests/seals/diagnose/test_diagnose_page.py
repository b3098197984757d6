"""Every code block of the page about diagnoses runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "diagnose.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    assert BLOCKS["text"] in run(["sh", "-ec", BLOCKS["sh"]], tmp_path)


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    assert run([sys.executable, "-c", BLOCKS["python"]], tmp_path) == "explained ['target-base-path-stripped']\n"
