"""Build the site into site/<version>, without a network; a warning is an error.

    python tools/make_site.py [folder]

`site/index.html` leads to the version that was built last.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tppkit

ROOT = Path(__file__).parents[1]
FIRST = '<!doctype html><meta charset="utf-8"><title>tppkit</title><meta http-equiv="refresh" content="0; url={0}/index.html">\n'


def main() -> int:
    """Build it anew, so that nothing of an earlier build is left."""
    site = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "site"
    target = site / tppkit.__version__
    with tempfile.TemporaryDirectory() as trees:
        shutil.rmtree(target, ignore_errors=True)
        options = ["-q", "-W", "--keep-going", "-j", "2", "-d", trees]
        command = [sys.executable, "-m", "sphinx", "-b", "html", *options, str(ROOT / "docs"), str(target)]
        if subprocess.run(command, check=False).returncode:
            return 1
    (site / "index.html").write_text(FIRST.format(tppkit.__version__), "utf-8")
    print(f"{target}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
