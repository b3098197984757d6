"""The SQL of the replay guard's table, for SQLite and PostgreSQL: each statement decides by itself, so processes cannot race."""

# ruff: noqa: S608  # only a checked name is put into the statements

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tppkit.errors import ConfigurationError, TransportError
from tppkit.web.replay import Bounds, Claim, Verdict

TABLE = "tppkit_request_ids"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ATTEMPTS = 8

Values = Mapping[str, Any]


# Carries one statement out, commits it, and gives its rows.
Query = Callable[[str, Values], list[tuple[Any, ...]]]


class Statements:
    """The statements, with the table's name put in.

    Args:
        table: its name; lower-case letters, digits and `_`.
        octets: the column type of bytes.
        pyformat: write `%(name)s` for a value, as psycopg has it, instead of `:name`.
        skip_locked: how a purge passes over what another process holds.

    Raises:
        ConfigurationError: `replay.table`.
    """

    def __init__(self, table: str, *, octets: str, pyformat: bool = False, skip_locked: str = "") -> None:
        if not _NAME.fullmatch(table):
            raise ConfigurationError("replay.table", f"{table[:50]!r} cannot be the name of a table")

        def text(sql: str) -> str:
            return re.sub(r":([a-z_]+)", r"%(\1)s", sql) if pyformat else sql

        self.create = (
            f"CREATE TABLE IF NOT EXISTS {table} (key {octets} PRIMARY KEY, digest {octets} NOT NULL, first_at BIGINT NOT NULL,"
            f" claimed_at BIGINT NOT NULL, answer {octets})",
            f"CREATE INDEX IF NOT EXISTS {table}_first ON {table} (first_at)",
        )
        # A use from before the window is replaced by the new one.
        self.first = text(
            f"INSERT INTO {table} (key, digest, first_at, claimed_at) VALUES (:key, :digest, :at, :at)"
            " ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, first_at = excluded.first_at,"
            f" claimed_at = excluded.claimed_at, answer = NULL WHERE {table}.first_at <= :forget RETURNING 1"
        )
        self.again = text(
            f"UPDATE {table} SET claimed_at = :at WHERE key = :key AND digest = :digest AND answer IS NULL"
            " AND claimed_at <= :free RETURNING 1"
        )
        self.known = text(f"SELECT digest, answer FROM {table} WHERE key = :key AND first_at > :forget")
        self.keep = text(
            f"UPDATE {table} SET answer = :answer WHERE key = :key AND digest = :digest AND answer IS NULL RETURNING 1"
        )
        self.free = text(
            f"UPDATE {table} SET claimed_at = 0 WHERE key = :key AND digest = :digest AND answer IS NULL RETURNING 1"
        )
        self.purge = text(
            f"DELETE FROM {table} WHERE key IN (SELECT key FROM {table} WHERE first_at <= :forget"
            f" ORDER BY first_at LIMIT :limit {skip_locked}) RETURNING 1"
        )


class SqlReplayStore:
    """What both databases do; each brings its own `query`.

    Args:
        query: carries one statement out.
        statements: in the database's words.
    """

    blocking = True

    def __init__(self, query: Query, statements: Statements) -> None:
        self._query = query
        self._sql = statements

    def claim(self, key: bytes, digest: bytes, bounds: Bounds) -> Claim:
        """See `ReplayStore.claim`."""
        values = {"key": key, "digest": digest, **bounds._asdict()}
        for _ in range(_ATTEMPTS):  # the row that stood in the way may be purged before it is read
            if self._query(self._sql.first, values):
                self.purge(forget=bounds.forget, limit=2)
                return Claim(Verdict.FIRST)
            if self._query(self._sql.again, values):
                return Claim(Verdict.AGAIN)
            known = self._query(self._sql.known, values)
            if known:
                return _judge(digest, *known[0])
        raise TransportError("replay.unavailable", "the replay guard's table changes faster than it can be read")

    def keep(self, key: bytes, digest: bytes, answer: bytes | None) -> None:
        """See `ReplayStore.keep`."""
        sql = self._sql.free if answer is None else self._sql.keep
        self._query(sql, {"key": key, "digest": digest, "answer": answer})

    def purge(self, *, forget: int, limit: int) -> int:
        """See `ReplayStore.purge`."""
        return len(self._query(self._sql.purge, {"forget": forget, "limit": limit}))


def _judge(digest: bytes, known: bytes, answer: bytes | None) -> Claim:
    if bytes(known) != digest:
        return Claim(Verdict.OTHER)
    return Claim(Verdict.RUNNING) if answer is None else Claim(Verdict.SAME, bytes(answer))
