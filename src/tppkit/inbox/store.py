"""An inbox in SQLite or PostgreSQL: each entry takes effect once, in the transaction that sets its done flag.

1. Insert the key. If it is there, the entry is a repetition, or a conflict if its content differs. A second delivery waits here until
   the first one commits or rolls back.
2. Set the version of its record, if it is greater than the last.
3. Call the handler on the same connection, within a savepoint.
4. Commit. All of it is undone together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from tppkit._clock import as_utc, shift, to_microseconds
from tppkit._handlers import call_count, require_finished
from tppkit._locals import without_locals
from tppkit.errors import code_of
from tppkit.inbox.database import Database, EffectFailed, Savepoint, effect, reason_of
from tppkit.inbox.entries import Entry, Failure, InboxError, Outcome, State, Worked
from tppkit.inbox.settings import MAX_BATCH, RETENTION, RETRIES, Retention, Retries, Worker, require_limit
from tppkit.inbox.statements import LEASE_ENDED, Parameters, Statements, read_entry, read_failure, values_of
from tppkit.sql.engine import make_memory_engine

WAIT_S = 3.0  # the gateway waits 4 seconds for the answer to a webhook

_LOGGER = logging.getLogger("tppkit.inbox")

Handler = Callable[[Entry, Any], object]  # the second argument is the connection
Claim = dict[str, Any]

_WORKERS_WAIT = "200ms"  # for a lock in PostgreSQL; deliveries have priority, because their senders wait for the answer
_FORGOTTEN_AT_ONCE = 10  # more than one, so that the table shrinks


class InboxStore:
    """The entries of any number of sources, for threads and processes.

    Handlers get the entry and SQLAlchemy's `Connection`. They write with it and must not commit. Every method raises InboxError
    (`inbox.unavailable`) if the database fails; then do not acknowledge the event.

    Args:
        database: a SQLAlchemy address such as `sqlite:///tpp.sqlite` or `postgresql+psycopg://host/name`, or an engine.
        prefix: of the tables' names; lower-case letters, digits and `_`, at most 30.
        wait_s: for an address: seconds to wait, half of them for other threads, half for other processes or the server. Tasks wait
            so long for a thread, also with an engine.

    Attributes:
        engine: the engine.
        database: its transactions, for other tables in the same database.
        wait_s: as given.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.dialect`, `inbox.sqlite`, `inbox.setting`, `extra.missing`.

    Example:
        store = InboxStore("sqlite:///tpp.sqlite")
        store.create_tables()
        outcome = store.handle(entry, lambda entry, db: db.execute(INSERT, {"body": entry.content}), at=utc_now())
    """

    @without_locals
    def __init__(self, database: Any, *, prefix: str = "tppkit_inbox_", wait_s: float = WAIT_S) -> None:
        self._sql, self.wait_s = Statements(prefix), wait_s
        self.database = Database(database, wait_s=wait_s)
        self.engine = self.database.engine

    def create_tables(self) -> None:
        """Create absent tables, and switch the SQLite file of an address to WAL mode; writes nothing if both are done.

        Raises:
            ConfigurationError: `inbox.schema`, tables with these names are not an inbox's.
            InboxError: `inbox.unavailable`.
        """
        self.database.create_tables(self._sql.metadata)

    def close(self) -> None:
        """Close the connections that are not in use; the next call opens new ones."""
        self.engine.dispose()

    def accept(self, entry: Entry) -> Outcome:
        """Store an entry for `work`: STORED, REPEATED or CONFLICT.

        An entry with a fault is stored as failed until it is released: FAILED, also if it was stored before.
        """
        values = _ends(entry, 1) if entry.fault else values_of(entry, due_at=entry.received_at)
        with self.database.transaction() as db:
            if self._sql.add.first(db, values):
                return Outcome.FAILED if entry.fault else Outcome.STORED
            state, outcome = self._known(db, values)
        if outcome is Outcome.CONFLICT:
            return outcome
        return Outcome.FAILED if entry.fault and state != State.DONE else Outcome.REPEATED

    def renew(
        self, entry: Entry, *, due_at: datetime | None = None, most: int | None = None, within: Any = None
    ) -> Outcome:
        """Store an entry for `work`, also if its key is known: STORED, or REPEATED if an entry with this key is already waiting.

        An entry that a worker has is handled once more. The greater content is kept. Done entries of the source are deleted.

        Args:
            entry: the entry, without a version.
            due_at: when it is due, aware; None: now.
            most: how many entries without content may wait; None: any number.
            within: see `handle_within`; None: a new transaction.

        Raises:
            InboxError: `inbox.full`, `inbox.unavailable`.
            ConfigurationError: `inbox.no-transaction`.
        """
        values = values_of(entry, due_at=as_utc(due_at or entry.received_at))
        with self.database.transaction() if within is None else self.database.of_caller(within) as db:
            renewed = self._sql.renew.first(db, values)
            if within is None:  # last, because its locks must not be held while the statement before waits
                self._sql.purge_done.all(db, {**values, "before": values["of_received_at"], "most": _FORGOTTEN_AT_ONCE})
            if not renewed:
                return Outcome.REPEATED
            if most is not None and self._sql.beyond.first(db, {**values, "most": most}):
                raise InboxError("inbox.full", f"{most} entries of {entry.source} wait already")
            return Outcome.STORED

    def handle(self, entry: Entry, handler: Handler, *, at: datetime, retries: Retries = RETRIES) -> Outcome:
        """Handle an entry now: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY or CONFLICT.

        If the handler raises, its writes are rolled back, and the exception's class and code are stored as the failure of the entry.

        Args:
            entry: the entry.
            handler: called with the entry and the connection, for APPLIED only.
            at: now, aware.
            retries: when a failed entry is tried again.

        Raises:
            InboxError: `inbox.unavailable`.
            ConfigurationError: `inbox.handler-committed`, `inbox.handler-aborted`; `callback.function`, the handler is a coroutine
                function or a generator.
            Exception: what the handler raised.
        """
        at = as_utc(at)
        try:
            with self.database.transaction(guarded=True) as db:
                outcome = self._once(db, entry, at)
                if outcome is Outcome.APPLIED:
                    with effect(db):
                        require_finished(handler(entry, db))
            return outcome
        except EffectFailed as e:
            failed = e
        with suppress(InboxError), self.database.transaction() as db:  # the handler's error is more important
            known = self._sql.known.first(db, values_of(entry))
            due_at = retries.due_at(known[2] + 1 if known else 1, at=at)
            values = values_of(entry, State.FAILED, attempts=1, due_at=due_at, reason=reason_of(failed.error))
            self._sql.keep_failed.run_one(db, {**values, "at": to_microseconds(at)})
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
            ConfigurationError: `inbox.no-transaction`, `inbox.handler-committed`, `inbox.handler-aborted`, `callback.function`.
        """
        try:
            with self.database.of_caller(within) as db:
                outcome = self._once(db, entry, as_utc(at))
                if outcome is Outcome.APPLIED and handler is not None:
                    with Savepoint(db), effect():
                        require_finished(handler(entry, within))
                return outcome
        except EffectFailed as e:
            failed = e
        raise failed.error

    def work(self, worker: Worker, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Handle stored entries that are due, oldest first, each in its own transaction.

        If a handler raises, its writes are rolled back and the entry is retried later. If a worker dies, its entry is due again when the
        lease ends; after the last attempt it fails as `lease-ended`.

        Args:
            worker: the source, and how its entries are handled.
            at: now, aware.
            limit: how many at most, up to 1,000.

        Raises:
            InboxError: `inbox.unavailable`, before any entry was handled.
        """
        at = as_utc(at)
        began = time.monotonic()
        worked: list[Worked] = []
        until = shift(at, worker.lease)
        try:
            for _ in range(require_limit(limit)):
                if (taken := self._take(worker.source, at, until)) is None:
                    break
                begin = time.monotonic()
                worked.append(self._work_one(*taken, worker, at))
                end = time.monotonic()
                call_count(worker.count, _LOGGER, worked[-1].outcome.value, worked[-1].code, end - begin)
                until = shift(shift(at, worker.lease), timedelta(seconds=end - began))
        except InboxError:
            if not worked:  # else return the handled entries; a lasting failure is raised by the next call
                raise
        return worked

    def failed(self, source: str, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """Return failed entries in the order of their receipt.

        Args:
            source: the source of the entries.
            limit: maximum number of entries, up to 1,000.
            after: the last entry of the previous page; None: the first page.
        """
        values = {"of_source": source, "of_received_at": -(2**63), "of_key": "", "most": require_limit(limit)}
        if after is not None:
            values |= {"of_received_at": to_microseconds(after.entry.received_at), "of_key": after.entry.key}
        return [read_failure(row) for row in self._rows(self._sql.failed, values, reads=True)]

    def find_failed(self, source: str, key: str) -> Failure | None:
        """Return the failed entry with a key, or None."""
        rows = self._rows(self._sql.failure, {"of_source": source, "of_key": key}, reads=True)
        return read_failure(rows[0]) if rows else None

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Make a failed entry due now, with new attempts; False if it is no longer failed, or its attempts or due time have changed."""
        return self._change_failed(failure, State.WAITING, at)

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Set the done flag of a failed entry without effect; False if it is no longer failed, or its attempts or due time have changed.

        Its content is deleted, and a repetition is REPEATED. Another entry with its version can still take effect.
        """
        return self._change_failed(failure, State.DONE, at)

    def _change_failed(self, failure: Failure, state: State, at: datetime) -> bool:
        at = as_utc(at)
        due_at = failure.due_at and to_microseconds(failure.due_at)
        claim = {"was": State.FAILED, "attempt": failure.attempts, "was_due_at": due_at, "at": to_microseconds(at)}
        values = values_of(failure.entry, state, due_at=at if state is State.WAITING else None)
        return bool(self._rows(self._sql.end, {**values, **claim}))

    def purge(self, source: str, *, at: datetime, retention: Retention = RETENTION) -> int:
        """Delete rows whose retention has ended, in bounded batches; returns their number."""
        deleted = 0
        spans = {self._sql.purge_done: retention.done, self._sql.purge_versions: retention.versions}
        if retention.failed is not None:
            spans[self._sql.purge_failed] = retention.failed
        for statement, span in spans.items():
            values = {"of_source": source, "before": to_microseconds(shift(as_utc(at), -span)), "most": MAX_BATCH}
            while rows := self._rows(statement, values):
                deleted += len(rows)
        return deleted

    def sources(self) -> list[str]:
        """Return the sources that have entries or versions."""
        return [source for (source,) in self._rows(self._sql.sources, {}, reads=True)]

    def _take(self, source: str, at: datetime, until: datetime) -> tuple[Entry, Claim, bool] | None:
        """Claim a due entry; True as the third value if its last worker died."""
        values = {"of_source": source, "at": to_microseconds(at), "of_due_at": to_microseconds(until)}
        if not (rows := self._rows(self._sql.take, values)):
            return None
        entry, (attempt, reason) = read_entry(rows[0])
        claim = {"was": State.CLAIMED, "attempt": attempt, "was_due_at": values["of_due_at"], "at": values["at"]}
        return entry, claim, reason == LEASE_ENDED

    def _work_one(self, taken: Entry, claim: Claim, has_died: bool, worker: Worker, at: datetime) -> Worked:
        entry, outcome = taken, Outcome.BUSY
        attempt, retries = claim["attempt"], worker.retries
        if has_died and attempt > retries.attempts:
            values = values_of(taken, State.FAILED, attempts=attempt - 1, reason=LEASE_ENDED)
            ended = self._rows(self._sql.end, {**values, **claim})
            is_failed = [*ended] == [(State.FAILED,)]  # else it was renewed, or another worker has it
            return Worked(taken, Outcome.FAILED, LEASE_ENDED) if is_failed else Worked(taken, Outcome.BUSY)
        try:
            with effect():
                ready = worker.prepare(taken, at) if worker.prepare else taken
            entry = ready or taken
            with self.database.transaction(wait=_WORKERS_WAIT, guarded=True) as db:
                values = Parameters(_ends(entry, attempt), **claim)
                if not (ended := self._sql.end.first(db, values)):
                    return Worked(entry, outcome)  # the lease ended and another worker has it
                outcome = self._advance(db, values) if ready else Outcome.DROPPED
                if outcome is Outcome.APPLIED:
                    with effect(db):
                        require_finished(worker.handler(entry, db))
            if entry.fault and ended[0] == State.FAILED:  # it was not renewed meanwhile
                return Worked(entry, Outcome.FAILED, entry.fault.code)
            return Worked(entry, outcome)
        except EffectFailed as e:
            failed: EffectFailed | None = e
        except InboxError as e:  # a handler may have broken the connection
            failed = EffectFailed(e) if outcome is Outcome.APPLIED else None
        if failed is None:  # no attempt: the database fails, or another transaction holds the record
            values = values_of(taken, attempts=attempt - 1, due_at=retries.due_at(0, at=at))
        else:
            due_at = retries.due_at(attempt, at=at)
            values = values_of(taken, State.FAILED, attempts=attempt, due_at=due_at, reason=reason_of(failed.error))
        ended = self._rows(self._sql.end, {**values, **claim})
        if failed and (ended or failed.may_be_done):
            return Worked(entry, Outcome.FAILED, code_of(failed.error))
        return Worked(entry, Outcome.BUSY)

    def _once(self, db: Any, entry: Entry, at: datetime) -> Outcome:
        values = Parameters(values_of(entry), at=to_microseconds(at))
        return self._advance(db, values) if self._sql.once.first(db, values) else self._known(db, values)[1]

    def _known(self, db: Any, values: Mapping[str, Any]) -> tuple[str, Outcome]:
        row = self._sql.known.first(db, values)
        if row is None:
            raise InboxError("inbox.unavailable", "an entry was purged while it was received again")
        state, digest, _ = row
        if bytes(digest) != values["of_digest"]:
            return state, Outcome.CONFLICT
        return state, Outcome.BUSY if state == State.CLAIMED else Outcome.REPEATED

    def _advance(self, db: Any, values: Mapping[str, Any]) -> Outcome:
        """Set the version: APPLIED if it is new, else STALE or VERSION_CONFLICT."""
        if values["of_record"] is None or self._sql.advance.first(db, values):
            return Outcome.APPLIED
        last, digest = self._sql.version.first(db, values) or (None, None)
        digests = {digest, values["of_version_digest"]}
        is_other = last == values["of_version"] and len(digests) == 2 and None not in digests
        return Outcome.VERSION_CONFLICT if is_other else Outcome.STALE

    def _rows(self, statement: Any, values: dict[str, Any], *, reads: bool = False) -> Sequence[Any]:
        with self.database.transaction(reads=reads) as db:
            return statement.all(db, values)  # type: ignore[no-any-return]  # its type needs SQLAlchemy, which may be absent


def _ends(entry: Entry, attempt: int) -> Parameters:
    """Return the parameters of an entry that was handled."""
    if entry.fault:
        return values_of(entry, State.FAILED, attempts=attempt, reason=reason_of(entry.fault))
    if entry.again_at:
        return values_of(entry, due_at=entry.again_at)
    return values_of(entry, State.DONE, attempts=attempt)


class MemoryStore(InboxStore):
    """A store for tests, in the memory of this process.

    Example:
        store = MemoryStore()
    """

    def __init__(self) -> None:
        super().__init__(make_memory_engine(WAIT_S))
        self.create_tables()
