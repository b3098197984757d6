"""An inbox in SQLite or PostgreSQL: each entry takes effect once, in the transaction that sets its done flag.

1. Insert the key. If it is there, the entry is a repetition, or a conflict if its content differs. A second delivery waits here until
   the first one commits or rolls back.
2. Set the version of its record, if it is greater than the last.
3. Call the handler on the same connection, within a savepoint.
4. Commit. All of it is undone together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from tppkit._clock import as_utc, shift, to_microseconds
from tppkit.errors import ConfigurationError, InboxError
from tppkit.inbox.database import Database, EffectFailed, have_effect, is_held
from tppkit.inbox.engine import make_engine, make_memory_engine
from tppkit.inbox.entry import Entry, Outcome, State, Worked
from tppkit.inbox.operator_methods import WAIT, OperatorMethods
from tppkit.inbox.settings import LEASE, RETRIES, Retries, due_microseconds, require_limit
from tppkit.inbox.statements import Statements, read_entry, values_of, waiting_values

WAIT_S = 3.0  # the gateway waits 4 seconds for the answer to a webhook

Handler = Callable[[Entry, Any], object]  # the second argument is the connection
Claim = dict[str, Any]
Prepare = Callable[[Entry, datetime], Entry | None]

_WORKERS_WAIT = "200ms"  # for a lock in PostgreSQL; short, so that deliveries have priority over workers
_FORGOTTEN_AT_ONCE = 10  # more than one, so that the table shrinks


class InboxStore(OperatorMethods):
    """The entries of any number of sources, for threads and processes.

    Handlers get the entry and SQLAlchemy's `Connection`. They write with it and must not commit. Every method raises InboxError
    (`inbox.unavailable`) if the database fails; then do not acknowledge the event.

    Args:
        database: a SQLAlchemy address such as `sqlite:///tpp.sqlite` or `postgresql+psycopg://host/name`, or an engine, also one for
            asyncio: then call the methods through `run_sync`.
        prefix: of the tables' names; lower-case letters, digits and `_`, at most 30.
        wait_s: for an address: how long to wait, in seconds: half of it for other threads, half for other processes or a server that
            does not answer.

    Attributes:
        engine: the engine.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.dialect`, `inbox.sqlite`, `inbox.setting`, `extra.missing`.

    Example:
        store = InboxStore("sqlite:///tpp.sqlite")
        store.create_tables()
        outcome = store.handle(entry, lambda entry, db: db.execute(INSERT, {"body": entry.content}), at=utc_now())
    """

    def __init__(self, database: Any, *, prefix: str = "tppkit_inbox_", wait_s: float = WAIT_S) -> None:
        self._sql = Statements(prefix)
        engine = make_engine(database, wait_s) if isinstance(database, str) else database
        engine = getattr(engine, "sync_engine", engine)
        if not hasattr(engine, "dialect"):
            raise ConfigurationError(
                "inbox.setting", f"a {type(database).__name__} is neither an address nor an engine"
            )
        self._database = Database(engine, forks=not isinstance(self, MemoryStore))
        self.engine = self._database.engine

    @property
    def database(self) -> Database:
        """The transactions of the store, for other tables in the same database."""
        return self._database

    def create_tables(self) -> None:
        """Create absent tables; writes nothing if all are present.

        Raises:
            ConfigurationError: `inbox.schema`, tables with these names are not an inbox's.
            InboxError: `inbox.unavailable`.
        """
        self._database.create_tables(self._sql.metadata)

    def for_tasks(self) -> InboxStore:
        """Return the store for tasks of an event loop. On SQLite without an engine for asyncio, the tasks share commits."""
        if self.engine.dialect.name != "sqlite" or self.engine.dialect.is_async:
            return self
        from tppkit.inbox.shared_transactions import SharedDatabase  # needs greenlet

        store = copy(self)
        store._database = SharedDatabase(self.engine, forks=False)
        return store

    def close(self) -> None:
        """Close the connections that are not in use; the next call opens new ones."""
        self.engine.dispose()

    def accept(self, entry: Entry, *, fault: str | None = None) -> Outcome:
        """Store an entry for `work`: STORED, REPEATED or CONFLICT.

        Args:
            entry: the entry.
            fault: why it cannot be handled yet. Then it is stored as failed until it is released, and FAILED is returned, also for an
                entry that was stored before and is not done.
        """
        values = waiting_values(entry, entry.received_at)
        if fault is not None:
            values |= {"of_state": State.FAILED, "of_attempts": 1, "of_due_at": None, "of_reason": fault}
        with self._brief() as db:
            if self._sql.add.first(db, values):
                return Outcome.STORED if fault is None else Outcome.FAILED
            state, outcome = self._known(db, entry)
        if outcome is Outcome.CONFLICT:
            return outcome
        return Outcome.REPEATED if fault is None or state == State.DONE else Outcome.FAILED

    def renew(
        self, entry: Entry, *, due_at: datetime | None = None, most: int | None = None, within: Any = None
    ) -> Outcome:
        """Store an entry for `work`, also if its key is known: STORED, or REPEATED if an entry with this key is already waiting.

        If a worker is handling the entry, it is handled once more. Of two contents, the greater one is kept. Done entries of the source
        are deleted.

        Args:
            entry: the entry, without a version.
            due_at: when it is due, aware; None: now.
            most: how many entries without content may wait; None: any number.
            within: see `handle_within`; None: a new transaction.

        Raises:
            InboxError: `inbox.full`, `inbox.unavailable`.
            ConfigurationError: `inbox.no-transaction`.
        """
        values = waiting_values(entry, due_at or entry.received_at)
        with self._brief() if within is None else self._database.of_caller(within) as db:
            if within is None:
                self._sql.purge_done.all(db, {**values, "before": values["of_received_at"], "most": _FORGOTTEN_AT_ONCE})
            if not self._sql.renew.first(db, values):
                return Outcome.REPEATED
            if most is not None and self._sql.beyond.first(db, {**values, "most": most}):
                raise InboxError("inbox.full", f"{most} entries of {entry.source} wait already")
            return Outcome.STORED

    def handle(self, entry: Entry, handler: Handler, *, at: datetime, retries: Retries = RETRIES) -> Outcome:
        """Handle an entry now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY or CONFLICT.

        The handler is called for APPLIED only. If it raises, its writes are rolled back, the exception's class and code are stored as
        the failure of the entry, and the exception is raised again.

        Args:
            entry: the entry.
            handler: called with the entry and the connection.
            at: now, aware.
            retries: when a failed entry is tried again.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        at = as_utc(at)
        try:
            with self._database.transaction() as db:
                with self._database.hurried(db, WAIT):
                    outcome = self._once(db, entry, at)
                if outcome is Outcome.APPLIED:
                    have_effect(db, lambda: handler(entry, db))
            return outcome
        except EffectFailed as e:
            failed = e
        with suppress(InboxError):  # the handler's error is more important
            self._keep_failed(entry, failed.reason, at, retries)
        raise failed.error

    def handle_within(self, entry: Entry, handler: Handler | None, *, at: datetime, within: Any) -> Outcome:
        """Handle an entry in the transaction of the caller, who commits it, or rolls it back after any exception.

        Args:
            entry: the entry.
            handler: called with the entry and `within`, for APPLIED only; None: the caller writes the effect after APPLIED.
            at: now, aware.
            within: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.no-transaction`, `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        try:
            with self._database.of_caller(within) as db:
                outcome = self._once(db, entry, as_utc(at))
                if outcome is Outcome.APPLIED and handler is not None:
                    have_effect(db, lambda: handler(entry, within))
                return outcome
        except EffectFailed as e:
            failed = e
        raise failed.error

    def work(
        self, source: str, handler: Handler, *, at: datetime, limit: int = 100, lease: timedelta = LEASE,
        retries: Retries = RETRIES, prepare: Prepare | None = None,
    ) -> list[Worked]:  # fmt: skip
        """Handle stored entries that are due, oldest first, each in its own transaction.

        If a handler raises, its writes are rolled back and the entry is retried later. If a worker dies, its entry is due again when
        the lease ends; after the last attempt it fails as `lease-ended`.

        Args:
            source: of the entries.
            handler: called with the entry and the connection.
            at: now, aware.
            limit: how many at most, up to 1,000.
            lease: how long this worker may take for an entry before another one may claim it.
            retries: when a failed entry is tried again.
            prepare: called with the entry and the time before its transaction begins. Returns the entry to handle, or None to end it
                without effect (DROPPED). An exception that it raises counts as a failure of the handler.

        Raises:
            InboxError: `inbox.unavailable`, before any entry was handled.
        """
        at, began, worked = as_utc(at), time.monotonic(), list[Worked]()
        until = shift(at, lease)
        try:
            for _ in range(require_limit(limit)):
                if (taken := self._take(source, at, until, retries)) is None:
                    break
                entry, claim = taken
                if claim is None:
                    worked.append(Worked(entry, Outcome.FAILED, "lease-ended"))
                else:
                    worked.append(self._work_one(entry, claim, handler, at, retries, prepare))
                until = shift(at, lease + timedelta(seconds=time.monotonic() - began))
        except InboxError:
            if not worked:  # else return the handled entries; a lasting failure is raised by the next call
                raise
        return worked

    def _work_one(
        self, entry: Entry, claim: Claim, handler: Handler, at: datetime, retries: Retries, prepare: Prepare | None
    ) -> Worked:
        outcome, attempt = Outcome.BUSY, claim["attempt"]
        claim = {**values_of(entry), **claim, "at": to_microseconds(at)}
        try:
            ready = _prepared(entry, prepare, at)
            entry = ready or entry
            claim |= values_of(entry)
            with self._database.transaction() as db:
                with self._database.hurried(db, _WORKERS_WAIT):
                    if (state := self._end(db, entry, claim)) is None:
                        return Worked(entry, outcome)  # the lease ended and another worker has it
                    outcome = self._advance(db, entry, claim) if ready else Outcome.DROPPED
                if outcome is Outcome.APPLIED:
                    have_effect(db, lambda: handler(entry, db))
            if entry.fault and state == State.FAILED:
                return Worked(entry, Outcome.FAILED, entry.fault.code)
            return Worked(entry, outcome)
        except EffectFailed as e:
            failed = e
        except InboxError as e:
            if outcome is not Outcome.APPLIED:  # no attempt
                waits = {"of_state": State.WAITING, "of_attempts": attempt - 1, "of_reason": None}
                with suppress(InboxError):
                    self._rows(self._sql.move, {**claim, **waits, "of_due_at": due_microseconds(retries, 0, at)})
                if is_held(e):
                    return Worked(entry, Outcome.BUSY)
                raise
            failed = EffectFailed(e)  # the handler may have broken the connection
        fails = {"of_state": State.FAILED, "of_attempts": attempt, "of_reason": failed.reason}
        changed = self._rows(self._sql.move, {**claim, **fails, "of_due_at": due_microseconds(retries, attempt, at)})
        return Worked(entry, Outcome.FAILED, failed.code) if changed else Worked(entry, Outcome.BUSY)

    def _end(self, db: Any, entry: Entry, claim: Claim) -> str | None:
        """Set a claimed entry to done, waiting or failed, and return its state; None if the claim has ended."""
        if not entry.again_at and not entry.fault and self._sql.finish.first(db, claim):
            return State.DONE
        again_at = to_microseconds(entry.again_at) if entry.again_at else claim["at"]
        ends = {"of_state": State.WAITING, "of_attempts": 0, "of_due_at": again_at, "of_reason": None}
        if entry.fault:
            reason = EffectFailed(entry.fault).reason
            ends = {"of_state": State.FAILED, "of_attempts": claim["attempt"], "of_due_at": None, "of_reason": reason}
        (state,) = self._sql.repeat.first(db, {**claim, **ends}) or (None,)
        return state

    def _once(self, db: Any, entry: Entry, at: datetime) -> Outcome:
        values = {**values_of(entry), "at": to_microseconds(at)}
        if not self._sql.once.first(db, values):
            return self._known(db, entry)[1]
        return self._advance(db, entry, values)

    def _known(self, db: Any, entry: Entry) -> tuple[str, Outcome]:
        row = self._sql.known.first(db, values_of(entry))
        if row is None:
            raise InboxError("inbox.unavailable", "an entry was purged while it was received again")
        state, digest, _ = row
        if bytes(digest) != entry.digest:
            return state, Outcome.CONFLICT
        return state, Outcome.BUSY if state == State.CLAIMED else Outcome.REPEATED

    def _advance(self, db: Any, entry: Entry, values: dict[str, Any]) -> Outcome:
        """Set the version: APPLIED if it is new, else STALE or VERSION_CONFLICT."""
        if entry.version is None or self._sql.advance.first(db, values):
            return Outcome.APPLIED
        last, digest = self._sql.version.first(db, values) or (None, None)
        if (
            last == entry.version.number
            and None not in (entry.version.digest, digest)
            and digest != entry.version.digest
        ):
            return Outcome.VERSION_CONFLICT
        return Outcome.STALE

    def _keep_failed(self, entry: Entry, reason: str, at: datetime, retries: Retries) -> None:
        values = {**values_of(entry), "of_state": State.FAILED, "of_attempts": 1, "of_reason": reason}
        with self._brief() as db:
            known = self._sql.known.first(db, values)
            due_at = due_microseconds(retries, known[2] + 1 if known else 1, at)
            self._sql.keep_failed.first(db, {**values, "of_due_at": due_at, "at": to_microseconds(at)})

    def _take(self, source: str, at: datetime, until: datetime, retries: Retries) -> tuple[Entry, Claim | None] | None:
        """Claim a due entry, and return it with the claim of this attempt.

        If the lease of its worker has ended after the last attempt, it fails, and the claim is None.
        """
        with self._brief() as db:
            row = self._sql.due.first(db, {"of_source": source, "at": to_microseconds(at)})
            if row is None:
                return None
            entry, (attempts, state, due_at) = read_entry(row)
            was = {"was": state, "attempt": attempts, "was_due_at": due_at}
            values = {**values_of(entry), **was, "of_attempts": attempts}
            if state == State.CLAIMED and retries.due_at(attempts, at=at) is None:
                fails = {"of_state": State.FAILED, "of_due_at": None, "of_reason": "lease-ended"}
                self._sql.move.first(db, {**values, **fails})
                return entry, None
            claims = {"of_state": State.CLAIMED, "of_attempts": attempts + 1, "of_due_at": to_microseconds(until)}
            self._sql.move.first(db, {**values, **claims, "of_reason": None})
            return entry, {"was": State.CLAIMED, "attempt": attempts + 1, "was_due_at": to_microseconds(until)}


def _prepared(entry: Entry, prepare: Prepare | None, at: datetime) -> Entry | None:
    try:
        return entry if prepare is None else prepare(entry, at)
    except Exception as e:  # the application's own, also an InboxError: the entry's failure, not the store's
        raise EffectFailed(e) from e


class MemoryStore(InboxStore):
    """A store for tests, in the memory of this process.

    Args:
        wait_s: how long threads wait for each other, in seconds.

    Example:
        store = MemoryStore()
    """

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        super().__init__(make_memory_engine(wait_s))
        self.create_tables()
