"""The tables of an inbox and every statement on them, for SQLite and PostgreSQL.

`due_at` is the time from which a worker may take an entry: set while it waits, the end of the lease while it is claimed, the next
attempt after a failure, and null if it is done or given up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (  # fmt: skip
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from tppkit._statement import Statement
from tppkit.errors import ConfigurationError
from tppkit.inbox.entry import State

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,29}")
_DIALECTS = (("sqlite", sqlite), ("postgresql", postgresql))

SAVEPOINT = "SAVEPOINT tppkit_inbox"
ROLLBACK_TO = "ROLLBACK TO SAVEPOINT tppkit_inbox"
RELEASE = "RELEASE SAVEPOINT tppkit_inbox"
# PostgreSQL: limit how long this transaction waits for a lock, unless the application has set a limit.
_LOCK_TIMEOUT, _UNLIMITED = literal_column("'lock_timeout'", String), literal_column("'0'", String)
_FOR_TRANSACTION = literal_column("true", Boolean)
LIMIT_WAIT = Statement(
    select(func.set_config(_LOCK_TIMEOUT, bindparam("wait", type_=String), _FOR_TRANSACTION)).where(
        func.current_setting(_LOCK_TIMEOUT) == _UNLIMITED
    )
)
UNLIMIT_WAIT = Statement(select(func.set_config(_LOCK_TIMEOUT, _UNLIMITED, _FOR_TRANSACTION)))


class Statements:
    """The tables with a prefix, and their statements.

    Args:
        prefix: of the names of tables and indexes.

    Attributes:
        metadata: the tables.

    Raises:
        ConfigurationError: `inbox.prefix`.
    """

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError("inbox.prefix", f"{prefix[:40]!r} cannot begin the name of a table")
        self.metadata = MetaData()
        self.entries = entries = Table(
            f"{prefix}entries", self.metadata,
            Column("source", String, primary_key=True), Column("key", String, primary_key=True),
            Column("digest", LargeBinary, nullable=False), Column("name", String, nullable=False),
            Column("content", LargeBinary), Column("received_at", BigInteger, nullable=False),
            Column("record", String), Column("version", BigInteger), Column("version_digest", LargeBinary),
            Column("state", String, nullable=False), Column("attempts", Integer, nullable=False),
            Column("due_at", BigInteger), Column("done_at", BigInteger), Column("reason", String),
        )  # fmt: skip
        self.versions = versions = Table(
            f"{prefix}versions", self.metadata,
            Column("source", String, primary_key=True), Column("record", String, primary_key=True),
            Column("version", BigInteger, nullable=False), Column("version_digest", LargeBinary),
            Column("set_at", BigInteger, nullable=False),
            sqlite_with_rowid=False,
        )  # fmt: skip
        mine, theirs = entries.c, versions.c
        for name, columns, where in (
            ("due", (mine.source, mine.due_at, mine.received_at), mine.due_at.is_not(None)),
            ("done", (mine.source, mine.done_at), mine.done_at.is_not(None)),
            ("failed", (mine.source, mine.received_at), mine.state == State.FAILED.value),
        ):
            Index(f"{prefix}entries_{name}", *columns, sqlite_where=where, postgresql_where=where)
        Index(f"{prefix}versions_set", theirs.source, theirs.set_at)

        source, key = bindparam("of_source", type_=String), bindparam("of_key", type_=String)
        at, limit = bindparam("at", type_=BigInteger), bindparam("most", type_=BigInteger)
        attempt, due_at = bindparam("attempt", type_=Integer), bindparam("due", type_=BigInteger)
        one = (mine.source == source) & (mine.key == key)
        claimed = one & (mine.attempts == attempt) & (mine.state == State.CLAIMED.value)
        # As a literal: SQLite uses a partial index for no parameter.
        failed = (mine.source == source) & (mine.state == literal_column(f"'{State.FAILED.value}'"))
        # Only the first columns are of the entry itself.
        kept = [mine[name] for name in ENTRY]
        done = {
            "state": State.DONE.value, "due_at": None, "done_at": at, "reason": None, "content": None, "record": None, "version": None,
            "version_digest": None,
        }  # fmt: skip
        new = {
            "source": source, "key": key, "digest": bindparam("of_digest"), "name": bindparam("of_name"),
            "received_at": bindparam("received"),
        }  # fmt: skip
        whole = {
            **new, "content": bindparam("of_content"), "record": bindparam("of_record"),
            "version": bindparam("of_version", type_=BigInteger), "version_digest": bindparam("of_version_digest"),
            "due_at": due_at,
        }  # fmt: skip
        inserts = {name: dialect.insert(entries) for name, dialect in _DIALECTS}

        def on_conflict(values: Mapping[str, Any], changed: Mapping[str, Any]) -> Statement:
            # A delivery may take over what waits, what failed, and a claim whose lease has ended; never other content.
            return Statement(
                {
                    name: into.values(values)
                    .on_conflict_do_update(
                        index_elements=["source", "key"],
                        set_={**changed, "attempts": mine.attempts + 1},
                        where=(mine.digest == into.excluded.digest)
                        & (mine.state != State.DONE.value)
                        & or_(mine.state != State.CLAIMED.value, mine.due_at <= at),
                    )
                    .returning(mine.attempts)
                    for name, into in inserts.items()
                }
            )

        def add(values: Mapping[str, Any]) -> Statement:
            return Statement(
                {
                    name: into.values(values).on_conflict_do_nothing().returning(mine.attempts)
                    for name, into in inserts.items()
                }
            )

        self.add = add({**whole, "state": State.WAITING.value, "attempts": 0})
        self.add_failed = add({**whole, "state": State.FAILED.value, "attempts": 1, "reason": bindparam("of_reason")})
        # A done entry needs no more than its digest, so nothing else is written; this is the statement of the fast path.
        self.once = on_conflict({**new, "state": State.DONE.value, "attempts": 1, "done_at": at}, done)
        failing = {"state": State.FAILED.value, "due_at": due_at, "reason": bindparam("of_reason")}
        self.keep_failed = on_conflict({**whole, **failing, "attempts": 1}, failing)
        self.known = Statement(select(mine.state, mine.digest, mine.attempts).where(one))
        # One statement decides, so the database puts two versions that come at once in order.
        self.advance = Statement(
            {
                name: into.values(
                    source=source, record=bindparam("of_record"), version=bindparam("of_version", type_=BigInteger),
                    version_digest=bindparam("of_version_digest"), set_at=at,
                )
                .on_conflict_do_update(
                    index_elements=["source", "record"],
                    set_={name: into.excluded[name] for name in ("version", "version_digest", "set_at")},
                    where=into.excluded.version > theirs.version,
                )
                .returning(theirs.version)
                for name, into in ((name, dialect.insert(versions)) for name, dialect in _DIALECTS)
            }
        )  # fmt: skip
        self.version = Statement(
            select(theirs.version, theirs.version_digest).where(
                theirs.source == source, theirs.record == bindparam("of_record")
            )
        )

        due = select(*kept, mine.attempts, mine.state).where(mine.source == source, mine.due_at <= at)
        due = due.order_by(mine.due_at, mine.received_at).limit(limit).with_for_update(skip_locked=True)
        self.due = Statement(due)
        self.claim = Statement(
            update(entries).where(one).values(state=State.CLAIMED.value, attempts=mine.attempts + 1, due_at=due_at)
        )
        self.finish = Statement(update(entries).where(claimed).values(done).returning(mine.attempts))
        self.fail = Statement(update(entries).where(claimed).values(failing).returning(mine.attempts))
        self.put_back = Statement(
            update(entries)
            .where(claimed)
            .values(state=State.WAITING.value, attempts=mine.attempts - 1, due_at=due_at)
            .returning(mine.attempts)
        )

        listed = select(*kept, mine.attempts, mine.reason, mine.due_at).where(failed)
        self.failed = Statement(
            listed.where(
                tuple_(mine.received_at, mine.key) > tuple_(bindparam("after", type_=BigInteger), bindparam("of_key"))
            )
            .order_by(mine.received_at, mine.key)
            .limit(limit)
        )
        self.failure = Statement(listed.where(mine.key == key))
        self.release = Statement(
            update(entries)
            .where(failed, mine.key == key)
            .values(state=State.WAITING.value, due_at=due_at)
            .returning(mine.attempts)
        )
        self.discard = Statement(
            update(entries)
            .where(failed, mine.key == key, mine.attempts == attempt)
            .values(done)
            .returning(mine.attempts)
        )
        self.sources = Statement(select(mine.source).distinct().order_by(mine.source))

        before = bindparam("before", type_=BigInteger)
        given_up = select(mine.key).where(failed, mine.due_at.is_(None), mine.received_at < before)
        given_up = given_up.order_by(mine.received_at).limit(limit).with_for_update(skip_locked=True)
        self.discard_failed = Statement(
            update(entries).where(mine.source == source, mine.key.in_(given_up)).values(done).returning(mine.attempts)
        )
        old = select(mine.key).where(mine.source == source, mine.done_at < before).order_by(mine.done_at)
        older = select(theirs.record).where(theirs.source == source, theirs.set_at < before).order_by(theirs.set_at)
        self.purge_done, self.purge_versions = (
            Statement(
                delete(table)
                .where(table.c.source == source, column.in_(which.limit(limit).with_for_update(skip_locked=True)))
                .returning(column)
            )
            for table, column, which in ((entries, mine.key, old), (versions, theirs.record, older))
        )


ENTRY = ("source", "key", "digest", "name", "content", "received_at", "record", "version", "version_digest")
