"""The SQL of the inbox's tables, for SQLite and PostgreSQL.

A callback's `due_at` says from when the next one may take it: set while it waits, the end of the lease while it is claimed,
the next attempt after a failure, and null when it is done or given up. One index on it serves every worker.
"""

# ruff: noqa: S608  # only names of this module and a checked prefix are put into the statements

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, NamedTuple

from tppkit.errors import ConfigurationError

SCHEMA_VERSION = 2
# Where transactions wait for each other's rows and look again, as the statements below expect: at PostgreSQL's stricter levels one
# would be given up (40001) whenever two meet.
READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,29}")
_COLUMNS = "key, digest, environment, key_name, request_id, method, url, body, signature, received_at, subject, version, content"
_DONE = "state = 'done', due_at = NULL, done_at = :at, body = NULL, signature = NULL, url = NULL"


class Dialect(StrEnum):
    """A kind of SQL database."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class Statement(NamedTuple):
    """One SQL statement with its values by name."""

    sql: str
    values: dict[str, Any]


class Statements:
    """Every statement, with the names of the tables put in.

    Args:
        dialect: the kind of database.
        prefix: of the names of tables and indexes; lower-case letters, digits and `_`, at most 30.
        pyformat: write `%(name)s` for a value, as psycopg has it, instead of `:name`.

    Raises:
        ConfigurationError: `inbox.prefix`.
    """

    def __init__(self, dialect: Dialect, *, prefix: str, pyformat: bool = False) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigurationError("inbox.prefix", f"{prefix[:40]!r} cannot begin the name of a table")
        self._names = {table: f"{prefix}{table}" for table in ("callbacks", "versions", "schema")}
        self._pyformat = pyformat
        locking = "FOR UPDATE SKIP LOCKED" if dialect is Dialect.POSTGRESQL else ""
        # Whoever has a row may hang: nobody must wait as long as that. Where the caller set a limit, it stays.
        postgresql = dialect is Dialect.POSTGRESQL
        hurry = "SELECT set_config('lock_timeout', :wait, true) WHERE current_setting('lock_timeout') = '0'"
        self.hurry = self._text(hurry) if postgresql else ""
        self.wait_again = "SELECT set_config('lock_timeout', '0', true)"
        self.create = tuple(map(self._text, _tables(dialect)))
        # An absent table would spoil PostgreSQL's transaction, so they are looked for first.
        self.tables = self._text(
            "SELECT name FROM (VALUES ('{callbacks}'), ('{versions}'), ('{schema}')) AS named (name) WHERE to_regclass(name) IS NOT NULL"
            if postgresql
            else "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ('{callbacks}', '{versions}', '{schema}')"
        )
        # Two processes that create the same table at once can collide in PostgreSQL in spite of IF NOT EXISTS.
        self.create_alone = "SELECT pg_advisory_xact_lock(1953525867)" if postgresql else ""
        self.schema_table, self.all_tables = self._names["schema"], frozenset(self._names.values())
        self.schema = self._text("SELECT version FROM {schema}")
        self.set_schema = self._text(
            "INSERT INTO {schema} (id, version) VALUES (1, :version) ON CONFLICT (id) DO NOTHING"
        )
        # From version 1, which compared no contents; what it kept has none.
        self.upgrade = tuple(
            self._text(f"ALTER TABLE {{{table}}} ADD COLUMN content {_octets(dialect)}")
            for table in ("callbacks", "versions")
        )
        self.upgraded = self._text("UPDATE {schema} SET version = :version")
        self.add = self._text(_INSERT + " ON CONFLICT (key) DO NOTHING RETURNING 1")
        self.once = self._text(_ONCE)
        self.keep_failed = self._text(_INSERT + _FAIL_AGAIN + " RETURNING 1")
        self.known = self._text("SELECT state, digest FROM {callbacks} WHERE key = :key")
        self.attempts = self._text("SELECT attempts FROM {callbacks} WHERE key = :key")
        self.advance = self._text(_ADVANCE)
        self.version = self._text("SELECT version, content FROM {versions} WHERE subject = :subject")
        self.finish = self._text(
            f"UPDATE {{callbacks}} SET {_DONE} WHERE key = :key AND attempts = :attempt AND state = 'claimed' RETURNING 1"
        )
        # Another who has the row meanwhile decides about it.
        self.fail, self.give_up, self.put_back = (
            self._text(
                "WITH mine AS (SELECT key FROM {callbacks}"
                f" WHERE key = :key AND attempts = :attempt AND state = 'claimed' {locking})"
                f" UPDATE {{callbacks}} SET due_at = :due_at, {become} WHERE key IN (SELECT key FROM mine) RETURNING 1"
            )
            for become in (
                "state = 'failed', reason = :reason",
                "state = 'failed', reason = :reason, attempts = attempts - 1",
                "state = 'waiting', attempts = attempts - 1",
            )
        )
        self.oldest = self._text(
            "SELECT state FROM {callbacks} WHERE due_at <= :at ORDER BY due_at, received_at LIMIT 1"
        )
        # In a WITH the rows are picked once; PostgreSQL may run a subquery for each row, and it would claim others each time.
        self.take, self.take_lapsed = (
            self._text(
                f"WITH picked AS (SELECT key FROM {{callbacks}} WHERE due_at <= :at AND state {which} 'claimed'"
                f" ORDER BY due_at, received_at LIMIT :limit {locking})"
                " UPDATE {callbacks} SET state = 'claimed', attempts = attempts + 1, due_at = :until"
                f" WHERE key IN (SELECT key FROM picked) RETURNING {_COLUMNS}, attempts"
            )
            for which in ("<>", "=")
        )
        self.failed = self._text(
            f"SELECT {_COLUMNS}, attempts, reason, due_at FROM {{callbacks}} WHERE state = 'failed'"
            " AND (received_at, key) > (:after_time, :after_key) ORDER BY received_at, key LIMIT :limit"
        )
        self.release = self._text(
            "UPDATE {callbacks} SET state = 'waiting', due_at = :at WHERE key = :key AND state = 'failed' RETURNING 1"
        )
        self.discard = self._text(
            f"UPDATE {{callbacks}} SET {_DONE} WHERE key = :key AND attempts = :attempts AND state = 'failed' RETURNING 1"
        )
        # What somebody has is left to the next purge.
        self.discard_failed = self._text(
            "WITH picked AS (SELECT key FROM {callbacks} WHERE state = 'failed' AND due_at IS NULL AND received_at < :before"
            f" ORDER BY received_at LIMIT :limit {locking})"
            f" UPDATE {{callbacks}} SET {_DONE} WHERE key IN (SELECT key FROM picked) RETURNING 1"
        )
        self.purge_done, self.purge_versions = (
            self._text(
                f"WITH picked AS (SELECT {key} FROM {{{table}}} WHERE {since} < :before ORDER BY {since} LIMIT :limit {locking})"
                f" DELETE FROM {{{table}}} WHERE {key} IN (SELECT {key} FROM picked) RETURNING 1"
            )
            for table, key, since in (("callbacks", "key", "done_at"), ("versions", "subject", "set_at"))
        )

    def _text(self, template: str) -> str:
        sql = template.format(**self._names)
        return re.sub(r":([a-z_]+)", r"%(\1)s", sql) if self._pyformat else sql


_INSERT = (
    f"INSERT INTO {{callbacks}} ({_COLUMNS}, state, attempts, due_at, done_at, reason) VALUES"
    " (:key, :digest, :environment, :key_name, :request_id, :method, :url, :body, :signature, :received_at, :subject, :version,"
    " :content, :state, :attempts, :due_at, NULL, :reason)"
)
# A delivery may take over what waits, what failed, and a claim whose lease has ended; never other signed bytes.
_UNLESS_HELD = (
    " WHERE {callbacks}.digest = excluded.digest AND {callbacks}.state <> 'done'"
    " AND ({callbacks}.state <> 'claimed' OR {callbacks}.due_at <= :at)"
)
# What is done needs no more than this, so no more is written; it is the one statement of the quickest way.
_ONCE = (
    "INSERT INTO {callbacks} (key, digest, request_id, received_at, state, attempts, done_at)"
    " VALUES (:key, :digest, :request_id, :at, 'done', 1, :at)"
    f" ON CONFLICT (key) DO UPDATE SET {_DONE}, attempts = {{callbacks}}.attempts + 1" + _UNLESS_HELD + " RETURNING 1"
)
_FAIL_AGAIN = (
    " ON CONFLICT (key) DO UPDATE SET state = 'failed', attempts = {callbacks}.attempts + 1, due_at = excluded.due_at,"
    " reason = excluded.reason" + _UNLESS_HELD
)
# One statement decides, so two versions that come at once are put in order by the database.
_ADVANCE = (
    "INSERT INTO {versions} (subject, version, content, set_at) VALUES (:subject, :version, :content, :at)"
    " ON CONFLICT (subject) DO UPDATE SET version = excluded.version, content = excluded.content, set_at = excluded.set_at"
    " WHERE excluded.version > {versions}.version RETURNING 1"
)


def _octets(dialect: Dialect) -> str:
    return "BYTEA" if dialect is Dialect.POSTGRESQL else "BLOB"


def _tables(dialect: Dialect) -> tuple[str, ...]:
    octets = _octets(dialect)
    by_key = " WITHOUT ROWID" if dialect is Dialect.SQLITE else ""  # one tree to write to instead of two
    return (
        "CREATE TABLE IF NOT EXISTS {schema} (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
        f"CREATE TABLE IF NOT EXISTS {{callbacks}} (key {octets} PRIMARY KEY, digest {octets} NOT NULL,"
        " request_id TEXT NOT NULL, received_at BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,"
        " due_at BIGINT, done_at BIGINT, reason TEXT, environment TEXT, key_name TEXT, method TEXT, url TEXT,"
        f" body {octets}, signature TEXT, subject {octets}, version BIGINT, content {octets})",
        "CREATE INDEX IF NOT EXISTS {callbacks}_due ON {callbacks} (due_at) WHERE due_at IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS {callbacks}_done ON {callbacks} (done_at) WHERE done_at IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS {callbacks}_failed ON {callbacks} (received_at) WHERE state = 'failed'",
        f"CREATE TABLE IF NOT EXISTS {{versions}} (subject {octets} PRIMARY KEY, version BIGINT NOT NULL,"
        f" set_at BIGINT NOT NULL, content {octets}){by_key}",
        "CREATE INDEX IF NOT EXISTS {versions}_set ON {versions} (set_at)",
    )
