"""The table of payment links, with its statements. An order is locked before its link.

Only a new payment of a link locks the link first. Its order is new, so no other request can wait for that order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    LargeBinary,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    update,
)

from tppkit._clock import from_microseconds, optional_microseconds, optional_time, to_microseconds
from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.protocol.gateway.states import LinkStatus
from tppkit.sandbox.gateway.tables import ORDERS, TABLES
from tppkit.sql.statement import Statement

LINKS = Table(
    "gateway_links", TABLES,
    Column("id", String(36), primary_key=True),
    Column("project_id", String(36), nullable=False),
    Column("page_token", String(64), nullable=False, unique=True),
    Column("terms", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("modified_at", BigInteger, nullable=False),
    Column("completed_order_id", String(36)),
    Column("due_at", BigInteger),
)  # fmt: skip
Index("gateway_links_due", LINKS.c.due_at, sqlite_where=LINKS.c.due_at.is_not(None))
_ADD_LINK = Statement(insert(LINKS).inline())
_ONE_LINK = select(LINKS).where(LINKS.c.id == bindparam("of_id"))
_FIND_LINK, _LOCK_LINK = Statement(_ONE_LINK), Statement(_ONE_LINK.with_for_update())
_CHANGING = ("status", "modified_at", "completed_order_id", "due_at")
_SET_LINK = Statement(
    update(LINKS).where(LINKS.c.id == bindparam("of_id")).values({name: bindparam(f"to_{name}") for name in _CHANGING})
)
_ORDERS_OF_LINK = Statement(
    select(ORDERS.c.status, ORDERS.c.id)
    .where(ORDERS.c.link_id == bindparam("of_id"))
    .order_by(ORDERS.c.created_at, ORDERS.c.id)
)
_NEXT_DUE = Statement(select(func.min(LINKS.c.due_at)).where(LINKS.c.due_at.is_not(None)))  # for the index
_DUE_LINKS = Statement(
    select(LINKS.c.id).where(LINKS.c.due_at <= bindparam("until")).order_by(LINKS.c.due_at, LINKS.c.id)
)
_STOP_LINK = update(LINKS).where(LINKS.c.id == bindparam("of_id")).values(due_at=None)
_LATEST_LINKS = select(LINKS).order_by(LINKS.c.created_at.desc(), LINKS.c.id).limit(bindparam("most"))
_LATEST = select(func.max(LINKS.c.modified_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLink:
    """A payment link.

    Attributes:
        id: UUID.
        project_id: its project.
        page_token: unguessable part of `payment_url`.
        terms: the merchant's fields, without those that the document does not list.
        created_at: aware UTC.
        ends_at: when it expires if no payment succeeds.
        status: its status, as in answers.
        modified_at: when its status changed.
        completed_order_id: id of the paid order, or None.
    """

    id: str
    project_id: str
    page_token: str = field(repr=False)
    terms: PaymentLinkRequest
    created_at: datetime
    ends_at: datetime
    status: LinkStatus
    modified_at: datetime
    completed_order_id: str | None = None

    @property
    def due_at(self) -> datetime | None:
        """The time of its expiry; None while an attempt is open, and if it is final."""
        return self.ends_at if self.status in (LinkStatus.NEW, LinkStatus.ALL_UNSUCCESSFUL) else None


def add_link(db: Connection, link: StoredLink) -> None:
    """Store a new link."""
    fixed = {
        "id": link.id, "project_id": link.project_id, "page_token": link.page_token, "terms": link.terms.to_wire(),
        "created_at": to_microseconds(link.created_at), "ends_at": to_microseconds(link.ends_at),
    }  # fmt: skip
    _ADD_LINK.run_one(db, fixed | _changing(link))


def find_link(db: Connection, link_id: str) -> StoredLink | None:
    """Return the link with this id without a lock, or None."""
    return _link(_FIND_LINK.first(db, {"of_id": link_id}))


def lock_link(db: Connection, link_id: str) -> StoredLink | None:
    """Return the link with this id, locked for a change, or None."""
    return _link(_LOCK_LINK.first(db, {"of_id": link_id}))


def set_link(db: Connection, link: StoredLink) -> None:
    """Store the columns of a link that can change."""
    _SET_LINK.run_one(db, {"of_id": link.id} | {f"to_{name}": value for name, value in _changing(link).items()})


def orders_of_link(db: Connection, link_id: str) -> dict[str, tuple[str, ...]]:
    """Return the ids of a link's orders by their status, earliest first."""
    found: dict[str, tuple[str, ...]] = {}
    for status, order_id in _ORDERS_OF_LINK.all(db, {"of_id": link_id}):
        found[status] = (*found.get(status, ()), order_id)
    return found


def next_due(db: Connection) -> datetime | None:
    """Return when the next link expires, or None."""
    (due,) = _NEXT_DUE.first(db, {})
    return optional_time(due)


def due_links(db: Connection, until: datetime) -> tuple[str, ...]:
    """Return the ids of the links that expire up to a time, earliest first."""
    return tuple(row[0] for row in _DUE_LINKS.all(db, {"until": to_microseconds(until)}))


def stop_link(db: Connection, link_id: str) -> None:
    """Remove the due time of a link, so that it does not expire."""
    db.execute(_STOP_LINK, {"of_id": link_id})


def latest_links(db: Connection, most: int) -> tuple[StoredLink, ...]:
    """Return the latest links of all projects, newest first."""
    return tuple(link for row in db.execute(_LATEST_LINKS, {"most": most}) if (link := _link(row)) is not None)


def latest_time(db: Connection) -> datetime:
    """Return the latest virtual time at which a link changed."""
    return from_microseconds(db.execute(_LATEST).scalar_one() or 0)


def _link(row: Any) -> StoredLink | None:
    if row is None:
        return None
    id_, project_id, page_token, terms, created_at, ends_at, status, modified_at, completed_order_id, _ = row
    return StoredLink(
        id=id_, project_id=project_id, page_token=page_token, terms=PaymentLinkRequest.from_wire(bytes(terms), tolerant=True),
        created_at=from_microseconds(created_at), ends_at=from_microseconds(ends_at), status=LinkStatus(status),
        modified_at=from_microseconds(modified_at), completed_order_id=completed_order_id,
    )  # fmt: skip


def _changing(link: StoredLink) -> dict[str, Any]:
    return {
        "status": link.status.value, "modified_at": to_microseconds(link.modified_at), "completed_order_id": link.completed_order_id,
        "due_at": optional_microseconds(link.due_at),
    }  # fmt: skip
