"""An archive of an earlier release stays readable, and its signatures verify again."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tppkit.cli.main import main

ARCHIVE = Path(__file__).parent / "kept-archive"
ROOT = Path(__file__).parent / "kept-archive-root.pem"
HEAD = "9c6585167089953db21372d0de076ec85e2073eeaa134a395b89444cf66be9b5"


def test_an_archive_of_november_2026_verifies():
    arguments = ["audit", "verify", str(ARCHIVE), "--trust", str(ROOT), "--expect-head", HEAD, "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert '"passed": 2' in result.stdout
