"""Where programs are: our own, and those of others that tests run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

TPPKIT = Path(sys.executable).with_name("tppkit")


def needed(program: str, package: str = "") -> str:
    """The path of a program; the test is skipped where it is not installed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}; install Debian's package {package or program}")
    return found
