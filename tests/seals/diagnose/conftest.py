"""Keys and certificates of each kind."""

from __future__ import annotations

import pytest

from tppkit.testpki import Pki


@pytest.fixture(scope="session")
def pkis(pki: Pki, rsa_pki: Pki) -> dict[str, Pki]:
    """A test PKI of each kind of key."""
    return {"ec": pki, "rsa": rsa_pki}
