"""The tables of deliveries and of the log of their attempts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from tppkit._clock import format_time, from_microseconds, optional_time, to_microseconds
from tppkit._text import printable
from tppkit.sql.records import KEY, Records
from tppkit.sql.statement import Statement

MAX_TEXT = 300
_MAX_RECEIVER = 300
WAITING, HELD, ACKNOWLEDGED, GIVEN_UP = "waiting", "held", "acknowledged", "given up"
_ID = BigInteger().with_variant(Integer, "sqlite")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A callback or webhook.

    Attributes:
        id: an increasing number.
        sender: the name of its sender.
        address: the URL to send it to.
        receiver: host and port of the address.
        body: the body, the same in each attempt.
        stream: name of the stream whose deliveries keep their order, or None.
        ver: its place in the stream.
        added_at: when it was added, aware UTC.
        first_at: when the first attempt ended, aware UTC, or None.
        attempts: the number of attempts so far.
        state: `waiting`, `held` (reordered by a fault), `acknowledged` or `given up`.
        due_at: time of the next attempt, aware UTC; None if it has ended, or waits for an earlier one of its stream.
    """

    id: Annotated[int, _ID, KEY]
    sender: Annotated[str, String(32)]
    address: Annotated[str, String(4096)]
    receiver: Annotated[str, String(_MAX_RECEIVER)]
    body: bytes = field(repr=False)
    stream: Annotated[str | None, String(128)]
    ver: int
    added_at: datetime
    first_at: datetime | None
    attempts: Annotated[int, Integer()]
    state: Annotated[str, String(12)]
    due_at: datetime | None


