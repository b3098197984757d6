"""Statements of SQLAlchemy Core for code that runs with each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from operator import methodcaller
from typing import Any, NamedTuple

from sqlalchemy import CompoundSelect, Connection, Dialect, Select, Table, TextClause
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import UpdateBase

from tppkit._locals import without_locals

Compilable = UpdateBase | Select[Any] | CompoundSelect[Any] | TextClause

_ONE, _ALL = methodcaller("fetchone"), methodcaller("fetchall")  # of the driver's cursor and of SQLAlchemy's result


class _Compiled(NamedTuple):
    text: str
    names: tuple[str, ...]  # of the parameters, in their order
    is_positional: bool
    constants: Mapping[str, Any]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return the values in the driver's form."""
        if self.constants:
            values = {**self.constants, **values}
        if self.is_positional:
            return tuple([values[name] for name in self.names])
        return {name: values[name] for name in self.names}

    def variables(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values in SQLAlchemy's form."""
        return {name: values[name] for name in self.names if name not in self.constants}


class Statement:
    """A statement that is compiled once for each dialect, because SQLAlchemy's preparation takes longer than SQLite's execution.

    Values and columns are not converted, so their types are int, str, bytes, bool and None.

    Args:
        statement: one for all dialects, or one for each dialect name.

    Example:
        ANSWER = Statement(select(TABLE.c.answer).where(TABLE.c.key == bindparam("of_key")))
        row = ANSWER.first(db, {"of_key": "k-1"})  # the answer as a tuple of one, or None
    """

    def __init__(self, statement: Compilable | Mapping[str, Compilable]) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, str], _Compiled] = {}

    @without_locals
    def first(self, db: Connection, values: Mapping[str, Any]) -> Any:
        """Execute the statement with the driver's cursor, and return its first row or None.

        This avoids SQLAlchemy's execution and result, which take longer than SQLite's work. SQLAlchemy's events and log do not include
        these statements. A row is a tuple in the order of the statement's columns.

        Args:
            db: the connection.
            values: the parameters by name; others are ignored.

        Raises:
            SQLAlchemyError: the database fails.
        """
        return self._execute(db, values, fetch=_ONE)

    @without_locals
    def run_one(self, db: Connection, values: Mapping[str, Any]) -> None:
        """Execute the statement for one row of values, and ignore the rows that it returns. See `first` for arguments and errors."""
        self._execute(db, values, fetch=_ONE)

    @without_locals
    def all(self, db: Connection, values: Mapping[str, Any]) -> Sequence[Any]:
        """Execute a query with the driver's cursor, and return its rows as tuples.

        Args:
            db: the connection.
            values: the parameters by name; others are ignored.

        Raises:
            SQLAlchemyError: the database fails.
        """
        rows: Sequence[Any] = self._execute(db, values, fetch=_ALL)
        return rows

    @without_locals
    def run_many(self, db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute the statement with the driver's cursor, once for each row of values (at least one).

        Raises:
            SQLAlchemyError: the database fails.
        """
        self._execute(db, *rows)

    def _execute(self, db: Connection, *rows: Mapping[str, Any], fetch: Callable[[Any], Any] | None = None) -> Any:
        """Execute for one row of values and return what `fetch` returns, or for several rows and return None."""
        dialect = db.dialect
        compiled = self._compiled.get((dialect.name, dialect.paramstyle)) or self._compile(dialect)
        if db.get_execution_options().get("schema_translate_map"):
            named = [compiled.variables(values) for values in rows]
            with closing(db.execute(self._of(dialect), named[0] if fetch else named)) as result:
                return fetch(result) if fetch and result.returns_rows else None
        if not db.in_transaction():
            db.begin()  # as SQLAlchemy does before its own statements
        try:
            cursor = db.connection.cursor()
            try:
                if fetch is None:
                    cursor.executemany(compiled.text, [compiled.parameters(values) for values in rows])
                    return None
                cursor.execute(compiled.text, compiled.parameters(rows[0]))
                return fetch(cursor) if cursor.description else None
            finally:
                cursor.close()
        except dialect.loaded_dbapi.Error as e:
            raise DBAPIError.instance(
                compiled.text, None, e, dialect.loaded_dbapi.Error, hide_parameters=True, dialect=dialect
            ) from e

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled: Any = self._of(dialect).compile(dialect=dialect)
        constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        names = tuple((compiled.positiontup or ()) if compiled.positional else compiled.binds)
        made = _Compiled(compiled.string, names, compiled.positional, constants)
        self._compiled[dialect.name, dialect.paramstyle] = made
        return made

    def _of(self, dialect: Dialect) -> Compilable:
        return self._statement[dialect.name] if isinstance(self._statement, Mapping) else self._statement


def insert_or(table: Table, complete: Callable[[Any], UpdateBase]) -> Statement:
    """Make an insert that does something else on a conflict, for SQLite and PostgreSQL.

    Args:
        table: the table.
        complete: adds values, ON CONFLICT and RETURNING to the insert of a dialect.
    """
    dialects = (("sqlite", sqlite), ("postgresql", postgresql))
    return Statement({name: complete(dialect.insert(table)) for name, dialect in dialects})
