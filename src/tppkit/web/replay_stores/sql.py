"""The SQL of the replay guard's table, for SQLite and PostgreSQL: each statement decides by itself, so processes cannot race."""

# ruff: noqa: S608  # only a checked name is put into the statements

from __future__ import annotations

import logging
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tppkit._files import require_wait
from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.replay import Bounds, Claim, Verdict, unavailable

TABLE = "tppkit_request_ids"

_LOG = logging.getLogger("tppkit.web")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ATTEMPTS = 8
WAIT_S = 5.0

Values = Mapping[str, Any]
Rows = list[tuple[Any, ...]]


class Statements:
    """The statements, with the table's name put in.

    Args:
        table: its name; lower-case letters, digits and `_`.
        octets: the column type of bytes.
        columns: a query for the names of a table's columns, with `{table}` in it.
        pyformat: write `%(name)s` for a value, as psycopg has it, instead of `:name`.
        skip_locked: how a purge passes over what another process holds.

    Raises:
        ConfigurationError: `replay.table`.
    """

    def __init__(self, table: str, *, octets: str, columns: str, pyformat: bool = False, skip_locked: str = "") -> None:
        if not _NAME.fullmatch(table):
            raise ConfigurationError("replay.table", f"{table[:50]!r} cannot be the name of a table")

        def text(sql: str) -> str:
            return re.sub(r":([a-z_]+)", r"%(\1)s", sql) if pyformat else sql

        self.create = (
            f"CREATE TABLE IF NOT EXISTS {table} (key {octets} PRIMARY KEY, digest {octets} NOT NULL, first_at BIGINT NOT NULL,"
            f" claimed_at BIGINT NOT NULL, attempt BIGINT NOT NULL, answer {octets})",
            f"CREATE INDEX IF NOT EXISTS {table}_first ON {table} (first_at)",
        )
        # The table's first form had no attempts; 0 is before every one of them.
        self.columns = columns.format(table=table)
        self.add_attempt = f"ALTER TABLE {table} ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0"
        # An attempt has the number of its time, or the one after its forerunner's where the clock stood or went back.
        # A use from before the window is replaced by the new one.
        self.first = text(
            f"INSERT INTO {table} (key, digest, first_at, claimed_at, attempt) VALUES (:key, :digest, :at, :at, :at)"
            " ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, first_at = excluded.first_at,"
            f" claimed_at = excluded.claimed_at, attempt = CASE WHEN :at > {table}.attempt THEN :at"
            f" ELSE {table}.attempt + 1 END, answer = NULL WHERE {table}.first_at <= :forget RETURNING attempt"
        )
        self.again = text(
            f"UPDATE {table} SET claimed_at = :at, attempt = CASE WHEN :at > attempt THEN :at ELSE attempt + 1 END"
            " WHERE key = :key AND digest = :digest AND answer IS NULL AND claimed_at <= :free RETURNING attempt"
        )
        self.known = text(f"SELECT digest, answer FROM {table} WHERE key = :key AND first_at > :forget")
        self.settle = text(
            f"UPDATE {table} SET answer = :answer WHERE key = :key AND attempt = :attempt AND answer IS NULL RETURNING 1"
        )
        self.free = text(
            f"UPDATE {table} SET claimed_at = 0 WHERE key = :key AND attempt = :attempt AND answer IS NULL RETURNING 1"
        )
        self.purge = text(
            f"DELETE FROM {table} WHERE key IN (SELECT key FROM {table} WHERE first_at <= :forget"
            f" ORDER BY first_at LIMIT :limit {skip_locked}) RETURNING 1"
        )


class _Connection:
    """The connection of one process, and the lock of its threads."""

    def __init__(self, inherited: _Connection | None = None) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.opened: Any = None
        self.inherited = inherited  # held, because whoever closes it speaks to the server in the parent's name


