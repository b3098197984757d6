"""A pytest plugin: test suites of users get the fixture `tppkit_pki`, a P-256 test PKI in memory, made once a session.

def test_my_server_refuses_another_organisation(tppkit_pki):
    certificate, key = tppkit_pki.other_qwac.certificate, tppkit_pki.other_qwac.key
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tppkit.testpki import Pki


@pytest.fixture(scope="session")
def tppkit_pki() -> Pki:
    """A test PKI valid from today: root, authorities, two providers, server, OCSP responders, time-stamping authority."""
    from tppkit._clock import utc_now  # imported here, so that suites which do not use it pay nothing
    from tppkit.testpki import make_pki

    return make_pki(at=utc_now())
