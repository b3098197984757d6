"""Engines on a real SQLite file and a real PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, text
from sqlalchemy.exc import OperationalError

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.sql.engine import create_tables, make_engine, use_wal

TABLES = MetaData()
Table("things", TABLES, Column("id", Integer, primary_key=True), Column("note", Integer))
PASSWORD = "p4ss-of-the-database"


def psycopg_url(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


def engine_of(address: str) -> Engine:
    return make_engine(address, code="web.setting", wait_s=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tpp.sqlite"


@pytest.fixture
def engine(path: Path) -> Engine:
    return engine_of(f"sqlite:///{path}")


def test_a_new_file_is_private_and_durable(engine, path):
    use_wal(engine, wait_s=1)
    with engine.connect() as db:
        assert db.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert db.execute(text("PRAGMA synchronous")).scalar_one() == 2
        assert db.execute(text("PRAGMA busy_timeout")).scalar_one() == 3000
        db.execute(text("CREATE TABLE numbers (number)"))
        assert [file.stat().st_mode & 0o077 for file in path.parent.iterdir()] == [0, 0, 0]


def test_a_file_is_not_changed_before_it_is_used(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other (id)")
    before = path.read_bytes()
    with engine_of(f"sqlite:///{path}").connect() as db:
        db.execute(text("SELECT * FROM other"))
    assert path.read_bytes() == before


def test_processes_may_create_tables_at_the_same_time(path):
    tables = MetaData()
    for number in range(5):
        Table(f"t{number}", tables, Column("id", Integer, primary_key=True), Column("at", Integer, index=True))
    with ThreadPoolExecutor(8) as threads:
        engines = [engine_of(f"sqlite:///{path}") for _ in range(8)]
        assert set(threads.map(lambda engine: create_tables(engine, tables), engines)) == {None}


def test_a_table_that_lacks_a_column_is_named(engine):
    with engine.begin() as db:
        db.execute(text("CREATE TABLE things (id INTEGER, other TEXT)"))
    assert create_tables(engine, TABLES) == "things"


@pytest.mark.parametrize("is_pooled", [True, False])
def test_a_file_that_was_moved_is_not_used(is_pooled, engine, path):
    if is_pooled:
        engine.connect().close()
    path.rename(path.with_name("moved"))
    with pytest.raises(OperationalError, match="was moved"):
        engine.connect()
    assert not path.exists()


@pytest.mark.parametrize(
    "address",
    [
        "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true", "sqlite:///absent/x?timeout=abc", "sqlite+aiosqlite:///absent/x",
        f"mysql://u:{PASSWORD}@localhost/x", f"postgresql://u:{PASSWORD}@localhost:x/y", f"postgresql+asyncpg://u:{PASSWORD}@localhost/x",
    ],
)  # fmt: skip
def test_an_address_of_no_use_is_rejected_without_its_password(address):
    with pytest.raises(ConfigurationError) as caught:
        engine_of(address)
    assert caught.value.code == "web.setting"
    assert PASSWORD not in str(caught.value)


def test_a_wait_out_of_range_is_rejected(path):
    with refused(ConfigurationError, "web.setting"):
        make_engine(f"sqlite:///{path}", code="web.setting", wait_s=-1)
    assert not path.exists()


@pytest.mark.parametrize(("driver", "text"), [("psycopg", r"tppkit\[postgres\]"), ("psycopg2", "psycopg2, the driver")])
def test_an_absent_driver_is_named(driver, text, monkeypatch):
    monkeypatch.setitem(sys.modules, driver, None)
    with refused(ConfigurationError, "extra.missing", match=text):
        engine_of(f"postgresql+{driver}://localhost/x")


def test_a_driver_whose_import_error_has_no_name_is_named(tmp_path, monkeypatch):
    (tmp_path / "psycopg.py").write_text("raise ImportError('no pq wrapper available')")  # psycopg without libpq
    monkeypatch.delitem(sys.modules, "psycopg", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with refused(ConfigurationError, "extra.missing", match=r"^psycopg, the driver"):
        engine_of("postgresql+psycopg://localhost/x")


def test_values_are_in_no_error(engine):
    with engine.connect() as db, pytest.raises(OperationalError) as caught:
        db.execute(text("SELECT :value FROM absent"), {"value": PASSWORD})
    assert PASSWORD not in str(caught.value)


def test_limits_are_added_to_the_options_of_the_address(postgresql_url):
    engine = engine_of(f"{psycopg_url(postgresql_url)}&options=-csearch_path%3Dbank")
    with engine.connect() as db:
        shown = [db.execute(text(f"SHOW {name}")).scalar_one() for name in ("search_path", "statement_timeout")]
    assert shown == ["bank", "3s"]
    engine.dispose()


def test_statements_may_be_left_without_a_limit(postgresql_url):
    engine = make_engine(psycopg_url(postgresql_url), code="web.setting", wait_s=3, limits_statements=False)
    with engine.connect() as db:
        assert db.execute(text("SHOW statement_timeout")).scalar_one() == "0"
    engine.dispose()


def test_a_sqlite_file_is_closed_before_a_fork(engine, path):
    engine.connect().close()
    open_files = Path("/proc/self/fd")
    assert str(path) in [os.path.realpath(file) for file in open_files.iterdir()]
    if not (child := os.fork()):
        os._exit(str(path) in [os.path.realpath(file) for file in open_files.iterdir()])
    assert os.waitpid(child, 0)[1] == 0


def test_a_child_has_a_connection_of_its_own_to_postgresql(postgresql_url):
    engine = engine_of(psycopg_url(postgresql_url))

    def session() -> int:
        with engine.connect() as db:
            return int(db.execute(text("SELECT pg_backend_pid()")).scalar_one())

    mine = session()
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, str(session()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 20)) != mine
    assert session() == mine
    engine.dispose()