TABLES = MetaData()
DELIVERIES = Records(Delivery, "deliveries", TABLES, changing=["first_at", "attempts", "state", "due_at"])
Index("deliveries_due", DELIVERIES.c.due_at, DELIVERIES.c.id, DELIVERIES.c.receiver)
Index("deliveries_of_stream", DELIVERIES.c.stream, DELIVERIES.c.state, DELIVERIES.c.ver)
_ATTEMPTS = Table(
    "delivery_attempts", TABLES,
    Column("id", _ID, primary_key=True),
    Column("delivery", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("text", String(MAX_TEXT), nullable=False),
)  # fmt: skip
Index("attempts_of_delivery", _ATTEMPTS.c.delivery)

# Locks the earlier delivery: the transaction that ends it waits for this one, and then releases the new delivery.
_EARLIER = Statement(
    select(DELIVERIES.c.id)
    .where(
        DELIVERIES.c.stream == bindparam("of_stream"),
        DELIVERIES.c.ver < bindparam("than_ver"),
        DELIVERIES.c.state == WAITING,
    )
    .limit(1)
    .with_for_update()
)
_GIVEN = "sender", "address", "receiver", "body", "stream", "ver", "added_at", "due_at"
_ADD = Statement(
    insert(DELIVERIES.table)
    .values({name: bindparam(name) for name in _GIVEN} | {"attempts": 0, "state": WAITING})
    .inline()
)
_NEXT = Statement(select(func.min(DELIVERIES.c.due_at)))
_DUE = (
    select(DELIVERIES.table)
    .where(DELIVERIES.c.due_at <= bindparam("until"), DELIVERIES.c.receiver.not_in(bindparam("busy", expanding=True)))
    .order_by(DELIVERIES.c.due_at, DELIVERIES.c.id)
    .limit(bindparam("most"))
)
_ADD_ATTEMPT = Statement(
    insert(_ATTEMPTS).values({name: bindparam(name) for name in ("delivery", "at", "ok", "text")}).inline()
)


def _open(deliveries: Any) -> tuple[Any, ...]:
    return (
        deliveries.c.stream == bindparam("of_stream"),
        deliveries.c.id != bindparam("of_id"),
        or_(deliveries.c.state == WAITING, deliveries.c.state == HELD),
    )


_OTHERS = DELIVERIES.table.alias()
# A delivery with a due time is not released again: its next attempt is scheduled. A held one stays held, so that it is held only once.
_RELEASE = Statement(
    update(DELIVERIES.table)
    .where(
        *_open(DELIVERIES),
        DELIVERIES.c.ver == select(func.min(_OTHERS.c.ver)).where(*_open(_OTHERS)).scalar_subquery(),
        or_(DELIVERIES.c.due_at.is_(None), DELIVERIES.c.state == HELD),
    )
    .values(due_at=DELIVERIES.c.added_at)
)
_LATEST = (
    select(DELIVERIES.table)
    .where(DELIVERIES.c.sender.in_(bindparam("senders", expanding=True)))
    .order_by(DELIVERIES.c.id.desc())
    .limit(bindparam("most"))
)
_ATTEMPTS_OF = (
    select(_ATTEMPTS)
    .where(_ATTEMPTS.c.delivery.in_(bindparam("deliveries", expanding=True)))
    .order_by(_ATTEMPTS.c.delivery, _ATTEMPTS.c.id)
)


class Attempt(NamedTuple):
    """The result of an attempt.

    Attributes:
        ok: whether the receiver acknowledged the delivery.
        text: a description, for example `status 500`; at most `MAX_TEXT` characters are stored.
    """

    ok: bool
    text: str


class LoggedAttempt(NamedTuple):
    """An attempt in the log, with the virtual time at which it ended (aware UTC)."""

    at: datetime
    ok: bool
    text: str


class Logged(NamedTuple):
    """A delivery with its attempts, oldest first, including those that a fault replaced."""

    delivery: Delivery
    attempts: tuple[LoggedAttempt, ...]

    def as_object(self) -> dict[str, Any]:
        """Return the delivery as JSON, without the body."""
        one = self.delivery
        return {
            "id": one.id, "address": one.address, "stream": one.stream, "ver": one.ver, "state": one.state,
            "added_at": format_time(one.added_at), "due_at": None if one.due_at is None else format_time(one.due_at),
            "attempts": [{"at": format_time(at), "ok": ok, "text": text} for at, ok, text in self.attempts],
        }  # fmt: skip


class Result(NamedTuple):
    """The outcome for a delivery that was due.

    Attributes:
        attempts: the attempts to log.
        state: the new state.
        due_at: time of the next attempt, aware UTC, or None.
        counted: the number of attempts that count for the schedule.
    """

    attempts: tuple[Attempt, ...]
    state: str
    due_at: datetime | None
    counted: int = 0


def add_delivery(
    db: Connection, *, sender: str, address: str, body: bytes, at: datetime, stream: str | None, ver: int
) -> None:
    """Add a delivery in the transaction of its cause. It waits for earlier ones of its stream.

    Args:
        db: the transaction.
        sender: name of its sender.
        address: the URL to send it to.
        body: the body.
        at: the virtual time, or when the cause was due; aware UTC.
        stream: deliveries with the same stream keep their order; None: no order.
        ver: its place in the stream, from 1; not lower than those of earlier deliveries.
    """
    waits = stream is not None and _EARLIER.first(db, {"of_stream": stream, "than_ver": ver}) is not None
    added_at = to_microseconds(at)
    given = (
        sender,
        address,
        urlsplit(address).netloc.lower()[:_MAX_RECEIVER],
        body,
        stream,
        ver,
        added_at,
        None if waits else added_at,
    )
    _ADD.first(db, dict(zip(_GIVEN, given, strict=True)))


def next_due(db: Connection) -> datetime | None:
    """Return when the next attempt is due, or None."""
    (due_at,) = _NEXT.first(db, {})
    return optional_time(due_at)


def latest_deliveries(db: Connection, senders: Collection[str], limit: int) -> tuple[Logged, ...]:
    """Return the latest deliveries of these senders, newest first."""
    found = DELIVERIES.all(db, _LATEST, {"senders": list(senders), "most": limit})
    attempts = db.execute(_ATTEMPTS_OF, {"deliveries": [one.id for one in found]})
    of = {
        id_: tuple([LoggedAttempt(from_microseconds(row.at), row.ok, row.text) for row in rows])
        for id_, rows in groupby(attempts, key=lambda row: int(row.delivery))
    }
    return tuple([Logged(one, of.get(one.id, ())) for one in found])


def due_deliveries(db: Connection, *, until: datetime, busy: Collection[str], limit: int) -> tuple[Delivery, ...]:
    """Return the deliveries due at a time, except those for busy receivers; earliest due time first."""
    return DELIVERIES.all(db, _DUE, {"until": to_microseconds(until), "busy": list(busy), "most": limit})


def settle_delivery(db: Connection, *, delivery: Delivery, result: Result, at: datetime) -> None:
    """Write the result of an attempt, and release the next delivery of the stream."""
    first_at = delivery.first_at or (at if result.counted else None)
    attempts = delivery.attempts + result.counted
    DELIVERIES.set(
        db, replace(delivery, first_at=first_at, attempts=attempts, state=result.state, due_at=result.due_at)
    )
    for ok, text in result.attempts:
        row = {"delivery": delivery.id, "at": to_microseconds(at), "ok": ok, "text": printable(text)[:MAX_TEXT]}
        _ADD_ATTEMPT.first(db, row)
    if delivery.stream is not None and result.state != WAITING:
        _RELEASE.first(db, {"of_stream": delivery.stream, "of_id": delivery.id})
