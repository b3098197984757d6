"""The table of scanned login codes, with its statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    LargeBinary,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    update,
)

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.protocol.legacy import LoginRequest
from tppkit.sandbox.legacy.tables import TABLES

_LOGINS = Table(
    "legacy_logins", TABLES,
    Column("id", String(64), primary_key=True),
    Column("host", String(4), nullable=False),
    Column("url", String(2400), nullable=False),
    Column("state", String(10), nullable=False),
    Column("scanned_at", BigInteger, nullable=False),
    Column("customer", String(32), nullable=False),
    Column("body", LargeBinary),
    Column("reason", String(300)),
)  # fmt: skip

_ADD_LOGIN = insert(_LOGINS)
_FIND_LOGIN = select(_LOGINS).where(_LOGINS.c.id == bindparam("of_login"))
_LOCK_LOGIN = _FIND_LOGIN.with_for_update()
_SET_LOGIN = update(_LOGINS).where(_LOGINS.c.id == bindparam("of_login")).values(state=bindparam("to_state"))
_LATEST_LOGINS = select(_LOGINS).order_by(_LOGINS.c.scanned_at.desc(), _LOGINS.c.id).limit(bindparam("most"))
_LATEST_TIME = select(func.max(_LOGINS.c.scanned_at))


class LoginState(StrEnum):
    """The state of a scanned login code."""

    SCANNED = "scanned"
    CONFIRMED = "confirmed"
    DECLINED = "declined"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A login code that a customer has scanned.

    Attributes:
        id: unguessable.
        host: `test` or `live`, whose key signs.
        url: the address in the code.
        state: its state.
        scanned_at: aware UTC.
        customer: id of the customer who scanned it.
        request: the receiver's answer, or None.
        reason: why it is dead, or None.
    """

    id: str
    host: str
    url: str
    state: LoginState
    scanned_at: datetime
    customer: str
    request: LoginRequest | None = None
    reason: str | None = None


def add_login(db: Connection, login: StoredLogin) -> None:
    """Store a scanned login code."""
    values = {name: getattr(login, name) for name in ("id", "host", "url", "customer", "reason")} | {
        "state": login.state.value, "scanned_at": to_microseconds(login.scanned_at),
        "body": None if login.request is None else login.request.to_wire(),
    }  # fmt: skip
    db.execute(_ADD_LOGIN, values)


def find_login(db: Connection, login_id: str, *, lock: bool = False) -> StoredLogin | None:
    """Return the login with this id, or None; `lock` locks it for a change."""
    row = db.execute(_LOCK_LOGIN if lock else _FIND_LOGIN, {"of_login": login_id}).one_or_none()
    return None if row is None else _login(row)


def set_login(db: Connection, login: StoredLogin) -> None:
    """Store the state of a login."""
    db.execute(_SET_LOGIN, {"of_login": login.id, "to_state": login.state.value})


def latest_logins(db: Connection, most: int) -> tuple[StoredLogin, ...]:
    """Return the latest logins, newest first."""
    return tuple(map(_login, db.execute(_LATEST_LOGINS, {"most": most})))


def latest_login_time(db: Connection) -> datetime:
    """Return the latest virtual time at which a code was scanned."""
    return from_microseconds(db.execute(_LATEST_TIME).scalar_one() or 0)


def _login(row: Any) -> StoredLogin:
    request = None if row.body is None else LoginRequest.from_wire(bytes(row.body), unknown_fields=True)
    return StoredLogin(
        row.id, row.host, row.url, LoginState(row.state), from_microseconds(row.scanned_at), row.customer, request, row.reason
    )  # fmt: skip
