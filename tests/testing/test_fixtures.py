"""The plugin in a user's test suite: a separate run of pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tppkit.certificates import Use
from tppkit.trust import PathVerifier, make_anchors

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
SUITE = """
from datetime import date, timedelta

import pytest

from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, ConsentRequest

CONSENT = ConsentRequest(
    access=Access(all_psd2=ALL_ACCOUNTS), valid_until=date.today() + timedelta(days=9), frequency_per_day=4
)

@pytest.fixture(scope="session")
def first(tppkit_pki):
    return tppkit_pki

def test_it_is_made_once_and_p256(tppkit_pki, first):
    assert tppkit_pki is first
    assert tppkit_pki.qwac.certificate.key.curve == "P-256"

def test_the_other_qwac_names_another_organisation(tppkit_pki):
    assert tppkit_pki.other_qwac.certificate.organization_identifier != tppkit_pki.qwac.certificate.organization_identifier

first_banks = []

def test_a_bank_has_the_pki(tppkit_bank, tppkit_pki):
    assert tppkit_bank.pki is tppkit_pki
    first_banks.append(tppkit_bank.directory)

def test_the_next_test_has_another_bank(tppkit_bank):
    assert tppkit_bank.directory not in first_banks
    assert not first_banks[0].exists()

@pytest.mark.tppkit_bank(persona="berlin-group")
def test_a_marker_gives_the_bank_a_persona(tppkit_bank):
    with pytest.raises(Exception, match="PSU-IP-Address"):
        tppkit_bank.client().create_consent(CONSENT)
    assert tppkit_bank.client().create_consent(CONSENT, psu_ip_address="192.0.2.1").links.self_.href.startswith("/v1/consents/")

def test_a_gateway_is_beside_the_bank(tppkit_gateway, tppkit_bank):
    assert tppkit_gateway is tppkit_bank.gateway

def test_that_fails(tppkit_pki):
    assert tppkit_pki.qwac.certificate == tppkit_pki.qseal.certificate
"""


def run_suite(folder: Path, suite: str, *options: str) -> str:
    (folder / "test_mine.py").write_text(suite)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tppkit.testing", *options]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, env=alone, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    ).stdout  # fmt: skip


def test_a_users_suite_gets_the_fixtures(tmp_path):
    assert "1 failed, 6 passed" in run_suite(tmp_path, SUITE)
    listed = run_suite(tmp_path, SUITE, "--fixtures")
    assert "tppkit_pki [session scope]" in listed
    assert "tppkit_bank -- " in listed
    assert "tppkit_gateway -- " in listed


def test_the_examples_of_the_guide_pass(tmp_path):
    guide = (PROJECT / "docs/how-to/test-your-code.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert "8 passed" in run_suite(tmp_path, "\n".join(examples), "--strict-markers")


def test_it_is_loaded_wherever_the_package_is_installed():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tppkit.testing": "tppkit.testing"}


def test_only_the_fixtures_need_pytest():
    program = "import sys; sys.modules['pytest'] = None; import tppkit.sandbox, tppkit.client; tppkit.sandbox.Sandbox"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_the_pki_of_the_fixture_is_valid_today(tppkit_pki):
    paths = PathVerifier(make_anchors(tppkit_pki.authorities))
    at = tppkit_pki.not_before
    assert paths.verify_use(tppkit_pki.qwac.certificate, as_=Use.QWAC, at=at)
    assert paths.verify_use(tppkit_pki.other_qseal.certificate, as_=Use.QSEALC, at=at)
