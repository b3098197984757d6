"""Used ids in a table, for SQLite and PostgreSQL. Each decision is a single statement, so processes cannot race.

`claim` and `settle` run in the caller's transaction, so that the effect of a request and its answer are committed together.
`TableReplayStore` runs each in a new transaction, for middleware that does not know the application's transaction.

    REQUESTS = RequestTable(METADATA)
    with engine.begin() as db:
        claimed = REQUESTS.claim(db, key, digest, bounds)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from tppkit._extras import needs_extra
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.replay import Bounds, Claim, Verdict, unavailable

with needs_extra("sqlalchemy"):
    from sqlalchemy import (
        BigInteger,
        Column,
        Connection,
        LargeBinary,
        MetaData,
        Table,
        bindparam,
        case,
        delete,
        select,
        update,
    )
    from sqlalchemy.exc import SQLAlchemyError

    from tppkit.sql.engine import create_tables, make_engine
    from tppkit.sql.statement import Statement, insert_or

TABLE = "tppkit_request_ids"
WAIT_S = 5.0

_LOG = logging.getLogger("tppkit.web")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ATTEMPTS = 8
_SWEPT = 2  # each first use deletes more ids than it adds
_SWEEP_EVERY, _SWEPT_AT_ONCE = 1_000_000, 1_000  # microseconds; ids

T = TypeVar("T")


class RequestTable:
    """The table of used ids, with its statements.

    Args:
        metadata: the table is added to it.
        window: how long an id is bound to its first request, for all ids of the table; None: without limit.
        name: lower-case letters, digits and `_`.

    Raises:
        ConfigurationError: `replay.table`.
    """

    def __init__(self, metadata: MetaData, *, window: timedelta | None = None, name: str = TABLE) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                "replay.table", f"{name[:50]!r} is not a lower-case letter and up to 39 of a-z, 0-9 and _"
            )
        table = Table(
            name, metadata,
            Column("key", LargeBinary, primary_key=True), Column("digest", LargeBinary, nullable=False),
            Column("first_at", BigInteger, nullable=False, index=True), Column("claimed_at", BigInteger, nullable=False),
            Column("attempt", BigInteger, nullable=False), Column("answer", LargeBinary),
        )  # fmt: skip
        self.window = window
        self._swept_to = 0
        columns, at = table.c, bindparam("at", type_=BigInteger)
        # An attempt has the number of its time, or the next one of its predecessor where the clock stood still or went back.
        attempt = case((at > columns.attempt, at), else_=columns.attempt + 1)
        key, forget = bindparam("of_key", type_=LargeBinary), bindparam("forget", type_=BigInteger)
        mine = (columns.key == key) & (columns.attempt == bindparam("of_attempt")) & columns.answer.is_(None)
        values = {"key": key, "digest": bindparam("of_digest"), "first_at": at, "claimed_at": at, "attempt": at}
        # A use from before the window is replaced by the new one.
        renewed = {
            "digest": bindparam("of_digest"), "first_at": at, "claimed_at": at, "attempt": attempt, "answer": None,
        }  # fmt: skip
        self._first = insert_or(
            table,
            lambda into: (
                into.values(values)
                .on_conflict_do_update(index_elements=["key"], set_=renewed, where=columns.first_at <= forget)
                .returning(columns.attempt)
            ),
        )
        self._again = (
            update(table)
            .where(columns.key == key, columns.digest == bindparam("of_digest"), columns.answer.is_(None))
            .where(columns.claimed_at <= bindparam("free"))
            .values(claimed_at=at, attempt=attempt)
            .returning(columns.attempt)
        )
        self._known = select(columns.digest, columns.answer).where(columns.key == key, columns.first_at > forget)
        self._settle = Statement(update(table).where(mine).values(answer=bindparam("kept")))
        self._free = Statement(update(table).where(mine).values(claimed_at=0))
        over = select(columns.key).where(columns.first_at <= forget).order_by(columns.first_at)
        over = over.limit(bindparam("most", type_=BigInteger)).with_for_update(skip_locked=True)
        self._purge = delete(table).where(columns.key.in_(over))

    def claim(self, db: Connection, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """Claim an id for a request; see `ReplayStore.claim`.

        Raises:
            TransportError: `replay.unavailable`, the row was purged again and again before it could be read.
            SQLAlchemyError: the database fails.
        """
        values = {"of_key": key, "of_digest": digest, **bounds._asdict()}
        for _ in range(_ATTEMPTS):
            if row := self._first.first(db, values):
                return Claim(Verdict.FIRST, attempt=row[0])
            if row := db.execute(self._again, values).first():
                return Claim(Verdict.AGAIN, attempt=row[0])
            if known := db.execute(self._known, values).first():
                return _judge(digest, bytes(known[0]), known[1])
        raise TransportError("replay.unavailable", "the table of request ids changes faster than it can be read")

    def settle(self, db: Connection, key: bytes, attempt: int, answer: bytes | None) -> None:
        """Keep the answer to a claim, or with None give the claim up; see `ReplayStore.settle`."""
        statement, values = self._free, {"of_key": key, "of_attempt": attempt}
        if answer is not None:
            statement, values = self._settle, {**values, "kept": answer}
        statement.run_one(db, values)

    def sweep(self, db: Connection, *, forget: int) -> None:
        """Delete expired ids, at most once a second and a thousand of them."""
        if abs(forget - self._swept_to) >= _SWEEP_EVERY:  # also back, when a sandbox is reset
            self._swept_to = forget
            self.purge(db, forget=forget, limit=_SWEPT_AT_ONCE)

    def purge(self, db: Connection, *, forget: int, limit: int) -> int:
        """Forget at most `limit` ids that were first used at or before a time; returns how many."""
        return db.execute(self._purge, {"forget": forget, "most": limit}).rowcount


def _judge(digest: bytes, known: bytes, answer: bytes | None) -> Claim:
    if known != digest:
        return Claim(Verdict.OTHER)
    return Claim(Verdict.RUNNING) if answer is None else Claim(Verdict.SAME, bytes(answer))


class TableReplayStore:
    """A store in a SQLite file or a PostgreSQL database, for all processes that use it.

    Args:
        url: a SQLAlchemy address, for example `sqlite:///ids.sqlite` or `postgresql+psycopg://host/name`. A SQLite file that does not
            exist is made for its owner alone.
        table: the name of the table, made if absent.
        wait_s: how long a call waits for other processes, and for the server, each in seconds.

    Raises:
        ConfigurationError: `replay.table`, `web.setting`, or the code of a missing extra.
        TransportError: `replay.unavailable`.

    Example:
        ReplayGuard(TableReplayStore("sqlite:///ids.sqlite"))
    """

    blocking = True

    @without_locals
    def __init__(self, url: str, *, table: str = TABLE, wait_s: float = WAIT_S) -> None:
        metadata = MetaData()
        self._requests = RequestTable(metadata, name=table)
        try:
            self._engine = make_engine(url, code="web.setting", wait_s=wait_s, isolation_level="AUTOCOMMIT")
            is_other = create_tables(self._engine, metadata) is not None
        except (SQLAlchemyError, OSError) as e:
            raise unavailable("database", e) from e
        if is_other:  # every request would fail
            raise TransportError("replay.unavailable", f"the database has another table {table}: give another name")

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._engine.dispose()

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        claimed = self._run(lambda db: self._requests.claim(db, key, digest, bounds))
        if claimed.verdict is Verdict.FIRST:
            try:
                self.purge(forget=bounds.forget, limit=_SWEPT)
            except TransportError as e:
                _LOG.warning("expired request ids could not be deleted: %s", e)
        return claimed

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """See `ReplayStore.settle`."""
        self._run(lambda db: self._requests.settle(db, key, attempt, answer))

    def purge(self, *, forget: int, limit: int) -> int:
        """See `ReplayStore.purge`."""
        return self._run(lambda db: self._requests.purge(db, forget=forget, limit=limit))

    @without_locals
    def _run(self, job: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as db:  # each statement is a transaction
                return job(db)
        except (SQLAlchemyError, OSError) as e:
            raise unavailable(self._engine.dialect.name, e) from e
