"""Queries that several interfaces make of their tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, bindparam, func, select

from tppkit._clock import from_microseconds
from tppkit.sandbox.bank.tables import TRANSFERS
from tppkit.sql.records import Records
from tppkit.sql.statement import Statement

R = TypeVar("R")
_LATEST_EXECUTION = select(func.max(TRANSFERS.c.due_at)).where(TRANSFERS.c.state != "pending")


class LatestTime:
    """Reads the latest virtual time in columns of an interface.

    Example:
        latest_time = LatestTime(PAYMENTS.c.active_at, PAYMENTS.c.approved_at)
        latest_time(db)
    """

    def __init__(self, *columns: Column[Any]) -> None:
        self._times = select(*(select(func.max(column)).scalar_subquery() for column in columns))

    def __call__(self, db: Connection) -> datetime:
        """Return the time, aware UTC; 1970 for empty tables."""
        return from_microseconds(max(at or 0 for at in db.execute(self._times).one()))


def latest_time(db: Connection, interfaces: Iterable[Callable[[Connection], datetime]]) -> datetime:
    """Return the latest virtual time of the interfaces, and of the transfers that were executed; aware UTC, 1970 for empty tables.

    Args:
        db: the connection.
        interfaces: each returns the latest virtual time in its tables.
    """
    executed = from_microseconds(db.execute(_LATEST_EXECUTION).scalar_one() or 0)
    return max(executed, *(of_interface(db) for of_interface in interfaces))


class Newest(Generic[R]):
    """Reads the newest records of a table by one of their times.

    Example:
        newest_links = Newest(LINKS, LINKS.c.created_at)
        newest_links(db, 50)
    """

    def __init__(self, records: Records[R], time: Column[Any]) -> None:
        self._records = records
        self._query = Statement(
            select(records.table).order_by(time.desc(), *records.table.primary_key).limit(bindparam("most"))
        )

    def __call__(self, db: Connection, most: int) -> tuple[R, ...]:
        """Return at most `most` records, the newest first."""
        return self._records.all(db, self._query, {"most": most})


class TransferCheck:
    """Finds the payments of an interface that do not agree with the ledger's transfers.

    Args:
        source: the source of the interface's transfers.
        key: the payments' key, for messages.
        state: the payments' state.
        of_payment: the condition for the transfer of a payment.
        allowed: the states of a payment and its transfer that agree, with a space between them; no transfer is an empty state.
    """

    def __init__(
        self, source: str, *, key: Column[Any], state: Column[Any], of_payment: ColumnElement[bool], allowed: Collection[str]
    ) -> None:  # fmt: skip
        both = state + " " + func.coalesce(TRANSFERS.c.state, "")
        self._differing = (
            select(key, state, TRANSFERS.c.state).outerjoin(TRANSFERS.table, of_payment).where(both.not_in(allowed))
        )
        self._orphans = (
            select(TRANSFERS.c.id).outerjoin(key.table, of_payment).where(TRANSFERS.c.source == source, key.is_(None))
        )

    def __call__(self, db: Connection) -> list[str]:
        """Return the payments whose state and transfer do not agree, and the transfers without a payment."""
        differing = [
            f"payment {key} is {state}, its transfer {transfer}" for key, state, transfer in db.execute(self._differing)
        ]
        return differing + [f"the transfer {id_} has no payment" for id_ in db.execute(self._orphans).scalars()]
