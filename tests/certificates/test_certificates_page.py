"""Every code block of the page about certificates runs, in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run():
    blocks = BLOCK.findall((ROOT / "docs" / "certificates.md").read_text("utf-8"))
    assert len(blocks) == 3
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "PSDLT-BL-LB000000 ('PSP_PI', 'PSP_AI')\n"
