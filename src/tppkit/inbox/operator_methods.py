"""Operations on stored entries for operators: list, release, discard and purge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tppkit._clock import as_utc, shift, to_microseconds
from tppkit.inbox.database import Database
from tppkit.inbox.entry import Failure, State
from tppkit.inbox.settings import MAX_BATCH, RETENTION, Retention, require_limit
from tppkit.inbox.statements import Statements, read_failure, values_of

WAIT = "1s"  # for a lock in PostgreSQL, because a sender waits for the answer to its delivery
_BEFORE_ALL = (-(2**63), "")


class OperatorMethods:
    """Operators' methods on the entries of an inbox; the base class of `InboxStore`."""

    _sql: Statements
    _database: Database

    def failed(self, source: str, *, limit: int = 100, after: Failure | None = None) -> list[Failure]:
        """Return failed entries in the order of their receipt.

        Args:
            source: the source of the entries.
            limit: maximum number of entries, up to 1,000.
            after: the last entry of the previous page; None: the first page.
        """
        time_, key = _BEFORE_ALL if after is None else (to_microseconds(after.entry.received_at), after.entry.key)
        values = {"of_source": source, "of_received_at": time_, "of_key": key, "most": require_limit(limit)}
        return [read_failure(row) for row in self._rows(self._sql.failed, values)]

    def find_failed(self, source: str, key: str) -> Failure | None:
        """Return the failed entry with a key, or None."""
        rows = self._rows(self._sql.failure, {"of_source": source, "of_key": key})
        return read_failure(rows[0]) if rows else None

    def release(self, failure: Failure, *, at: datetime) -> bool:
        """Make a failed entry due now; False if it is no longer failed."""
        return bool(self._rows(self._sql.release, {**values_of(failure.entry), "at": to_microseconds(as_utc(at))}))

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Set the done flag of a failed entry without effect; False if it is no longer failed or was retried since.

        Its content is deleted, and a repetition is REPEATED. Another entry with its version can still take effect.
        """
        due_at = None if failure.due_at is None else to_microseconds(failure.due_at)
        was = {"was": State.FAILED, "attempt": failure.attempts, "was_due_at": due_at}
        values = {**values_of(failure.entry), **was, "at": to_microseconds(as_utc(at))}
        return bool(self._rows(self._sql.finish, values))

    def purge(self, source: str, *, at: datetime, retention: Retention = RETENTION) -> int:
        """Delete rows whose retention has ended, in bounded batches; returns their number."""
        now, deleted = as_utc(at), 0
        values = {"of_source": source, "most": MAX_BATCH, "at": to_microseconds(now)}
        if retention.failed is not None:
            before = to_microseconds(shift(now, -retention.failed))
            while self._rows(self._sql.discard_failed, {**values, "before": before}):
                pass
        spans = (self._sql.purge_done, retention.done), (self._sql.purge_versions, retention.versions)
        for statement, span in spans:
            before = to_microseconds(shift(now, -span))
            while rows := self._rows(statement, {**values, "before": before}):
                deleted += len(rows)
        return deleted

    def sources(self) -> list[str]:
        """Return the sources that have entries."""
        return [source for (source,) in self._rows(self._sql.sources, {})]

    @contextmanager
    def _brief(self) -> Iterator[Any]:
        """Begin a transaction that runs no handler, with limited waits for locks."""
        with self._database.transaction() as db, self._database.hurried(db, WAIT):
            yield db

    def _rows(self, statement: Any, values: dict[str, Any]) -> Sequence[Any]:
        with self._brief() as db:
            return statement.all(db, values)  # type: ignore[no-any-return]
