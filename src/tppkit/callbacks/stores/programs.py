"""What the SQL stores do, as programs that touch no database.

A program yields statements, and the entry whose effect is due, and receives rows. So the sync and the async stores decide
alike.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from tppkit.callbacks.stores.driving import EffectFailed, TransactionEnded, cause_and_state
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Outcome, State, Taken, microseconds
from tppkit.callbacks.stores.rows import (
    WIDTH,
    Rows,
    octets,
    optional_microseconds,
    read_entry,
    read_failure,
    row_values,
)
from tppkit.callbacks.stores.statements import SCHEMA_VERSION, Statement, Statements
from tppkit.callbacks.stores.store import LEASE_ENDED, Retry, is_spent
from tppkit.errors import ConfigurationError, InboxError

T = TypeVar("T")
# How long to wait for a lock in PostgreSQL. A delivery waits for its mark, its version and the note of its failure, and the middleware
# gives it four seconds. A batch may meet many that are held, so it waits as long for the first alone; a worker for none, since nobody
# waits for it and what it leaves is due again.
_WAIT, _BATCH_WAIT = "1s", "200ms"
_CREATORS_WAIT = "30s"  # for another who creates tables; nobody else waits behind that
_HELD = ("55P03", "40P01")  # lock_not_available, and deadlock_detected: who is given up lets the other go on
_BEFORE_ALL = (-(2**63), b"")  # no failed entry stands before it


class Mark(StrEnum):
    """A savepoint set, returned to and given up."""

    SET = "SAVEPOINT tppkit_inbox"
    UNDO = "ROLLBACK TO SAVEPOINT tppkit_inbox"
    KEEP = "RELEASE SAVEPOINT tppkit_inbox"


# A program receives rows for a statement, and nothing for a savepoint or an entry, whose effect keeps the savepoint before it.
Step = Statement | Mark | Entry
Program = Generator[Step, Any, T]


class Programs:
    """The programs, over the statements of one database."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def has_tables(self) -> Program[bool]:
        """Whether the tables are there and up to date; nothing is written and no lock asked for that a writer would wait behind.

        Raises:
            ConfigurationError: `inbox.schema`, the tables are of a version that this program does not know.
        """
        found: Rows = yield Statement(self._sql.tables, {})
        there = {name for (name,) in found}
        rows: Rows = (yield Statement(self._sql.schema, {})) if self._sql.schema_table in there else ()
        if not rows:
            return False
        version = rows[0][0]
        if version not in (1, SCHEMA_VERSION):
            raise ConfigurationError(
                "inbox.schema", f"the inbox's tables have version {version}, this program knows {SCHEMA_VERSION}"
            )
        return version == SCHEMA_VERSION and there == self._sql.all_tables

    def create_tables(self) -> Program[None]:
        """Create what is absent, and bring tables of version 1 up to date.

        While PostgreSQL waits for the lock of a table that is in use, whoever writes to it waits behind: one second at most.

        Raises:
            ConfigurationError: `inbox.schema`.
        """
        if self._sql.create_alone:
            yield from self._hurried(_one(self._sql.create_alone, {}), _CREATORS_WAIT)
        if not (yield from self.has_tables()):  # another may have been quicker
            yield from self._hurried(self._create())

    def _create(self) -> Program[None]:
        for sql in self._sql.create:
            yield Statement(sql, {})
        yield Statement(self._sql.set_schema, {"version": SCHEMA_VERSION})
        rows: Rows = yield Statement(self._sql.schema, {})
        if rows[0][0] == 1:
            for sql in self._sql.upgrade:
                yield Statement(sql, {})
            yield Statement(self._sql.upgraded, {"version": SCHEMA_VERSION})

    def add(self, entries: Sequence[Entry]) -> Program[list[Outcome]]:
        """Store entries to be handled later."""
        outcomes: list[Outcome] = []
        for entry in entries:
            due_at = microseconds(entry.received_at)
            values = row_values(entry) | {"state": State.WAITING.value, "attempts": 0, "due_at": due_at}
            rows: Rows = yield from self._hurried(_one(self._sql.add, values))
            outcome = Outcome.STORED if rows else (yield from self._known(entry))
            outcomes.append(Outcome.REPEATED if outcome is Outcome.BUSY else outcome)
        return outcomes

    def once(self, entry: Entry, *, at: datetime) -> Program[Outcome]:
        """Mark an entry done, in the transaction that its effect will be part of.

        APPLIED says that the effect is due; whatever else it is, nothing is to be done.
        """
        now = microseconds(at)
        values = {"key": entry.key, "digest": entry.digest, "request_id": entry.request_id, "at": now}
        rows: Rows = yield Statement(self._sql.once, values)
        if not rows:
            known = yield from self._known(entry)
            return known
        outcome = yield from self._advance(entry, now)
        return outcome

    def run(self, entry: Entry, *, at: datetime) -> Program[Outcome]:
        """Mark an entry done and have its effect; who has it or its record already is waited for one second each."""
        outcome = yield from self._hurried(self.once(entry, at=at))
        if outcome is Outcome.APPLIED:
            yield Mark.SET
            yield entry
        return outcome

    def _hurried(self, program: Program[T], wait: str = _WAIT) -> Program[T]:
        return self._waiting_shortly(program, wait) if self._sql.hurry else program

    def _waiting_shortly(self, program: Program[T], wait: str) -> Program[T]:
        hurried: Rows = yield Statement(self._sql.hurry, {"wait": wait})
        result = yield from program
        if hurried:
            yield Statement(self._sql.wait_again, {})
        return result

    def run_all(self, entries: Sequence[Entry], *, at: datetime, retry: Retry) -> Program[list[Outcome]]:
        """Have the effects of several, each within a savepoint of the one transaction; what somebody else has is BUSY.

        Raises:
            TransactionEnded: by one of them.
        """
        some = self._by_record if self._sql.hurry else self._some
        return some(entries, at=at, retry=retry)

    def _by_record(self, entries: Sequence[Entry], *, at: datetime, retry: Retry) -> Program[list[Outcome]]:
        """Two batches with the same callbacks or records come to them in one order, so that one waits for the other instead of both."""
        by_record = sorted(range(len(entries)), key=lambda n: _place(entries[n]))
        outcomes = yield from self._some([entries[n] for n in by_record], at=at, retry=retry)
        return [outcome for _, outcome in sorted(zip(by_record, outcomes, strict=True))]

    def _some(self, entries: Sequence[Entry], *, at: datetime, retry: Retry) -> Program[list[Outcome]]:
        outcomes, wait = [], _WAIT
        for entry in entries:
            yield Mark.SET
            try:
                outcome = yield from self._hurried(self.once(entry, at=at), wait)
                yield entry if outcome is Outcome.APPLIED else Mark.KEEP
            except TransactionEnded:
                raise
            except EffectFailed as e:
                yield Mark.UNDO
                yield Mark.KEEP
                outcome = yield from self._failed_unless_held(entry, at=at, reason=e.reason, retry=retry)
            except InboxError as e:
                _require_held(e)
                yield Mark.UNDO
                yield Mark.KEEP
                outcome, wait = Outcome.BUSY, _BATCH_WAIT
            outcomes.append(outcome)
        return outcomes

    def _failed_unless_held(self, entry: Entry, *, at: datetime, reason: str, retry: Retry) -> Program[Outcome]:
        """Keep the failure of one of a batch, unless another delivery got hold of it when its mark was undone."""
        yield Mark.SET
        outcome = Outcome.FAILED
        try:
            if not (yield from self.record_failure(entry, at=at, reason=reason, retry=retry)):
                outcome = Outcome.BUSY  # it is done already
        except InboxError as e:
            _require_held(e)
            yield Mark.UNDO
            outcome = Outcome.BUSY
        yield Mark.KEEP
        return outcome

    def record_failure(self, entry: Entry, *, at: datetime, reason: str, retry: Retry) -> Program[bool]:
        """Keep an entry whose effect failed while it was delivered; who has it is waited for one second.

        Gives false where nobody may: it is done, or somebody has it.
        """
        rows: Rows = yield Statement(self._sql.attempts, {"key": entry.key})
        due_at = retry(rows[0][0] + 1 if rows else 1)
        values = row_values(entry) | {
            "state": State.FAILED.value,
            "attempts": 1,
            "reason": reason,
            "at": microseconds(at),
        }
        statement = _one(self._sql.keep_failed, values | {"due_at": optional_microseconds(due_at)})
        kept: Rows = yield from self._hurried(statement)
        return bool(kept)

    def take(self, *, at: datetime, until: datetime, limit: int) -> Program[list[Taken]]:
        """Claim what is due, oldest first."""
        values = {"at": microseconds(at), "until": microseconds(until), "limit": limit}
        oldest: Rows = yield Statement(self._sql.oldest, {"at": values["at"]})
        if oldest and oldest[0][0] == State.CLAIMED:
            lapsed: Rows = yield Statement(self._sql.take_lapsed, values | {"limit": 1})
            if lapsed:  # else another worker was quicker
                return [Taken(read_entry(lapsed[0]), lapsed[0][WIDTH], lapsed=True)]
        rows: Rows = yield Statement(self._sql.take, values)
        taken = [Taken(read_entry(row), row[WIDTH]) for row in rows]
        return sorted(taken, key=lambda one: one.entry.received_at)  # RETURNING has no order

    def resume(self, taken: Sequence[Taken], *, at: datetime, retry: Retry) -> Program[list[Outcome]]:
        """Have the effects of claimed entries, each within a savepoint of the one transaction.

        One that somebody else has, or whose record somebody has, is BUSY and put back.
        """
        outcomes = []
        for one in taken:
            entry, attempt = one.entry, one.attempt
            if is_spent(one, retry):
                yield Statement(self._sql.give_up, _claim(one) | {"due_at": None, "reason": LEASE_ENDED})
                outcomes.append(Outcome.FAILED)
                continue
            yield Mark.SET
            try:
                outcome = yield from self._hurried(self._finish(entry, attempt, microseconds(at)), _BATCH_WAIT)
                yield entry if outcome is Outcome.APPLIED else Mark.KEEP
            except TransactionEnded:
                raise
            except EffectFailed as e:
                yield Mark.UNDO
                kept: Rows = yield self._failed(one, e.reason, retry)
                yield Mark.KEEP
                outcome = Outcome.FAILED if kept else Outcome.BUSY
            except InboxError as e:
                _require_held(e)
                yield Mark.UNDO
                yield self._waiting(one, retry(0) or at)
                yield Mark.KEEP
                outcome = Outcome.BUSY
            outcomes.append(outcome)
        return outcomes

    def put_back(self, taken: Sequence[Taken], *, at: datetime, retry: Retry) -> Program[bool]:
        """Put back what the store failed behind: nobody died and no handler raised, so it was no attempt."""
        for one in taken:
            yield self._waiting(one, retry(0) or at)
        return True

    def fail(self, taken: Taken, *, reason: str, retry: Retry) -> Program[bool]:
        """Keep the failure of a claimed entry; false where nobody may: it is done, or somebody has it."""
        rows: Rows = yield self._failed(taken, reason, retry)
        return bool(rows)

    def leave(self, taken: Sequence[Taken], ended: TransactionEnded, *, at: datetime, retry: Retry) -> Program[bool]:
        """Keep the failure of who ended the transaction, and put the others back; what was committed by it stays done."""
        for one in taken:
            mine = one.entry is ended.entry
            yield self._failed(one, ended.reason, retry) if mine else self._waiting(one, at)
        return True

    def _failed(self, taken: Taken, reason: str, retry: Retry) -> Statement:
        return Statement(
            self._sql.fail, _claim(taken) | {"due_at": optional_microseconds(retry(taken.attempt)), "reason": reason}
        )

    def _waiting(self, taken: Taken, due_at: datetime) -> Statement:
        return Statement(self._sql.put_back, _claim(taken) | {"due_at": microseconds(due_at)})

    def failed(self, *, limit: int, after: Failure | None) -> Program[list[Failure]]:
        """The failed entries, oldest first; those behind one, where it is given."""
        time, key = _BEFORE_ALL if after is None else (microseconds(after.entry.received_at), after.entry.key)
        rows: Rows = yield Statement(self._sql.failed, {"after_time": time, "after_key": key, "limit": limit})
        return [read_failure(row) for row in rows]

    def release(self, key: bytes, *, at: datetime) -> Program[bool]:
        """Let a failed entry be taken again."""
        rows: Rows = yield from self._hurried(_one(self._sql.release, {"key": key, "at": microseconds(at)}))
        return bool(rows)

    def discard(self, failure: Failure, *, at: datetime) -> Program[bool]:
        """Mark a failed entry done."""
        values = {"key": failure.entry.key, "attempts": failure.attempts, "at": microseconds(at)}
        rows: Rows = yield from self._hurried(_one(self._sql.discard, values))
        return bool(rows)

    def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> Program[int]:
        """Mark at most `limit` entries done that failed for good and were received before a time; says how many."""
        values = {"before": microseconds(before), "at": microseconds(at), "limit": limit}
        rows: Rows = yield Statement(self._sql.discard_failed, values)
        return len(rows)

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> Program[int]:
        """Forget at most `limit` rows of each table; says how many."""
        done: Rows = yield Statement(self._sql.purge_done, {"before": microseconds(lifetimes.done), "limit": limit})
        before = microseconds(lifetimes.versions)
        versions: Rows = yield Statement(self._sql.purge_versions, {"before": before, "limit": limit})
        return len(done) + len(versions)

    def _finish(self, entry: Entry, attempt: int, at: int) -> Program[Outcome]:
        rows: Rows = yield Statement(self._sql.finish, {"key": entry.key, "attempt": attempt, "at": at})
        if not rows:
            return Outcome.BUSY  # the lease ended and somebody else has it
        return (yield from self._advance(entry, at))

    def _advance(self, entry: Entry, at: int) -> Program[Outcome]:
        """Set the version: APPLIED when it is new, else STALE or VERSION_CONFLICT."""
        if entry.order is None:
            return Outcome.APPLIED
        subject, version, content = entry.order
        values = {"subject": subject, "version": version, "content": content, "at": at}
        rows: Rows = yield Statement(self._sql.advance, values)
        if rows:
            return Outcome.APPLIED
        known: Rows = yield Statement(self._sql.version, {"subject": subject})
        other = any(entry.order.contradicts(last, octets(said)) for last, said in known)
        return Outcome.VERSION_CONFLICT if other else Outcome.STALE

    def _known(self, entry: Entry) -> Program[Outcome]:
        rows: Rows = yield Statement(self._sql.known, {"key": entry.key})
        if not rows:
            raise InboxError("inbox.unavailable", "a callback was forgotten while it was received again")
        state, digest = rows[0]
        if bytes(digest) != entry.digest:
            return Outcome.CONFLICT
        return Outcome.BUSY if state == State.CLAIMED else Outcome.REPEATED


def _one(sql: str, values: dict[str, Any]) -> Program[Rows]:
    rows: Rows = yield Statement(sql, values)
    return rows


def _require_held(error: InboxError) -> None:
    """Go on only where nothing failed but the wait for somebody else."""
    if cause_and_state(error)[1] not in _HELD:
        raise error


def _place(entry: Entry) -> tuple[bytes, int, bytes]:
    """What orders entries by the record they are about, and those of one by version; where there is none, by themselves."""
    subject, version = (entry.key, 0) if entry.order is None else entry.order[:2]
    return subject, version, entry.key


def _claim(taken: Taken) -> dict[str, Any]:
    return {"key": taken.entry.key, "attempt": taken.attempt}
