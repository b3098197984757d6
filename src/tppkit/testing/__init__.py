"""Fixtures for users' tests: a pytest plugin that is active wherever tppkit is installed.

def test_my_server_refuses_another_organisation(tppkit_pki):
    certificate, key = tppkit_pki.other_qwac.certificate, tppkit_pki.other_qwac.key

def test_my_checkout_waits_for_the_bank(tppkit_bank):
    client = tppkit_bank.client(roles=["PSP_PI"])

def test_my_shop_ships_what_was_paid(tppkit_gateway):
    client = tppkit_gateway.client()

`assert_no_pan` checks that no card number of a test is in databases, logs, files or answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tppkit._extras import needs_extra

with needs_extra("testing"):
    import pytest

from tppkit.testing.pan import Searched, assert_no_pan

if TYPE_CHECKING:
    from tppkit.sandbox import Gateway, Sandbox
    from tppkit.testpki import Pki

__all__ = ["Searched", "assert_no_pan", "tppkit_bank", "tppkit_gateway", "tppkit_pki"]

# The fixtures import what they need, so that suites without them do not load it.


@pytest.fixture(scope="session")
def tppkit_pki() -> Pki:
    """A P-256 test PKI valid from today: root, authorities, two providers, server, OCSP responders, time-stamping authority."""
    from tppkit._clock import utc_now
    from tppkit.testpki import make_pki

    return make_pki(at=utc_now())


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of `tppkit_bank`."""
    config.addinivalue_line(
        "markers",
        "tppkit_bank(*, persona='document', rules=None, profile=None, prefix=None, sign_answers=False, seed=None): "
        "the arguments of the Sandbox of tppkit_bank",
    )


@pytest.fixture
def tppkit_bank(request: pytest.FixtureRequest, tppkit_pki: Pki) -> Iterator[Sandbox]:
    """A bank in this process for one test, with the PKI of `tppkit_pki`; needs the extra `sandbox`.

    The nearest marker gives further arguments of `Sandbox`: `@pytest.mark.tppkit_bank(rules=BankRules(technical_validation=True))`.
    """
    from tppkit.sandbox import Sandbox

    marker = request.node.get_closest_marker("tppkit_bank")
    with Sandbox(pki=tppkit_pki, **(marker.kwargs if marker else {})) as bank:
        yield bank


@pytest.fixture
def tppkit_gateway(tppkit_bank: Sandbox) -> Gateway:
    """A payment gateway in this process for one test; it shares the sandbox and the clock of `tppkit_bank`."""
    return tppkit_bank.gateway
