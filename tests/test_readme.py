"""Every code block of the README runs, in order, in one fresh folder."""

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


def test_every_block_is_of_a_kind_that_runs_here() -> None:
    assert {kind for kind, _ in _blocks()} == {"sh", "python"}


def test_a_block_that_needs_an_extra_is_introduced_with_its_name() -> None:
    text = README.read_text("utf-8")
    for block in re.finditer(r"^```python\n.*?^```$", text, re.MULTILINE | re.DOTALL):
        introduction = text[: block.start()].rstrip().rpartition("\n\n")[2]
        assert ("tppkit.sandbox import" in block[0]) == ("extra `sandbox`" in introduction)


def test_every_code_block_runs_in_order(tmp_path: Path) -> None:
    # The programs are found as the README says: by the first block, which activates what `make demo` has set up.
    (tmp_path / ".venv").symlink_to(sys.prefix)
    activation = _blocks()[0][1].splitlines()[0]
    # Python blocks go on where the one before ended; a shell block between them runs on its own.
    so_far = ""
    printed = ""
    for kind, text in _blocks():
        if kind == "python":
            so_far += text + "\n"
            continue
        if so_far:
            result = _run([sys.executable, "-c", so_far], tmp_path)
            assert result.returncode == 0, result.stderr
            printed = result.stdout
            so_far = ""
        result = _run(["sh", "-ec", f"{activation}\n{text}"], tmp_path)
        assert result.returncode == 0, result.stderr
    assert so_far == ""
    assert printed.splitlines()[0] == "PSDLT-BL-LB000000"
    assert "ACSC" in printed
    assert printed.splitlines()[-1] == "0 passed PSDLT-BL-LB000000"
