"""The codes that every test may draw."""

from __future__ import annotations

import pytest
from drawing import CODES

from tppkit.qr import Code


@pytest.fixture(params=CODES.values(), ids=CODES.keys())
def code(request: pytest.FixtureRequest) -> Code:
    """Each kind of code, in every way that its text is encoded."""
    return request.param
