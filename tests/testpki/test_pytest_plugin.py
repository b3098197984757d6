"""The plugin as a user's test suite has it: a run of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tppkit.certificates import Use
from tppkit.trust import PathVerifier, make_anchors

SUITE = """
import pytest

@pytest.fixture(scope="session")
def first(tppkit_pki):
    return tppkit_pki

def test_it_is_made_once_and_p256(tppkit_pki, first):
    assert tppkit_pki is first
    assert tppkit_pki.qwac.certificate.key.curve == "P-256"

def test_the_other_is_another(tppkit_pki):
    assert tppkit_pki.other_qwac.certificate.organization_identifier != tppkit_pki.qwac.certificate.organization_identifier

def test_that_fails(tppkit_pki):
    assert tppkit_pki.qwac.certificate == tppkit_pki.qseal.certificate
"""


def test_a_users_suite_gets_the_fixture(tmp_path):
    (tmp_path / "test_mine.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tppkit.testpki.pytest_plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=alone, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    listed = subprocess.run(
        [*command, "--fixtures"], env=alone, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "tppkit_pki [session scope]" in listed.stdout


def test_it_is_loaded_wherever_the_package_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tppkit": "tppkit.testpki.pytest_plugin"}


def test_what_it_gives_is_valid_today(tppkit_pki):
    paths = PathVerifier(make_anchors(tppkit_pki.authorities))
    at = tppkit_pki.not_before
    assert paths.verify_use(tppkit_pki.qwac.certificate, as_=Use.QWAC, at=at)
    assert paths.verify_use(tppkit_pki.other_qseal.certificate, as_=Use.QSEALC, at=at)
