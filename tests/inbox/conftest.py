"""Stores of each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest
from inbox_cases import open_store

from tppkit.inbox.store import InboxStore


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store(request.param, tmp_path, request)


@pytest.fixture
def sqlite_store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store("sqlite", tmp_path, request)


@pytest.fixture
def postgresql_store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    return open_store("postgresql", tmp_path, request)
