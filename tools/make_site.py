"""Build the site into site/<version>, without a network; a warning is an error.

    python tools/make_site.py [folder]

Versions that were built before stay. `latest` is a copy of the highest, and `index.html` leads to it. `versions.json` lists all, highest
first; pages read the list from `versions.js`, because a page that is opened from disk can load a script only.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.version import Version

import tppkit

ROOT = Path(__file__).parents[1]
FIRST = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>tppkit</title>'
    '<meta http-equiv="refresh" content="0; url=latest/index.html"><a href="latest/index.html">tppkit</a></html>\n'
)


def main() -> int:
    """Build it anew; an earlier build stays if this one fails."""
    site = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "site"
    target = site / tppkit.__version__
    with tempfile.TemporaryDirectory() as built:
        trees, pages = Path(built, "trees"), Path(built, "pages")
        options = ["-q", "-W", "--keep-going", "-j", "2", "-d", str(trees)]
        command = [sys.executable, "-m", "sphinx", "-b", "html", *options, str(ROOT / "docs"), str(pages)]
        if subprocess.run(command, check=False).returncode:
            return 1
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(pages, target)
    list_versions(site)
    print(f"{target}/index.html")
    return 0


def list_versions(site: Path) -> None:
    """Write the lists of the versions in a folder, the copy of the latest, and the page that leads to it."""
    names = {path.parent.name for path in site.glob("*/index.html")} - {"latest"}
    versions = sorted(names, key=Version, reverse=True)
    shutil.rmtree(site / "latest", ignore_errors=True)
    shutil.copytree(site / versions[0], site / "latest")
    listed = json.dumps(versions)
    (site / "versions.json").write_text(f"{listed}\n", "utf-8")
    (site / "versions.js").write_text(f"window.siteVersions = {listed};\n", "utf-8")
    (site / "index.html").write_text(FIRST, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
