"""The table of scanned login codes, with its statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from sqlalchemy import String

from tppkit.protocol.legacy import LoginRequest
from tppkit.sandbox.legacy.tables import TABLES
from tppkit.sandbox.queries import Newest
from tppkit.sql.records import KEY, Named, Records


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

    id: Annotated[str, String(64), KEY]
    host: Annotated[str, String(4)]
    url: Annotated[str, String(2400)]
    state: Annotated[LoginState, String(10)]
    scanned_at: datetime
    customer: Annotated[str, String(32)]
    request: Annotated[LoginRequest | None, Named("body")] = None
    reason: Annotated[str | None, String(300)] = None


LOGINS = Records(StoredLogin, "legacy_logins", TABLES, changing=["state"])
newest_logins = Newest(LOGINS, LOGINS.c.scanned_at)
