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
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    any_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union,
    update,
)

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.errors import ConfigurationError
from tppkit.inbox import Version
from tppkit.inbox.entries import Entry, Failure, State
from tppkit.sql.statement import Statement, insert_or

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,29}")
_VERSION = ("record", "version", "version_digest")  # a done entry has none
_ENTRY = ("source", "key", "digest", "name", "content", "received_at", *_VERSION)
_STORED = (*_ENTRY, "state", "attempts", "due_at", "reason")  # in the order of `values_of`
_PARAMETERS = tuple(f"of_{name}" for name in _STORED)
# `reason` of a claimed entry: requested again, so that it waits again after its worker; or its last worker died.
_RENEWED, LEASE_ENDED = "renewed", "lease-ended"


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
        versions = Table(
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
            ("record", (entry.source, entry.record), entry.record.is_not(None)),
        ):
            Index(f"{prefix}entries_{name}", *columns, sqlite_where=where, postgresql_where=where)
        Index(f"{prefix}versions_set", latest.source, latest.set_at)

        of = {column.name: bindparam(f"of_{column.name}", type_=column.type) for column in entry}
        at, limit = (bindparam(name, type_=BigInteger) for name in ("at", "most"))
        in_source = entry.source == of["source"]
        is_waiting, is_claimed = entry.state == State.WAITING.value, entry.state == State.CLAIMED.value
        is_renewed = is_claimed & entry.reason.is_not_distinct_from(_RENEWED)
        # A literal, because SQLite does not use a partial index for a parameter.
        is_failed = entry.state == literal_column(f"'{State.FAILED.value}'")
        new = {name: of[name] for name in _STORED}
        self.add = _insert(entries, new)
        self.known = Statement(
            select(entry.state, entry.digest, entry.attempts).where(in_source, entry.key == of["key"])
        )

        # A delivery may take over a waiting or failed entry, or a claim whose lease has ended, if the content is the same.
        is_free = (entry.state != State.DONE.value) & or_(~is_claimed, entry.due_at <= at)
        is_free &= entry.digest == of["digest"]
        again = {"attempts": entry.attempts + 1}
        done = {"state": State.DONE.value, "done_at": at}
        done |= dict.fromkeys((*_VERSION, "content", "due_at", "reason"), null())
        self.once = _insert(entries, new | done | {"attempts": 1}, done | again, is_free)
        failed = {name: of[name] for name in ("state", "due_at", "reason")}
        self.keep_failed = _insert(entries, new, failed | again, is_free)

        # Renewed: a done or failed entry waits again; a waiting entry is due no later; a claimed entry waits again after its worker.
        # The greater content is kept, so that an empty one does not replace a known one.
        content = case((entry.content > of["content"], entry.content), else_=of["content"])
        is_due_before = is_waiting & (entry.due_at < of["due_at"])
        self.renew = _insert(
            entries,
            new,
            {
                "state": case((is_claimed, entry.state), else_=State.WAITING.value),
                "due_at": case((is_claimed | is_due_before, entry.due_at), else_=of["due_at"]),
                "attempts": case((is_claimed, entry.attempts), else_=0),
                "reason": case((is_claimed, _RENEWED)),
                "done_at": None,
                "received_at": of["received_at"],
                "content": content,
            },
            or_(
                ~(is_waiting | is_claimed),
                is_waiting & (entry.due_at > of["due_at"]),
                is_claimed & ~is_renewed,
                entry.content < of["content"],
            ),
        )
        # Returns a row if more than this number of entries without content wait.
        self.beyond = Statement(select(entry.source).where(in_source, is_empty).limit(1).offset(limit))

        # A single statement, so that the database orders two concurrent versions.
        version = {name: of[name] for name in ("version", "version_digest")} | {"set_at": at}
        self.advance = _insert(
            versions,
            {"source": of["source"], "record": of["record"], **version},
            version,
            latest.version < of["version"],
        )
        last = select(latest.version, latest.version_digest)
        self.version = Statement(last.where(latest.source == of["source"], latest.record == of["record"]))

        kept = [entry[name] for name in _ENTRY]
        due = select(entry.key).where(in_source, entry.due_at <= at).order_by(entry.due_at, entry.received_at)
        due = due.limit(1).with_for_update(skip_locked=True).correlate(None)
        self.take = Statement(
            update(entries)
            .where(in_source, entry.key == due.scalar_subquery())
            .values(
                state=State.CLAIMED.value,
                attempts=case((is_renewed, 1), else_=entry.attempts + 1),
                due_at=of["due_at"],
                reason=case((is_claimed & ~is_renewed, LEASE_ENDED)),
            )
            .returning(*kept, entry.attempts, entry.reason)
        )
        # An attempt has a number and a due time, so a worker whose claim was taken over changes nothing.
        was = (entry.key == of["key"]) & (entry.attempts == bindparam("attempt")) & (entry.state == bindparam("was"))
        was &= entry.due_at.is_not_distinct_from(bindparam("was_due_at", type_=BigInteger))
        is_done = ~is_renewed & (of["state"] == State.DONE.value)
        ended = {
            "state": case((is_renewed, State.WAITING.value), else_=of["state"]),
            "attempts": case((is_renewed, 0), else_=of["attempts"]),
            "due_at": case((is_renewed, at), else_=of["due_at"]),
            "reason": case((~is_renewed, of["reason"])),
            "done_at": case((is_done, at)),
            **{name: case((~is_done, entry[name])) for name in _VERSION},
            "content": case((~is_done, content)),
        }
        self.end = Statement(update(entries).where(in_source, was).values(ended).returning(entry.state))

        listed = select(*kept, entry.attempts, entry.reason, entry.due_at).where(in_source, is_failed)
        after = tuple_(entry.received_at, entry.key) > tuple_(of["received_at"], of["key"])
        self.failed = Statement(listed.where(after).order_by(entry.received_at, entry.key).limit(limit))
        self.failure = Statement(listed.where(entry.key == of["key"]))
        self.sources = Statement(union(select(entry.source), select(latest.source)).order_by("source"))
        self.purge_done = _Purge(entry.key, entry.done_at)
        self.purge_failed = _Purge(entry.key, entry.received_at, is_failed, entry.due_at.is_(None))
        # A version is kept while an entry of its record is not done, so that an older one cannot take effect after it.
        is_open = exists().where(entry.source == latest.source, entry.record == latest.record)
        self.purge_versions = _Purge(latest.record, latest.set_at, ~is_open)


