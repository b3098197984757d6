"""An inbox in SQLite or PostgreSQL: each entry takes effect once, in the transaction that marks it as done.

1. Insert the key. If it is there, the entry is a repetition, or a conflict if its content differs. A second delivery waits here until
   the first one commits or rolls back.
2. Set the version of its record, if it is greater than the last.
3. Call the handler on the same connection, within a savepoint.
4. Commit. All of it is undone together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from tppkit._clock import as_utc, shift, to_microseconds
from tppkit.errors import ConfigurationError, InboxError
from tppkit.inbox.database import Database, EffectFailed, have_effect, is_held, unavailable
from tppkit.inbox.engine import make_engine, make_memory_engine
from tppkit.inbox.entry import Entry, Failure, Outcome, State, Version, Worked
from tppkit.inbox.rows import (
    WIDTH,
    Taken,
    all_values,
    claim,
    new_values,
    optional_microseconds,
    place,
    read_entry,
    read_failure,
)
from tppkit.inbox.settings import LEASE, MAX_BATCH, RETENTION, RETRIES, Retention, Retries, require_limit
from tppkit.inbox.statements import Statements

WAIT_S = 5.0

Handler = Callable[[Entry, Any], object]  # the second argument is the connection
VersionOf = Callable[[Entry], Version | None]

# How long to wait for a lock in PostgreSQL. A sender waits for a delivery, and nobody for a worker.
_WAIT, _WORKERS_WAIT = timedelta(seconds=1), timedelta(milliseconds=200)
_BEFORE_ALL = (-(2**63), "")


class InboxStore:
    """The entries of any number of sources, for threads and processes.

    Handlers get the entry and SQLAlchemy's `Connection`, write by it, and must not commit. Every method raises InboxError
    (`inbox.unavailable`) if the database fails; then acknowledge nothing.

    Args:
        database: a SQLAlchemy address such as `sqlite:///tpp.sqlite` or `postgresql+psycopg://host/name`, or an engine, also one for
            asyncio: then call the methods through `run_sync`.
        prefix: of the tables' names; lower-case letters, digits and `_`, at most 30.
        wait_s: for an address: how long to wait for other threads and processes, in seconds.

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
            raise ConfigurationError("inbox.setting", f"a {type(database).__name__} is no address and no engine")
        self._database = Database(engine, forks=not isinstance(self, MemoryStore))
        self.engine = self._database.engine

    def create_tables(self) -> None:
        """Create the tables that are absent; only reads if they are present.

        Raises:
            ConfigurationError: `inbox.schema`, tables with these names are not an inbox's.
            InboxError: `inbox.unavailable`.
        """
        self._database.create_tables(self._sql.metadata)

    def for_tasks(self) -> InboxStore:
        """Return the store as tasks of an event loop use it: on SQLite without an engine for asyncio, they share commits."""
        if self.engine.dialect.name != "sqlite" or self.engine.dialect.is_async:
            return self
        from tppkit.inbox.shared import SharedDatabase  # needs greenlet

        store = copy(self)
        store._database = SharedDatabase(self.engine, forks=False)
        return store

    def close(self) -> None:
        """Close the connections that are not in use; the next call opens new ones."""
        self.engine.dispose()

    def accept(self, entry: Entry) -> Outcome:
        """Store an entry for `work`: STORED, REPEATED or CONFLICT."""
        values = {**all_values(entry), "due": to_microseconds(entry.received_at)}
        with self._database.transaction() as db, self._database.hurried(db, _WAIT) as quick:
            if self._sql.add.run(quick, values).fetchall():
                return Outcome.STORED
            outcome = self._known(quick, entry)[1]
            return Outcome.REPEATED if outcome is Outcome.BUSY else outcome

    def accept_failed(self, entry: Entry, reason: str) -> Outcome:
        """Store an entry that cannot be handled yet as failed, until it is released: FAILED, REPEATED or CONFLICT.

        Args:
            entry: the entry.
            reason: shown with the failure.
        """
        values = {**all_values(entry), "due": None, "of_reason": reason}
        with self._database.transaction() as db, self._database.hurried(db, _WAIT):
            if self._sql.add_failed.run(db, values).fetchall():
                return Outcome.FAILED
            state, outcome = self._known(db, entry)
            return outcome if state == State.DONE or outcome is Outcome.CONFLICT else Outcome.FAILED

    def handle(self, entry: Entry, handler: Handler, *, at: datetime, retries: Retries = RETRIES) -> Outcome:
        """Handle an entry now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY or CONFLICT.

        The handler is called for APPLIED only. What it raises undoes what it wrote, is kept as the failure of the entry, and raised.

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
                with self._database.hurried(db, _WAIT) as quick:
                    outcome = self._once(quick, entry, at)
                if outcome is Outcome.APPLIED:
                    have_effect(quick, lambda: handler(entry, db))
            return outcome
        except EffectFailed as e:
            failed = e
        with suppress(InboxError):  # what failed before is more important
            self._keep_failed(entry, failed.reason, at, retries)
        raise failed.error

    def once(self, entry: Entry, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry as done in the transaction of the caller.

        Only after APPLIED the caller writes the effect, in the same transaction, and commits. What is rolled back was not received.

        Args:
            entry: the entry.
            at: now, aware.
            within: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.no-transaction`.
        """
        db = self._database.of_caller(within)
        with unavailable():
            return self._once(db, entry, as_utc(at))

    def handle_within(self, entry: Entry, handler: Handler, *, at: datetime, within: Any) -> Outcome:
        """Handle an entry in the transaction of the caller, who commits it, or rolls back whatever is raised.

        Args:
            entry: the entry.
            handler: called with the entry and `within`.
            at: now, aware.
            within: see `once`.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.no-transaction`, `inbox.handler-committed`, `inbox.handler-aborted`.
        """
        db = self._database.of_caller(within)
        with unavailable():
            try:
                outcome = self._once(db, entry, as_utc(at))
                if outcome is Outcome.APPLIED:
                    have_effect(db, lambda: handler(entry, within))
                return outcome
            except EffectFailed as e:
                failed = e
        raise failed.error

    def work(
        self, source: str, handler: Handler, *, at: datetime, limit: int = 100, lease: timedelta = LEASE,
        retries: Retries = RETRIES, version_of: VersionOf | None = None,
    ) -> list[Worked]:  # fmt: skip
        """Handle stored entries that are due, oldest first, each in a transaction of its own.

        A handler that raises leaves no writes, and its entry is tried again later. If a worker dies, what it had claimed is due again
        when its lease ends, and is then claimed alone, so that an entry that ends its process holds up no other; after its attempts it
        is failed as `lease-ended`.

        Args:
            source: of the entries.
            handler: called with the entry and the connection.
            at: now, aware.
            limit: how many at most, up to 1,000.
            lease: how long this worker may take before another one may claim the same entries.
            retries: when a failed entry is tried again.
            version_of: returns the version of an entry that was stored without one.

        Raises:
            InboxError: `inbox.unavailable`, before anything was done.
        """
        at, left, worked = as_utc(at), require_limit(limit), list[Worked]()
        began = elapsed = 0.0
        try:
            while left > 0:
                until = shift(at, lease + timedelta(seconds=elapsed))
                given_up, taken = self._take(source, at, until, left, retries)
                worked += given_up
                if not taken and not given_up:
                    break
                began = began or time.monotonic()
                for n, one in enumerate(taken):
                    worked.append(self._work_one(taken[n:], one, handler, at, retries, version_of))
                elapsed, left = time.monotonic() - began, limit - len(worked)
        except InboxError:
            if not worked:  # else return what is done; a failure that lasts meets the next call
                raise
        return worked

    def _work_one(
        self, left: Sequence[Taken], one: Taken, handler: Handler, at: datetime, retries: Retries,
        version_of: VersionOf | None,
    ) -> Worked:  # fmt: skip
        entry, called = one.entry, False
        if entry.version is None and version_of is not None:
            entry = entry._replace(version=version_of(entry))

        def effect() -> None:
            nonlocal called
            called = True
            handler(entry, db)

        try:
            with self._database.transaction() as db:
                with self._database.hurried(db, _WORKERS_WAIT) as quick:
                    if not self._sql.finish.run(quick, {**claim(one), "at": to_microseconds(at)}).fetchall():
                        return Worked(entry, Outcome.BUSY)  # the lease ended and another worker has it
                    outcome = self._advance(quick, entry, at)
                if outcome is Outcome.APPLIED:
                    have_effect(quick, effect)
            return Worked(entry, outcome)
        except EffectFailed as e:
            return Worked(entry, self._fail(one, e.reason, at, retries))
        except InboxError as e:
            if called:  # it may be the handler that costs the connection
                return Worked(entry, self._fail(one, EffectFailed(e).reason, at, retries))
            if is_held(e):
                self._put_back([one], at, retries)
                return Worked(entry, Outcome.BUSY)
            with suppress(InboxError):  # no attempt of anyone
                self._put_back(left, at, retries)
            raise

    def failed(self, source: str, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """Return failed entries in the order of their receipt.

        Args:
            source: of the entries.
            limit: how many at most, up to 1,000.
            after: the last one of the page before.
        """
        time_, key = _BEFORE_ALL if after is None else (to_microseconds(after.entry.received_at), after.entry.key)
        values = {"of_source": source, "after": time_, "of_key": key, "most": require_limit(limit)}
        return [read_failure(row) for row in self._rows(self._sql.failed, values)]

    def find_failed(self, source: str, key: str) -> Failure | None:
        """Return the failed entry with a key."""
        rows = self._rows(self._sql.failure, {"of_source": source, "of_key": key})
        return read_failure(rows[0]) if rows else None

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Make a failed entry due now; False if it is no longer failed."""
        values = {**place(failure.entry), "due": to_microseconds(as_utc(at))}
        return bool(self._rows(self._sql.release, values))

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Mark a failed entry as done without effect; False if it is no longer failed, or was tried again since.

        Its content is deleted, its repetition is a repetition, and its version is not used up.
        """
        values = {**place(failure.entry), "attempt": failure.attempts, "at": to_microseconds(as_utc(at))}
        return bool(self._rows(self._sql.discard, values))

    def purge(self, source: str, *, at: datetime, retention: Retention = RETENTION) -> int:
        """Forget what the retention no longer asks for, in bounded batches; returns how many rows."""
        now, forgotten = as_utc(at), 0
        values = {"of_source": source, "most": MAX_BATCH, "at": to_microseconds(now)}
        if retention.failed is not None:
            before = to_microseconds(shift(now, -retention.failed))
            while self._rows(self._sql.discard_failed, {**values, "before": before}):
                pass
        spans = (self._sql.purge_done, retention.done), (self._sql.purge_versions, retention.versions)
        for statement, span in spans:
            before = to_microseconds(shift(now, -span))
            while rows := self._rows(statement, {**values, "before": before}):
                forgotten += len(rows)
        return forgotten

    def sources(self) -> list[str]:
        """Return the sources that have entries."""
        return [source for (source,) in self._rows(self._sql.sources, {})]

    def _rows(self, statement: Any, values: dict[str, Any]) -> Sequence[Any]:
        with self._database.transaction() as db, self._database.hurried(db, _WAIT):
            return statement.run(db, values).fetchall()  # type: ignore[no-any-return]

    def _once(self, db: Any, entry: Entry, at: datetime) -> Outcome:
        if not self._sql.once.run(db, {**new_values(entry), "at": to_microseconds(at)}).fetchall():
            return self._known(db, entry)[1]
        return self._advance(db, entry, at)

    def _known(self, db: Any, entry: Entry) -> tuple[str, Outcome]:
        rows: Sequence[Any] = self._sql.known.run(db, place(entry)).fetchall()
        if not rows:
            raise InboxError("inbox.unavailable", "an entry was forgotten while it was received again")
        state, digest, _ = rows[0]
        if bytes(digest) != entry.digest:
            return state, Outcome.CONFLICT
        return state, Outcome.BUSY if state == State.CLAIMED else Outcome.REPEATED

    def _advance(self, db: Any, entry: Entry, at: datetime) -> Outcome:
        """Set the version: APPLIED if it is new, else STALE or VERSION_CONFLICT."""
        if entry.version is None:
            return Outcome.APPLIED
        record, number, digest = entry.version
        values = {"of_source": entry.source, "of_record": record, "of_version": number, "of_version_digest": digest}
        if self._sql.advance.run(db, {**values, "at": to_microseconds(at)}).fetchall():
            return Outcome.APPLIED
        rows: Sequence[Any] = self._sql.version.run(db, {"of_source": entry.source, "of_record": record}).fetchall()
        for last, said in rows:
            if last == number and None not in (digest, said) and bytes(said) != digest:
                return Outcome.VERSION_CONFLICT
        return Outcome.STALE

    def _keep_failed(self, entry: Entry, reason: str, at: datetime, retries: Retries) -> None:
        with self._database.transaction() as db, self._database.hurried(db, _WAIT):
            known: Sequence[Any] = self._sql.known.run(db, place(entry)).fetchall()
            due = optional_microseconds(retries.due_at(known[0][2] + 1 if known else 1, at=at))
            values = {**all_values(entry), "of_reason": reason, "due": due, "at": to_microseconds(at)}
            self._sql.keep_failed.run(db, values)

    def _take(
        self, source: str, at: datetime, until: datetime, limit: int, retries: Retries
    ) -> tuple[list[Worked], list[Taken]]:
        """Claim what is due: the first entry alone if the lease of its worker has ended, and after its attempts not at all."""
        with self._database.transaction() as db:
            values = {"of_source": source, "at": to_microseconds(at), "most": limit}
            rows = self._sql.due.run(db, values).fetchall()
            lapsed = [Taken(read_entry(row), row[WIDTH]) for row in rows[:1] if row[-1] == State.CLAIMED]
            if lapsed and retries.due_at(lapsed[0].attempt, at=at) is None:
                self._sql.fail.run(db, {**claim(lapsed[0]), "due": None, "of_reason": "lease-ended"})
                return [Worked(lapsed[0].entry, Outcome.FAILED)], []
            found = lapsed or [Taken(read_entry(row), row[WIDTH]) for row in rows if row[-1] != State.CLAIMED]
            for one in found:
                self._sql.claim.run(db, {**place(one.entry), "due": to_microseconds(until)})
            found.sort(key=lambda one: one.entry.received_at)
            return [], [one._replace(attempt=one.attempt + 1) for one in found]

    def _fail(self, one: Taken, reason: str, at: datetime, retries: Retries) -> Outcome:
        values = {**claim(one), "of_reason": reason, "due": optional_microseconds(retries.due_at(one.attempt, at=at))}
        return Outcome.FAILED if self._rows(self._sql.fail, values) else Outcome.BUSY

    def _put_back(self, taken: Sequence[Taken], at: datetime, retries: Retries) -> None:
        due = to_microseconds(retries.due_at(0, at=at) or at)
        with self._database.transaction() as db, self._database.hurried(db, _WORKERS_WAIT):
            for one in taken:
                self._sql.put_back.run(db, {**claim(one), "due": due})


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
