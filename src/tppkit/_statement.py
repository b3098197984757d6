"""A statement of SQLAlchemy Core for code that runs it with each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, CursorResult, Dialect, Select
from sqlalchemy.sql.dml import UpdateBase

Compilable = UpdateBase | Select[Any]


class _Compiled(NamedTuple):
    text: str
    names: tuple[str, ...] | None  # of the parameters in their order; None if the driver takes them by name
    constants: Mapping[str, Any]


class Statement:
    """A statement whose text is compiled once for each dialect: SQLAlchemy's own preparation takes longer than SQLite does.

    Values go to the driver, and columns come from it, as they are, so the types are int, str, bytes, bool and None.

    Args:
        statement: for all dialects, or one for each name of a dialect.

    Example:
        SETTLE = Statement(update(TABLE).where(TABLE.c.key == bindparam("of_key")).values(answer=bindparam("kept")))
        SETTLE.run(db, {"of_key": key, "kept": answer})
    """

    def __init__(self, statement: Compilable | Mapping[str, Compilable]) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, str], _Compiled] = {}

    def run(self, db: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute the statement.

        Args:
            db: the connection.
            values: one for each parameter.

        Raises:
            SQLAlchemyError: the database fails.
        """
        if db.get_execution_options().get("schema_translate_map"):
            return db.execute(self._of(db.dialect), values)
        key = db.dialect.name, db.dialect.paramstyle
        text, names, constants = self._compiled.get(key) or self._compile(db.dialect)
        merged = {**constants, **values}
        return db.exec_driver_sql(text, merged if names is None else tuple([merged[name] for name in names]))

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled: Any = self._of(dialect).compile(dialect=dialect)
        constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        names = tuple(compiled.positiontup) if compiled.positional else None
        made = self._compiled[dialect.name, dialect.paramstyle] = _Compiled(compiled.string, names, constants)
        return made

    def _of(self, dialect: Dialect) -> Compilable:
        return self._statement[dialect.name] if isinstance(self._statement, Mapping) else self._statement
