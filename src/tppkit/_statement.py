"""A statement of SQLAlchemy Core for code that runs it with each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.sql.elements import ClauseElement


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

    def __init__(self, statement: ClauseElement | Mapping[str, ClauseElement]) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def run(self, db: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute the statement.

        Args:
            db: the connection.
            values: one for each parameter.

        Raises:
            SQLAlchemyError: the database fails.
        """
        text, names, constants = self._compiled.get(db.dialect.name) or self._compile(db.dialect)
        merged = {**constants, **values}
        return db.exec_driver_sql(text, merged if names is None else tuple([merged[name] for name in names]))

    def _compile(self, dialect: Dialect) -> _Compiled:
        one = self._statement
        compiled: Any = (one[dialect.name] if isinstance(one, Mapping) else one).compile(dialect=dialect)
        constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        names = tuple(compiled.positiontup) if compiled.positional else None
        self._compiled[dialect.name] = _Compiled(compiled.string, names, constants)
        return self._compiled[dialect.name]
