"""The request that most tests of seals are about, sealed."""

from __future__ import annotations

import pytest
from sealing import REQUEST

from tppkit.message import Message
from tppkit.seals import Seal, sign_request


@pytest.fixture(scope="session")
def sealed(seal: Seal) -> Message:
    return sign_request(REQUEST, seal=seal)
