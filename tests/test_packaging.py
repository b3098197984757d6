"""What the archive of the sources contains."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {".ci"}  # for this repository only


def test_the_archive_of_sources_has_every_page_and_folder(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {Path(name).parts[1] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert {line.partition("/")[0] for line in listed.splitlines()} - NOT_SHIPPED <= packed
