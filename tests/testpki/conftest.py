"""A written test PKI, and copies of it that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tppkit.testpki import Pki, write_pki


@pytest.fixture(scope="session")
def kept(pki: Pki, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "pki"
    write_pki(pki, path)
    return path


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "pki"))
