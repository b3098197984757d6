"""The table of payment links, with its statements. An order is locked before its link.

Only a new payment of a link locks the link first. Its order is new, so no other request can wait for that order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from sqlalchemy import BigInteger, Column, Connection, Index, String, bindparam, func, select, update

from tppkit._clock import optional_microseconds, optional_time, to_microseconds
from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.protocol.gateway.states import LinkStatus
from tppkit.sandbox.gateway.tables import ORDERS, TABLES
from tppkit.sandbox.queries import Newest
from tppkit.sql.records import KEY, UNIQUE, Records
from tppkit.sql.statement import Statement


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

    id: Annotated[str, String(36), KEY]
    project_id: Annotated[str, String(36)]
    page_token: Annotated[str, String(64), UNIQUE] = field(repr=False)
    terms: PaymentLinkRequest
    created_at: datetime
    ends_at: datetime
    status: Annotated[LinkStatus, String(16)]
    modified_at: datetime
    completed_order_id: Annotated[str | None, String(36)] = None

    @property
    def due_at(self) -> datetime | None:
        """The time of its expiry; None while an attempt is open, and if it is final."""
        return self.ends_at if self.status in (LinkStatus.NEW, LinkStatus.ALL_UNSUCCESSFUL) else None


LINKS = Records(
    StoredLink, "gateway_links", TABLES, changing=["status", "modified_at", "completed_order_id", "due_at"],
    derived={Column("due_at", BigInteger): lambda link: optional_microseconds(link.due_at)},
)  # fmt: skip
Index("gateway_links_due", LINKS.c.due_at, sqlite_where=LINKS.c.due_at.is_not(None))
_ORDERS_OF_LINK = Statement(
    select(ORDERS.c.status, ORDERS.c.id)
    .where(ORDERS.c.link_id == bindparam("of_id"))
    .order_by(ORDERS.c.created_at, ORDERS.c.id)
)
_NEXT_DUE = Statement(select(func.min(LINKS.c.due_at)).where(LINKS.c.due_at.is_not(None)))  # for the index
_DUE_LINKS = Statement(
    select(LINKS.c.id).where(LINKS.c.due_at <= bindparam("until")).order_by(LINKS.c.due_at, LINKS.c.id)
)
_STOP_LINK = update(LINKS.table).where(LINKS.c.id == bindparam("of_id")).values(due_at=None)
newest_links = Newest(LINKS, LINKS.c.created_at)


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
