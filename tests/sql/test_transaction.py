"""Whether a connection commits each statement by itself, asked of the drivers of SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from tppkit.sql.transaction import begins_late, is_in_transaction


@pytest.mark.parametrize(("mode", "begins", "late"), [("DEFERRED", True, True), (None, False, False)])
def test_a_sqlite_connection_is_in_a_transaction_or_begins_one(mode, begins, late):
    with closing(sqlite3.connect(":memory:", isolation_level=mode)) as db:
        assert begins_late(db) is late
        assert is_in_transaction(db, is_sqlite=True) is begins
        db.execute("BEGIN")
        assert is_in_transaction(db, is_sqlite=True)
        db.rollback()
        assert is_in_transaction(db, is_sqlite=True) is begins


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_postgresql_connection_is_in_a_transaction_or_begins_one(autocommit, postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=autocommit) as db:
        assert is_in_transaction(db, is_sqlite=False) is not autocommit
        db.execute("BEGIN")
        assert is_in_transaction(db, is_sqlite=False)
