"""The tables of an inbox, their statements for SQLite and PostgreSQL, and the conversion of entries to and from rows.

`due_at` is the time from which a worker may take an entry. While the entry is claimed, it is the end of the lease; after a failure,
the next attempt; null if the entry is done or given up.
"""

from __future__ import annotations

import re
from datetime import datetime
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
    case,
    delete,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from tppkit._clock import as_utc, from_microseconds, to_microseconds
from tppkit._statement import Statement
from tppkit.errors import ConfigurationError
from tppkit.inbox.entry import Entry, Failure, State, Version

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,29}")
_DIALECTS = (("sqlite", sqlite), ("postgresql", postgresql))
_ENTRY = ("source", "key", "digest", "name", "content", "received_at", "record", "version", "version_digest")
_PARAMETERS = tuple(f"of_{name}" for name in _ENTRY)
_RENEWED = "renewed"  # `reason` of a claimed entry that was requested again; it waits again after its worker

BEGIN = Statement(text("BEGIN IMMEDIATE"))  # SQLite only
SAVEPOINT, ROLLBACK_TO, RELEASE = (
    Statement(text(f"{verb} tppkit_inbox")) for verb in ("SAVEPOINT", "ROLLBACK TO SAVEPOINT", "RELEASE SAVEPOINT")
)
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

    A parameter `of_x` is the value of the column `x`; `at` is the current time.

    Args:
        prefix: begins the names of tables and indexes.

    Attributes:
        metadata: the tables.

    Raises:
        ConfigurationError: `inbox.prefix`.
    """

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(
                "inbox.prefix", f"{prefix[:40]!r} is not a lower-case letter and up to 29 of a-z, 0-9 and _"
            )
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
        entry, latest = entries.c, versions.c
        is_empty = entry.due_at.is_not(None) & (func.length(entry.content) == literal_column("0"))
        for name, columns, where in (
            ("due", (entry.source, entry.due_at, entry.received_at), entry.due_at.is_not(None)),
            ("done", (entry.source, entry.done_at), entry.done_at.is_not(None)),
            ("failed", (entry.source, entry.received_at), entry.state == State.FAILED.value),
            ("empty", (entry.source, entry.due_at, entry.content), is_empty),
        ):
            Index(f"{prefix}entries_{name}", *columns, sqlite_where=where, postgresql_where=where)
        Index(f"{prefix}versions_set", latest.source, latest.set_at)

        of = {column.name: bindparam(f"of_{column.name}", type_=column.type) for column in entry}
        at, before, limit = (bindparam(name, type_=BigInteger) for name in ("at", "before", "most"))
        one = (entry.source == of["source"]) & (entry.key == of["key"])
        # An attempt has a number and a due time, so a worker whose claim was taken over changes nothing.
        was = one & (entry.attempts == bindparam("attempt")) & (entry.state == bindparam("was"))
        was &= entry.due_at.is_not_distinct_from(bindparam("was_due_at", type_=BigInteger))
        # A literal, because SQLite does not use a partial index for a parameter.
        failed = (entry.source == of["source"]) & (entry.state == literal_column(f"'{State.FAILED.value}'"))
        kept = [entry[name] for name in _ENTRY]
        moved = {name: of[name] for name in ("state", "due_at", "reason")}
        done = {
            **dict.fromkeys(("due_at", "reason", "content", "record", "version", "version_digest")),
            "state": State.DONE.value, "done_at": at,
        }  # fmt: skip
        # Fast path: a done entry has no content, so only these columns are written.
        new = {name: of[name] for name in ("source", "key", "digest", "name", "received_at")}
        new_done = {**new, "state": State.DONE.value, "attempts": 1, "done_at": at}
        whole = {name: of[name] for name in (*_ENTRY, "attempts")} | moved

        inserts = {name: dialect.insert(entries) for name, dialect in _DIALECTS}
        self.add = Statement(
            {name: into.values(whole).on_conflict_do_nothing().returning(entry.key) for name, into in inserts.items()}
        )
        # A delivery may take over a waiting or failed entry, or a claim whose lease has ended, if the content is the same.
        self.once, self.keep_failed = (
            Statement(
                {
                    name: into.values(values)
                    .on_conflict_do_update(
                        index_elements=["source", "key"],
                        set_={**changed, "attempts": entry.attempts + 1},
                        where=(entry.digest == into.excluded.digest)
                        & (entry.state != State.DONE.value)
                        & or_(entry.state != State.CLAIMED.value, entry.due_at <= at),
                    )
                    .returning(entry.key)
                    for name, into in inserts.items()
                }
            )
            for values, changed in ((new_done, done), (whole, moved))
        )
        # Renewed: a done or failed entry waits again; a waiting entry is due no later; a claimed entry waits again after its worker.
        is_claimed, is_waiting = entry.state == State.CLAIMED.value, entry.state == State.WAITING.value
        self.renew = Statement(
            {
                name: into.values(whole)
                .on_conflict_do_update(
                    index_elements=["source", "key"],
                    set_={
                        "state": case((is_claimed, entry.state), else_=State.WAITING.value),
                        "due_at": case(
                            (is_claimed | (is_waiting & (entry.due_at < into.excluded.due_at)), entry.due_at),
                            else_=into.excluded.due_at,
                        ),
                        "attempts": case((is_claimed, entry.attempts), else_=0),
                        "reason": case((is_claimed, _RENEWED), else_=None),
                        "done_at": None,
                        "received_at": into.excluded.received_at,
                        # The greater one, so that an empty content does not replace a known one.
                        "content": case(
                            (entry.content > into.excluded.content, entry.content), else_=into.excluded.content
                        ),
                    },
                    where=or_(
                        entry.state == State.DONE.value,
                        entry.state == State.FAILED.value,
                        is_waiting & ((entry.due_at > into.excluded.due_at) | (entry.content < into.excluded.content)),
                        is_claimed & (entry.reason.is_(None) | (entry.content < into.excluded.content)),
                    ),
                )
                .returning(entry.key)
                for name, into in inserts.items()
            }
        )
        # Returns a row if more than this number of entries without content wait.
        empty = select(entry.source).where(entry.source == of["source"], is_empty)
        self.beyond = Statement(empty.limit(1).offset(limit))
        self.known = Statement(select(entry.state, entry.digest, entry.attempts).where(one))
        # A single statement, so that the database orders two concurrent versions.
        version = {name: of[name] for name in ("source", "record", "version", "version_digest")} | {"set_at": at}
        self.advance = Statement(
            {
                name: into.values(version)
                .on_conflict_do_update(
                    index_elements=["source", "record"],
                    set_={name: into.excluded[name] for name in ("version", "version_digest", "set_at")},
                    where=into.excluded.version > latest.version,
                )
                .returning(latest.version)
                for name, into in ((name, dialect.insert(versions)) for name, dialect in _DIALECTS)
            }
        )
        last = select(latest.version, latest.version_digest)
        self.version = Statement(last.where(latest.source == of["source"], latest.record == of["record"]))

        due = select(*kept, entry.attempts, entry.state, entry.due_at).where(
            entry.source == of["source"], entry.due_at <= at
        )
        due = due.order_by(entry.due_at, entry.received_at).limit(1)
        self.due = Statement(due.with_for_update(skip_locked=True))
        self.move = Statement(update(entries).where(was).values(**moved, attempts=of["attempts"]).returning(entry.key))
        is_renewed = is_claimed & entry.reason.is_not(None)
        self.finish = Statement(update(entries).where(was, ~is_renewed).values(done).returning(entry.key))
        now = {"state": literal(State.WAITING.value), "attempts": literal(0), "due_at": at, "reason": null()}
        ends = {name: case((is_renewed, value), else_=of[name]) for name, value in now.items()}
        ends["content"] = case(
            (entry.content > of["content"], entry.content), else_=of["content"]
        )  # of a watch meanwhile
        self.repeat = Statement(update(entries).where(was).values(ends).returning(entry.state))

        listed = select(*kept, entry.attempts, entry.reason, entry.due_at).where(failed)
        after = tuple_(entry.received_at, entry.key) > tuple_(of["received_at"], of["key"])
        self.failed = Statement(listed.where(after).order_by(entry.received_at, entry.key).limit(limit))
        self.failure = Statement(listed.where(entry.key == of["key"]))
        waiting = {"state": State.WAITING.value, "due_at": at}
        self.release = Statement(update(entries).where(failed, one).values(waiting).returning(entry.key))
        self.sources = Statement(select(entry.source).distinct().order_by(entry.source))

        given_up = select(entry.key).where(failed, entry.due_at.is_(None), entry.received_at < before)
        given_up = given_up.order_by(entry.received_at).limit(limit).with_for_update(skip_locked=True)
        self.discard_failed = Statement(
            update(entries)
            .where(entry.source == of["source"], entry.key.in_(given_up))
            .values(done)
            .returning(entry.key)
        )
        self.purge_done, self.purge_versions = (
            Statement(
                delete(table)
                .where(table.c.source == of["source"])
                .where(
                    column.in_(
                        select(column)
                        .where(table.c.source == of["source"], time < before)
                        .order_by(time)
                        .limit(limit)
                        .with_for_update(skip_locked=True)
                    )
                )
                .returning(column)
            )
            for table, column, time in ((entries, entry.key, entry.done_at), (versions, latest.record, latest.set_at))
        )


def values_of(entry: Entry) -> dict[str, Any]:
    """Return the parameters of an entry."""
    version = entry.version or (None, None, None)
    return dict(zip(_PARAMETERS, (*entry[:5], to_microseconds(entry.received_at), *version), strict=True))


def waiting_values(entry: Entry, due_at: datetime) -> dict[str, Any]:
    """Return the parameters of an entry that waits until a time."""
    waits = {"of_state": State.WAITING, "of_attempts": 0, "of_due_at": to_microseconds(as_utc(due_at))}
    return {**values_of(entry), **waits, "of_reason": None}


def read_entry(row: Any) -> tuple[Entry, Any]:
    """Return the entry at the beginning of a row, and the remaining columns."""
    source, key, digest, name, content, received_at, record, number, version_digest = row[: len(_ENTRY)]
    version = (
        None if record is None else Version(record, number, None if version_digest is None else bytes(version_digest))
    )
    entry = Entry(source, key, bytes(digest), name, bytes(content or b""), from_microseconds(received_at), version)
    return entry, row[len(_ENTRY) :]


def read_failure(row: Any) -> Failure:
    """Return the failed entry of a row with attempts, reason and due time."""
    entry, (attempts, reason, due_at) = read_entry(row)
    return Failure(entry, attempts, reason or "", None if due_at is None else from_microseconds(due_at))
