"""An inbox over each kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest
from inboxes import STORES, Case, open_case

from tppkit.callbacks import Inbox


@pytest.fixture(params=STORES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return open_case(request.param, tmp_path, request)


@pytest.fixture
def inbox(case: Case) -> Inbox:
    return case.inbox()