class SqlReplayStore(ABC):
    """What both databases do over one connection, which is opened when it is needed.

    A connection must not cross a fork: two processes that write to one socket read each other's answers. Nor may a lock that
    somebody held there.

    Args:
        name: of the database, for errors.
        statements: in the database's words.
        errors: what its client raises.
        wait_s: how long a call waits for its turn, for the connection and for its statement together, in seconds.

    Raises:
        ConfigurationError: `web.setting`.
    """

    blocking = True

    def __init__(
        self, name: str, *, statements: Statements, errors: tuple[type[Exception], ...], wait_s: float
    ) -> None:
        self._name = name
        self._wait_s = require_wait(wait_s, code="web.setting")
        self._sql = statements
        self._errors: tuple[type[Exception], ...] = (*errors, OSError)
        self._connection = _Connection()

    @abstractmethod
    def _connect(self, *, until: float) -> Any:
        """A new connection, opened before the monotonic clock shows a time."""

    @abstractmethod
    def _execute(self, connection: Any, sql: str, values: Values, *, until: float) -> Rows:
        """Carry one statement out before the monotonic clock shows a time, commit it, and give its rows."""

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        mine = self._mine()
        with mine.lock:
            if mine.opened is not None:
                mine.opened.close()
                mine.opened = None

    def _query(self, sql: str, values: Values) -> Rows:
        mine, until = self._mine(), time.monotonic() + self._wait_s
        # Who waits behind a statement that is not answered must not wait for one of its own besides.
        if not mine.lock.acquire(timeout=self._wait_s):
            raise TransportError(
                "replay.unavailable", f"the replay guard's {self._name} store is busy with another request"
            )
        try:
            if mine.opened is None or getattr(mine.opened, "closed", False):
                mine.opened = self._connect(until=until)
            return self._execute(mine.opened, sql, values, until=until)
        except self._errors as e:
            raise unavailable(self._name, e) from e
        finally:
            mine.lock.release()

    def _migrate(self) -> None:
        """Give a table of the first form what it lacks."""
        if self._has_attempts():
            return
        try:
            self._query(self._sql.add_attempt, {})
        except TransportError:
            if not self._has_attempts():  # else another process was quicker
                raise

    def _has_attempts(self) -> bool:
        return ("attempt",) in self._query(self._sql.columns, {})

    def _mine(self) -> _Connection:
        found = self._connection
        if found.process != os.getpid():
            found = self._connection = _Connection(found)
        return found

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        values = {"key": key, "digest": digest, **bounds._asdict()}
        for _ in range(_ATTEMPTS):  # the row that stood in the way may be purged before it is read
            if first := self._query(self._sql.first, values):
                self._sweep(bounds.forget)
                return Claim(Verdict.FIRST, attempt=first[0][0])
            if again := self._query(self._sql.again, values):
                return Claim(Verdict.AGAIN, attempt=again[0][0])
            known = self._query(self._sql.known, values)
            if known:
                return _judge(digest, *known[0])
        raise TransportError("replay.unavailable", "the replay guard's table changes faster than it can be read")

    def settle(self, key: bytes, attempt: int, answer: bytes | None) -> None:
        """See `ReplayStore.settle`."""
        sql = self._sql.free if answer is None else self._sql.settle
        self._query(sql, {"key": key, "attempt": attempt, "answer": answer})

    def purge(self, *, forget: int, limit: int) -> int:
        """See `ReplayStore.purge`."""
        return len(self._query(self._sql.purge, {"forget": forget, "limit": limit}))

    def _sweep(self, forget: int) -> None:
        """Forget two ids that are over; where that fails the claim before it stands all the same."""
        try:
            self.purge(forget=forget, limit=2)
        except TransportError as e:
            _LOG.warning("ids of the replay guard that are over were not forgotten: %s", e)


def _judge(digest: bytes, known: bytes, answer: bytes | None) -> Claim:
    if bytes(known) != digest:
        return Claim(Verdict.OTHER)
    return Claim(Verdict.RUNNING) if answer is None else Claim(Verdict.SAME, bytes(answer))