def _insert(
    table: Table, values: dict[str, Any], changes: dict[str, Any] | None = None, where: Any = None
) -> Statement:
    """Make an INSERT. A row with the same key is changed where a condition holds; otherwise no row is returned."""

    def complete(into: Any) -> Any:
        into = into.values(values)
        if changes is None:
            into = into.on_conflict_do_nothing()
        else:
            into = into.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes, where=where)
        return into.returning(table.c.source)

    return insert_or(table, complete)


class _Purge(Statement):
    """A DELETE of the oldest rows of a source, except those that are locked."""

    def __init__(self, column: Column[Any], time: Column[Any], *where: ColumnElement[bool]) -> None:
        in_source = column.table.c.source == bindparam("of_source")
        before, limit = (bindparam(name, type_=BigInteger) for name in ("before", "most"))
        old = select(column).where(in_source, time < before, *where).order_by(time).limit(limit)
        made = {
            "sqlite": column.in_(old),
            # An array is computed once. PostgreSQL may execute a subquery of IN for each row, and then deletes more than the limit.
            "postgresql": column == any_(func.array(old.with_for_update(skip_locked=True).scalar_subquery())),
        }
        super().__init__(
            {name: delete(column.table).where(in_source, one).returning(column) for name, one in made.items()}
        )


class Parameters(dict[str, Any]):
    """The parameters of a statement; their representation has no value, because contents are personal."""

    def __repr__(self) -> str:
        return f"Parameters({', '.join(self)})"

    __sentry_repr__ = __repr__  # otherwise Sentry shows the items


def values_of(
    entry: Entry, state: State = State.WAITING, *, attempts: int = 0, due_at: datetime | None = None, reason: str | None = None
) -> Parameters:  # fmt: skip
    """Return the parameters of an entry and of its state."""
    version = entry.version or (None, None, None)
    due = None if due_at is None else to_microseconds(due_at)
    state_values = (to_microseconds(entry.received_at), *version, state, attempts, due, reason)
    return Parameters(zip(_PARAMETERS, (*entry[:5], *state_values), strict=True))


def read_entry(row: Any) -> tuple[Entry, Any]:
    """Return the entry at the beginning of a row, and the remaining columns."""
    source, key, digest, name, content, received_at, record, number, version_digest = row[: len(_ENTRY)]
    version = Version(record, number, version_digest and bytes(version_digest)) if record is not None else None
    entry = Entry(source, key, bytes(digest), name, bytes(content or b""), from_microseconds(received_at), version)
    return entry, row[len(_ENTRY) :]


def read_failure(row: Any) -> Failure:
    """Return the failed entry of a row with attempts, reason and due time."""
    entry, (attempts, reason, due_at) = read_entry(row)
    return Failure(entry, attempts, reason or "", None if due_at is None else from_microseconds(due_at))
