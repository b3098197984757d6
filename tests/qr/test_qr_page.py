"""Every code block of the page about QR codes runs, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "qr.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks(kind: str) -> str:
    return "\n".join(text for found, text in BLOCK.findall(PAGE.read_text("utf-8")) if found == kind)


def test_the_python_blocks_say_what_the_page_says(tmp_path):
    text = "TX:LT121000011101001000:Bookshop:EUR:12.50::Order 4711"
    assert run([sys.executable, "-W", "error", "-c", blocks("python")], tmp_path).splitlines() == [
        text,
        "https://legacy.example/scan?TX%3ALT121000011101001000%3ABookshop%3AEUR%3A12.50%3A%3AOrder%204711",
        "True",
        "True",
        f"('{text}',)",
    ]


def test_the_commands_run(tmp_path):
    lines = run(["sh", "-ec", blocks("sh")], tmp_path).splitlines()
    assert "LOGIN:shop.example/login/7c1f" in lines
    assert sorted(file.name for file in tmp_path.iterdir()) == ["login.png", "login.svg"]
