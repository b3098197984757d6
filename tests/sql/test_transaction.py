"""Whether a connection commits each statement by itself, asked of the drivers of SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import create_engine

from tppkit.sql.transaction import BEGUN, transaction_fault


@pytest.mark.parametrize(("mode", "begins"), [("DEFERRED", True), (None, False)])
def test_a_sqlite_connection_is_in_a_transaction_or_begins_one(mode, begins):
    with closing(sqlite3.connect(":memory:", isolation_level=mode)) as db:
        assert (transaction_fault(db, is_sqlite=True) is None) is begins
        db.execute("BEGIN")
        assert transaction_fault(db, is_sqlite=True) is None
        db.rollback()
        assert (transaction_fault(db, is_sqlite=True) is None) is begins


@pytest.mark.parametrize("earlier", ["SELECT 1", "BEGIN", "INSERT INTO t VALUES (1)"])
def test_a_savepoint_of_sqlite_counts_only_if_sqlalchemy_sends_begin(earlier):
    with create_engine("sqlite://").connect() as db, db.begin():
        db.exec_driver_sql("CREATE TABLE t (x)")
        db.exec_driver_sql(earlier)
        db.begin_nested()
        driver = db.connection.driver_connection
        assert "savepoint on SQLite unless SQLAlchemy" in (transaction_fault(driver, is_sqlite=True, db=db) or "")
        db.execution_options(**{BEGUN: True})
        assert transaction_fault(driver, is_sqlite=True, db=db) is None


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_postgresql_connection_is_in_a_transaction_or_begins_one(autocommit, postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=autocommit) as db:
        assert (transaction_fault(db, is_sqlite=False) is None) is not autocommit
        db.execute("BEGIN")
        assert transaction_fault(db, is_sqlite=False) is None
