"""What every test may use: settings of Hypothesis, a test PKI in memory, and the shared data folder."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from servers import postgresql_url
from tppkit._clock import utc_now
from tppkit.seals import KeySigner, Seal, SealPolicy
from tppkit.testpki import Issued, Pki, make_pki, make_provider, write_pki
from tppkit.trust import PathVerifier, make_anchors

__all__ = ["postgresql_url"]

settings.register_profile(
    "quick", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

TESTS = Path(__file__).parent
SHARED = TESTS.parents[1] / "shared" / "data"
NO_SHARED = "needs the folder shared/data beside the checkout; these checks run where it is present"
AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


# What `make test` leaves out: databases, proxies and servers of others, processes that are killed, whole matrices, fuzzing.
MARKED = re.compile(rb"^pytestmark = .*\bslow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the files that `pytestmark` marks as slow for `make test`."""
    if (
        config.option.markexpr != "not slow"
        or collection_path.suffix != ".py"
        or not collection_path.is_relative_to(TESTS)
    ):
        return None
    return True if MARKED.search(collection_path.read_bytes()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a PostgreSQL server as slow."""
    for item in items:
        asks = [*getattr(item, "fixturenames", ()), item.name.partition("[")[2]]
        if any("postgresql" in one for one in asks):
            item.add_marker("slow")


def is_counted(skip: pytest.TestReport | pytest.CollectReport) -> bool:
    return SHARED.is_dir() or NO_SHARED not in str(skip.longrepr)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where TPPKIT_NO_SKIPS is set, a skipped test is a failed run: there all it needs should be present, but the folder shared/data."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        os.environ.get("TPPKIT_NO_SKIPS")
        and reporter is not None
        and any(map(is_counted, reporter.stats.get("skipped", ())))
    ):
        reporter.write_line("skipped tests, where none may be: see the reasons below", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of test data that this project did not write; tests with it carry the marker `shared`."""
    if not SHARED.is_dir():
        pytest.skip(NO_SHARED)
    return SHARED


@pytest.fixture(scope="session")
def pki() -> Pki:
    """A P-256 test PKI, the same every time."""
    return make_pki(at=AT, seed=1)


@pytest.fixture(scope="session")
def bank_pki() -> Pki:
    """A test PKI that is valid today, because TLS uses the machine's clock."""
    return make_pki(at=utc_now(), seed=11)


@pytest.fixture(scope="session")
def bank_pki_folder(bank_pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank") / "pki"
    write_pki(bank_pki, folder)
    return folder


@pytest.fixture(scope="session")
def rsa_pki() -> Pki:
    """An RSA-2048 test PKI."""
    return make_pki(at=AT, key="rsa2048")


@pytest.fixture(scope="session")
def paths(pki: Pki) -> PathVerifier:
    """Trusts what `pki` issued."""
    return PathVerifier(make_anchors(pki.authorities))


@pytest.fixture(scope="session")
def seal(pki: Pki) -> Seal:
    """The seal of the provider of `pki`."""
    return Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))


@pytest.fixture
def policy(paths: PathVerifier) -> SealPolicy:
    """A fresh policy that has seen no seal yet."""
    return SealPolicy(paths)


@pytest.fixture(scope="session")
def other_qseal(pki: Pki) -> Issued:
    """A seal of another organisation, from the same authority."""
    other = make_provider(organization_identifier="PSDDE-BAFIN-999999", name="Another Provider TEST")
    return pki.issue_qseal(other, label="other-qseal")
