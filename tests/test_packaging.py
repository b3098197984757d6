"""What the packages contain."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {".ci", ".github"}  # for this repository only


def built(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


def listed(*arguments: str) -> list[str]:
    """The files that git knows."""
    command = ["git", "ls-files", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_archive_of_sources_has_every_page_and_folder_and_every_file_of_the_package(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {line.partition("/")[0] for line in listed()} - NOT_SHIPPED <= {name.partition("/")[0] for name in packed}
    assert set(listed("src")) <= packed


def test_the_wheel_has_every_file_of_the_package(tmp_path):
    with zipfile.ZipFile(built("wheel", tmp_path)) as archive:
        packed = set(archive.namelist())
    assert {line.removeprefix("src/") for line in listed("src")} <= packed
