"""The settings of the gateway, and `Work`, the interface that its requests, events and control calls share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection

from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.projects import Project, Projects
from tppkit.sandbox.outgoing_http import Receivers


class Place(StrEnum):
    """The subject of a page; the word in its address."""

    ORDER = "orders"
    TRANSACTION = "transactions"
    LINK = "links"


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of the gateway and the vault.

    Attributes:
        projects: the projects of the merchants.
        cipher: encrypts stored cards.
        new_id: makes unguessable ids.
        pages_url: address of the pages, without a path.
        receivers: the addresses that webhooks can reach.
    """

    projects: Projects
    cipher: CardCipher = field(repr=False)
    new_id: Callable[[], str]
    pages_url: str
    receivers: Receivers

    def require_webhook_url(self, url: str | None) -> None:
        """Refuse an address for webhooks that would never be called.

        Raises:
            LocalProtocolError: `gateway.webhook-url`.
        """
        try:
            self.receivers.require(url, what="the webhook address", code="gateway.webhook-url")
        except ConfigurationError as e:
            raise LocalProtocolError(e.code, e.message) from e

    def project(self, project_id: str) -> Project:
        """Return the project with this id."""
        return self.projects[project_id]

    def new_uuid(self) -> str:
        """Make a random UUID from an unguessable id, so that it is reproducible with a seed."""
        return str(UUID(bytes=hashlib.sha256(self.new_id().encode()).digest()[:16], version=4))

    def page_url(self, place: Place, page_token: str) -> str:
        """Return the URL of a hosted page."""
        return f"{self.pages_url}/gateway/{place}/{page_token}"


class Work(Protocol):
    """A job that changes orders: a request, an event or a control call."""

    @property
    def db(self) -> Connection:
        """The transaction of the database."""

    @property
    def settings(self) -> GatewaySettings:
        """The settings of the gateway."""

    @property
    def at(self) -> datetime:
        """The virtual time."""


@dataclass(frozen=True, slots=True)
class Job:
    """The job of an event or a control call; see `Work`."""

    db: Connection
    settings: GatewaySettings
    at: datetime
