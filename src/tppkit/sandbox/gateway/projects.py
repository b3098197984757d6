"""Projects: merchants' accounts at the gateway, each with a key and settings. All of them are kept in memory."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    insert,
    select,
    update,
)

from tppkit._clock import from_microseconds, to_microseconds
from tppkit._files import PRIVATE, locked, make_folder, read_bounded, replace_file
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.protocol.gateway.orders import CREDIT_CARD
from tppkit.sandbox.gateway.tables import TABLES
from tppkit.web.keys import hash_key

MAX_PROJECTS = 1000  # each request compares its key with all of them
MAX_METHODS = 50  # their names have at most 40 characters each, and the column 2,400
METHODS = (CREDIT_CARD, "bank-transfer")
_API_KEY = re.compile(r"[0-9a-f]{32}")

_PROJECTS = Table(
    "gateway_projects", TABLES,
    Column("id", String(36), primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    Column("webhook_url", String(2400)),
    Column("payment_methods", String(2400), nullable=False),
    Column("aft", Boolean, nullable=False),
    Column("is_test", Boolean, nullable=False),
    Column("lag_seconds", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)  # fmt: skip
_ALL, _ADD = select(_PROJECTS), insert(_PROJECTS)
_SET_WEBHOOK_URL = update(_PROJECTS).where(_PROJECTS.c.id == bindparam("of_id")).values(webhook_url=bindparam("to_url"))


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

    id: str
    key_hash: bytes
    created_at: datetime
    webhook_url: str | None = None
    payment_methods: tuple[str, ...] = METHODS
    aft: bool = False
    is_test: bool = True
    lag_seconds: int = 0

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


class Projects:
    """The projects of a sandbox. The key of the first project is stored in the folder.

    Attributes:
        api_key: key of the first project.
        keys: the hash of each project's key, by project id; grows with `keep`.
    """

    def __init__(self, folder: Path) -> None:
        self.api_key = _open_key(folder)
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
        for row in db.execute(_ALL):
            self.keep(
                Project(
                    id=row.id,
                    key_hash=bytes(row.key_hash),
                    created_at=from_microseconds(row.created_at),
                    webhook_url=row.webhook_url,
                    payment_methods=tuple(json.loads(row.payment_methods)),
                    aft=row.aft,
                    is_test=row.is_test,
                    lag_seconds=row.lag_seconds,
                )
            )
        if self.first_id not in self._by_id:
            first = Project(id=self.first_id, key_hash=hash_key(self.api_key), created_at=at)
            self.add(db, first)
            self.keep(first)

    def add(self, db: Connection, project: Project) -> None:
        """Store a new project; `keep` it after the commit.

        Raises:
            LocalProtocolError: `project.too-many`.
        """
        if len(self._by_id) >= MAX_PROJECTS:
            raise LocalProtocolError("project.too-many", f"there are {MAX_PROJECTS} projects")
        db.execute(
            _ADD,
            {
                "id": project.id, "key_hash": project.key_hash,
                "webhook_url": project.webhook_url, "payment_methods": json.dumps(project.payment_methods), "aft": project.aft,
                "is_test": project.is_test, "lag_seconds": project.lag_seconds,
                "created_at": to_microseconds(project.created_at),
            },
        )  # fmt: skip

    def set_webhook_url(self, db: Connection, url: str) -> None:
        """Set the address for webhooks of the first project, which is stored."""
        db.execute(_SET_WEBHOOK_URL, {"of_id": self.first_id, "to_url": url})
        self.keep(replace(self[self.first_id], webhook_url=url))

    def keep(self, project: Project) -> None:
        """Accept requests with the key of a stored project, and use its settings."""
        self._by_id[project.id] = project
        self._keys[project.id] = project.key_hash


@cache  # each order of a page shows it
def _merchant_id(project_id: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"merchant:{project_id}"))


def _open_key(folder: Path) -> str:
    """Read the key of the first project, which is made if absent.

    Raises:
        ConfigurationError: `gateway.key`, `file.unwritable`.
        FormatError: `file.unreadable`.
    """
    make_folder(folder)
    path = folder / "api-key"
    with locked(folder):
        if not path.exists():
            replace_file(path, secrets.token_hex(16).encode(), mode=PRIVATE)
        text = read_bounded(path, max_bytes=4096).decode("latin-1").strip()
    if not _API_KEY.fullmatch(text):
        raise ConfigurationError(
            "gateway.key", f"{path} is not an API key of 32 hexadecimal digits: remove it to get a new one"
        )
    return text
