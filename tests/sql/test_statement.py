"""SQL statements are built once: a rebuilt insert takes five times as long as a prepared one, and every request would pay it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, String, Table, bindparam, create_engine, select, update

import tppkit
from tppkit.sql.statement import Statement, insert_or

SOURCE = Path(tppkit.__file__).parent
VERBS = {"select", "insert", "update", "delete"}


def built_in_functions(source: str) -> Iterator[str]:
    """Every `select(...)`, `insert(...)`, `update(...)`, `delete(...)` of SQLAlchemy in a function other than `__init__`."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        alias.asname or alias.name: alias.name
        for node in imports
        if isinstance(node, ast.Import) or (node.module or "").startswith("sqlalchemy")
        for alias in node.names
    }
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    for function in functions:
        if getattr(function, "name", "") == "__init__":
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and _is_statement(call, names):
                yield f"{getattr(function, 'name', 'lambda')}, line {call.lineno}: {ast.unparse(call)}"


def _is_statement(call: ast.Call, names: dict[str, str]) -> bool:
    match call.func:
        case ast.Name(id=name):
            return names.get(name) in VERBS
        case ast.Attribute(attr="insert" | "select"):
            return True
        case ast.Attribute(value=ast.Name(id=module), attr="update" | "delete"):
            return module in names or not call.args  # not digest.update(chunk)
    return False


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("def f(db): db.execute(select(T))", True),
        ("def f(db): db.execute(other(T))", True),
        ("async def f(db): db.execute(sqlite.insert(T))", True),
        ("f = lambda db: db.execute(T.delete())", True),
        ("class A:\n def f(self): return sqlalchemy.update(self.t)", True),
        ("READ = select(T)", False),
        ("class A:\n def __init__(self, t): self.read = select(t)", False),
        ("def f(digest): digest.update(b'')", False),
    ],
)
def test_statements_in_functions_are_found(line, found):
    head = "import sqlalchemy\nfrom sqlalchemy import delete as other, select\nfrom sqlalchemy.dialects import sqlite\n"
    assert bool(list(built_in_functions(head + line))) is found


def test_no_function_that_runs_with_each_request_builds_a_statement():
    modules = [path for package in ("inbox", "sandbox", "web") for path in sorted((SOURCE / package).rglob("*.py"))]
    read = [path for path in modules if "sqlalchemy" in path.read_text()]
    assert len(read) > 3
    found = {str(path.relative_to(SOURCE)): list(built_in_functions(path.read_text())) for path in read}
    assert {path: calls for path, calls in found.items() if calls} == {}


TABLE = Table("things", MetaData(), Column("key", String(8), primary_key=True), Column("note", String(8)))
READ = Statement(select(TABLE).where(TABLE.c.key != bindparam("other")).order_by(TABLE.c.key))
FORGET = Statement(update(TABLE).where(TABLE.c.key == bindparam("of_key")).values(note=None))
ADD = insert_or(TABLE, lambda into: into.on_conflict_do_nothing().returning(TABLE.c.key))


def test_a_statement_runs_with_its_constants_and_the_values_given():
    with create_engine("sqlite://").begin() as db:
        TABLE.metadata.create_all(db)
        assert ADD.first(db, {"key": "a", "note": "b"}) == ("a",)
        assert ADD.first(db, {"key": "a", "note": "c"}) is None
        FORGET.first(db, {"of_key": "a"})
        assert READ.first(db, {"other": "b"}) == ("a", None)


def test_all_rows_are_read_in_order():
    with create_engine("sqlite://").begin() as db:
        TABLE.metadata.create_all(db)
        assert READ.all(db, {"other": ""}) == []
        ADD.run_many(db, [{"key": key, "note": "b"} for key in "cab"])
        assert READ.all(db, {"other": "b"}) == [("a", "b"), ("c", "b")]


def test_an_absent_value_is_an_error_and_not_null():
    with create_engine("sqlite://").begin() as db, pytest.raises(KeyError):
        ADD.first(db, {"key": "a"})


def test_a_translated_schema_is_used():
    engine = create_engine("sqlite://").execution_options(schema_translate_map={None: "bank"})
    with engine.begin() as db:
        db.exec_driver_sql("ATTACH ':memory:' AS bank")
        TABLE.metadata.create_all(db)
        ADD.run_many(db, [{"key": "a", "note": "b"}])
        assert ADD.first(db, {"key": "a", "note": "b"}) is None
        assert READ.all(db, {"other": ""}) == [("a", "b")]
        assert db.exec_driver_sql("SELECT key FROM bank.things").scalar_one() == "a"
