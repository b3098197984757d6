"""The README: its code blocks run in a fresh folder, and the links of the front pages lead to files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(README.read_text("utf-8"))


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    folders = [one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != Path(sys.executable).parent]
    environment = {**os.environ, "PATH": os.pathsep.join(folders), "PYTHONWARNINGS": "error"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_every_code_block_runs_in_order(tmp_path):
    # The programs are found as the README says: by the first line, which activates what `make demo` has set up.
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (shell, commands), (python, program) = _blocks()
    assert (shell, python) == ("sh", "python")
    result = _run(["sh", "-ec", commands], tmp_path)
    assert result.returncode == 0, result.stderr
    result = _run([sys.executable, "-c", program], tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "PSDLT-BL-LB000000 POST /psd2/v1/payments/sepa-credit-transfers\n"


def test_every_link_leads_to_a_file():
    for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)", (README.parent / name).read_text("utf-8")):
            assert (README.parent / target).is_file(), (name, target)


def test_every_guide_is_short_and_begins_with_its_end_and_its_first_command():
    docs = README.parent / "docs"
    for guide in sorted([*docs.glob("how-to/*.md"), *docs.glob("tutorials/*.md")]):
        text = re.sub(r"!\[[^]]+\]\([^)]+\)|<img [^>]+>", "", guide.read_text("utf-8"))
        assert len(text.split()) <= 1200, guide.name
        assert "At the end" in text.split("\n\n")[1], guide.name
        assert "```" in "\n".join(text.splitlines()[:30]), guide.name
