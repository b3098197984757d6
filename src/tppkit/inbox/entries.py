"""Entries of an inbox, their states and outcomes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from tppkit.errors import TppkitError


class InboxError(TppkitError):
    """The store fails, or a function that the inbox depends on: do not acknowledge, so that the sender repeats."""


class State(StrEnum):
    """The state of an entry in the table.

    Attributes:
        WAITING: stored, not taken by a worker.
        CLAIMED: a worker has it until its lease ends.
        DONE: it took effect, or needs none.
        FAILED: its handler failed. It is tried again at its due time; without one, only after a release or a new delivery.
    """

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class Outcome(StrEnum):
    """The result of receiving or working an entry.

    Attributes:
        STORED: it is new and waits for a worker.
        APPLIED: it took effect now.
        REPEATED: it was stored or handled before.
        STALE: the same or a newer version was applied before; it is done without effect.
        VERSION_CONFLICT: the same version was applied before with other content; it is done without effect.
        BUSY: another worker or delivery has it; the sender should repeat it.
        FAILED: its handler failed, or `prepare` gave it up; workers return this, deliveries raise what the handler raised.
        CONFLICT: its key was used for other content.
        DROPPED: its subject does not exist; it is done without effect.
    """

    STORED = "stored"
    APPLIED = "applied"
    REPEATED = "repeated"
    STALE = "stale"
    VERSION_CONFLICT = "version-conflict"
    BUSY = "busy"
    FAILED = "failed"
    CONFLICT = "conflict"
    DROPPED = "dropped"


class Version(NamedTuple):
    """The place of an entry among those about the same record.

    Attributes:
        record: identifies the record within its source.
        number: a signed 64-bit integer; only a greater one than the last is applied.
        digest: identifies the content of this version; None if contents are not compared.
    """

    record: str
    number: int
    digest: bytes | None = None


class Entry(NamedTuple):
    """One event. Its texts must not contain NUL or surrogate characters, which databases do not store.

    Attributes:
        source: the sender, and the environment that its keys belong to, such as `webhook:test`.
        key: identifies the event within its source.
        digest: identifies the content; a known key with another digest is a conflict.
        name: shown to operators.
        content: what the handler needs; deleted when the entry is done.
        received_at: when it was received, aware UTC.
        version: its version, for events that have one.
        prepared: what the worker's `prepare` read for the handler; it is not stored.
        again_at: when `prepare` wants the entry to be due again after it is handled, aware UTC; None: it is done then. Not stored.
        fault: why the entry is stored as failed: it cannot be handled yet (`accept`), or not again after this time (`prepare`). Only
            the class and code are stored.

    Example:
        entry = failure.entry
        print(entry.source, entry.name, entry.received_at)
    """

    source: str
    key: str
    digest: bytes
    name: str
    content: bytes
    received_at: datetime
    version: Version | None = None
    prepared: Any = None
    again_at: datetime | None = None
    fault: TppkitError | None = None

    def __repr__(self) -> str:
        # Contents are personal, and `prepared` is read from them.
        return f"Entry(source={self.source!r}, key={self.key!r}, name={self.name!r}, version={self.version!r}, fault={self.fault!r})"

    def __sentry_repr__(self) -> str:
        return repr(self)  # otherwise Sentry shows the items of a tuple


class Worked(NamedTuple):
    """An entry that a worker has taken.

    Attributes:
        entry: the entry.
        outcome: APPLIED, STALE, VERSION_CONFLICT, DROPPED, FAILED, or BUSY if another worker or delivery has it or its record, or the
            database failed before the handler was called; then it is due again later.
        code: of the error if it FAILED, or the class of an error that has no code.

    Example:
        for worked in inbox.work(handler, at=utc_now()):
            print(worked.entry.name, worked.outcome, worked.code)
    """

    entry: Entry
    outcome: Outcome
    code: str = ""


class Failure(NamedTuple):
    """A failed entry.

    Attributes:
        entry: the entry.
        attempts: how often it was tried.
        reason: the class and code of the last error.
        due_at: when it is tried again, aware UTC; None if only a release or a new delivery does that.

    Example:
        for failure in inbox.failed():
            print(failure.entry.name, failure.attempts, failure.reason)
    """

    entry: Entry
    attempts: int
    reason: str
    due_at: datetime | None
