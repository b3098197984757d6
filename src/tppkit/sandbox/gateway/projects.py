"""Projects: merchants' accounts at the gateway, each with a key and settings. All of them are kept in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Connection, Integer, String, select

from tppkit._files import locked, make_folder
from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.orders import CREDIT_CARD
from tppkit.sandbox.api_keys import read_or_make_api_key
from tppkit.sandbox.gateway.tables import TABLES, Uuid
from tppkit.sql.records import KEY, Form, Records
from tppkit.sql.statement import Statement
from tppkit.web.keys import hash_key

MAX_PROJECTS = 1000  # each request compares its key with all of them
MAX_METHODS = 50  # their names have at most 40 characters each, and the column 2,400
METHODS = (CREDIT_CARD, "bank-transfer")
_METHODS = Form(String(2400), json.dumps, lambda text: tuple(json.loads(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A merchant's account.

    Attributes:
        id: UUID.
        key_hash: SHA-256 of its key.
        created_at: aware UTC.
        webhook_url: the address for status changes of orders without their own address.
        payment_methods: the active methods, which the order page shows.
        aft: whether account funding transactions are enabled.
        is_test: whether its orders have the test flag.
        lag_seconds: how long an order in an own checkout stays processing after its transaction is final.
    """

    id: Annotated[Uuid, KEY]
    key_hash: bytes
    created_at: datetime
    webhook_url: Annotated[str | None, String(2400)] = None
    payment_methods: Annotated[tuple[str, ...], _METHODS] = METHODS
    aft: bool = False
    is_test: bool = True
    lag_seconds: Annotated[int, Integer()] = 0

    @property
    def merchant_id(self) -> str:
        """The merchant of the project; each has one."""
        return _merchant_id(self.id)

    def offered(self, listed: Collection[str] | None) -> tuple[str, ...]:
        """The methods that a hosted page offers, a card first (assumption offered-methods).

        Args:
            listed: payment_methods of the order or link.

        Raises:
            LocalProtocolError: `order.method`, the project has none of them.
        """
        offered = [one for one in self.payment_methods if listed is None or one in listed]
        if not offered:
            raise LocalProtocolError("order.method", f"payment_methods has none of {', '.join(self.payment_methods)}")
        return tuple(sorted(offered, key=lambda name: name != CREDIT_CARD))


PROJECTS = Records(Project, "gateway_projects", TABLES, changing=["webhook_url"])
_ALL = Statement(select(PROJECTS.table))


class Projects:
    """The projects of a sandbox. The key of the first project is stored in the folder.

    Attributes:
        api_key: key of the first project.
        keys: the hash of each project's key, by project id; grows with `keep`.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        with locked(folder):
            self.api_key = read_or_make_api_key(folder / "api-key", code="gateway.key")
        self._by_id: dict[str, Project] = {}
        self._keys: dict[str, bytes] = {}
        self.keys: Mapping[str, bytes] = MappingProxyType(self._keys)

    def __contains__(self, project_id: str) -> bool:
        return project_id in self._by_id

    def __getitem__(self, project_id: str) -> Project:
        return self._by_id[project_id]

    @property
    def first_id(self) -> str:
        """The id of the first project."""
        return str(uuid5(NAMESPACE_URL, f"project:{hash_key(self.api_key).hex()}"))

    def load(self, db: Connection, *, at: datetime) -> None:
        """Read the projects, and add the first one if it is absent."""
        for project in PROJECTS.all(db, _ALL, {}):
            self.keep(project)
        if self.first_id not in self._by_id:
            first = self.first(webhook_url=None, at=at)
            self.add(db, first)
            self.keep(first)

    def first(self, *, webhook_url: str | None, at: datetime) -> Project:
        """Return the first project as it is in a new sandbox, to store it in the empty table and to `keep_only` it after the commit."""
        return Project(id=self.first_id, key_hash=hash_key(self.api_key), created_at=at, webhook_url=webhook_url)

    def keep_only(self, project: Project) -> None:
        """Forget all projects but this one."""
        self._by_id.clear()
        self._keys.clear()
        self.keep(project)

    def add(self, db: Connection, project: Project) -> None:
        """Store a new project; `keep` it after the commit.

        Raises:
            LocalProtocolError: `project.too-many`.
        """
        if len(self._by_id) >= MAX_PROJECTS:
            raise LocalProtocolError("project.too-many", f"there are {MAX_PROJECTS} projects")
        PROJECTS.add(db, project)

    def set_webhook_url(self, db: Connection, url: str) -> None:
        """Set the address for webhooks of the first project, which is stored."""
        project = replace(self[self.first_id], webhook_url=url)
        PROJECTS.set(db, project)
        self.keep(project)

    def keep(self, project: Project) -> None:
        """Accept requests with the key of a stored project, and use its settings."""
        self._by_id[project.id] = project
        self._keys[project.id] = project.key_hash


@cache  # each order of a page shows it
def _merchant_id(project_id: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"merchant:{project_id}"))
