"""Frozen dataclasses as rows of a table, so that each field is written once.

A field is a column of the same name. Its type decides the column's type, except the length of a text:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class StoredLink:
        id: Annotated[str, String(36), KEY]
        status: Annotated[LinkStatus, String(16)]
        ends_at: datetime
        paid_by: Annotated[str | None, String(34)] = None

    LINKS = Records(StoredLink, "links", TABLES, changing=["status", "paid_by"])
    LINKS.add(db, link)
    LINKS.lock(db, link_id)                                # the link, or None
    LINKS.set(db, replace(link, status=LinkStatus.PAID))   # stores status and paid_by
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import Enum, StrEnum
from operator import attrgetter, methodcaller
from types import NoneType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from tppkit._clock import from_microseconds, to_microseconds
from tppkit.sql.statement import Statement, insert_or

R = TypeVar("R")


class _Option(Enum):
    KEY = "primary_key"
    UNIQUE = "unique"


KEY, UNIQUE = _Option.KEY, _Option.UNIQUE


@dataclass(frozen=True, slots=True)
class Named:
    """Another name for the column of a field."""

    name: str


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a field's values in its column.

    Attributes:
        type: the column's type; None: given apart.
        write: converts a value to the column's form; None: it is stored as it is.
        read: converts it back.
    """

    type: TypeEngine[Any] | None
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


class Fields:
    """The columns of a field that is a dataclass itself.

    Args:
        absent: the values of columns that are never NULL, for a record where the field is None.
        marks: the type of a column, or another name for it, by the dataclass's fields.
    """

    def __init__(self, absent: Mapping[str, Any] | None = None, /, **marks: TypeEngine[Any] | Named) -> None:
        self.absent = absent or {}
        self.marks = marks


_FORMS: Mapping[Any, Form] = {
    str: Form(None),
    int: Form(BigInteger()),
    bool: Form(Boolean(), read=bool),
    bytes: Form(LargeBinary(), read=bytes),
    datetime: Form(BigInteger(), to_microseconds, from_microseconds),
    date: Form(String(10), date.isoformat, date.fromisoformat),
}


class Records(Generic[R]):
    """The table of a frozen dataclass, with compiled statements.

    Args:
        record: the dataclass. A field of an optional type can be NULL. Times are stored as microseconds, and classes with `to_wire` and
            `from_wire` as bytes.
        name: the table's name.
        metadata: the table is added to it.
        changing: the fields and derived columns that `set` stores.
        derived: columns that are only written, with the function that returns their value for a record.
        options: options of the table.

    Attributes:
        table: the table.
        c: its columns.
        read: returns the record of a row that has all columns of the table, in their order.
    """

    def __init__(
        self, record: type[R], name: str, metadata: MetaData, *, changing: Collection[str] = (),
        derived: Mapping[Column[Any], Callable[[R], Any]] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        mapping = _Mapping(record, Fields())
        computed = {column.name: get for column, get in (derived or {}).items()}
        self.table = Table(name, metadata, *mapping.columns, *(derived or {}), **options)
        self.c = self.table.c
        self.read: Callable[[Sequence[Any]], R] = mapping.reader()
        self._row = mapping.writer(derived=computed)
        key = self.table.primary_key
        self._key = [f"of_{column.name}" for column in key]
        is_this = [column == bindparam(f"of_{column.name}") for column in key]
        one = select(self.table).where(*is_this)
        self._find, self._lock = Statement(one), Statement(one.with_for_update())
        self._add = Statement(insert(self.table).inline())
        self._add_new = insert_or(self.table, lambda into: into.on_conflict_do_nothing().returning(*key))
        if changing:
            computed = {name: get for name, get in computed.items() if name in changing}
            self._identified = mapping.writer(mapping.keys, prefix="of_")
            self._changed = mapping.writer(changing, derived=computed)
            names = [*mapping.names(changing), *computed]
            self._set = Statement(update(self.table).where(*is_this).values({name: bindparam(name) for name in names}))

    def add(self, db: Connection, *records: R) -> None:
        """Store new records.

        Raises:
            SQLAlchemyError: the database fails, or one of their unique values is used already.
        """
        if len(records) == 1:
            self._add.run_one(db, self._row(records[0]))
        else:
            self._add.run_many(db, [self._row(record) for record in records])

    def add_new(self, db: Connection, record: R) -> bool:
        """Store a new record; False if one of its unique values is used already."""
        return self._add_new.first(db, self._row(record)) is not None

    def set(self, db: Connection, record: R) -> None:
        """Store the changing fields of a record."""
        self._set.run_one(db, self._identified(record) | self._changed(record))

    def find(self, db: Connection, *key: Any) -> R | None:
        """Return the record with this key without a lock, or None."""
        return self.first(db, self._find, dict(zip(self._key, key, strict=True)))

    def lock(self, db: Connection, *key: Any) -> R | None:
        """Return the record with this key, locked for a change, or None."""
        return self.first(db, self._lock, dict(zip(self._key, key, strict=True)))

    def first(self, db: Connection, query: Statement, values: Mapping[str, Any]) -> R | None:
        """Return the record of a query's first row, or None."""
        row = query.first(db, values)
        return None if row is None else self.read(row)

    def all(self, db: Connection, query: Statement | Select[Any], values: Mapping[str, Any]) -> tuple[R, ...]:
        """Return the records of a query's rows. A query with a list of values is not a `Statement`."""
        rows = query.all(db, values) if isinstance(query, Statement) else db.execute(query, values)
        return tuple(map(self.read, rows))


class _Mapping:
    """How the fields of a dataclass are stored: first those with one column each, then those that are dataclasses."""

    def __init__(self, cls: type[Any], given: Fields, *, is_optional: bool = False) -> None:
        self._cls = cls
        self._plain: dict[str, tuple[str, Form]] = {}  # name and form of each field's column
        self._parts: dict[str, _Mapping] = {}
        self.columns: list[Column[Any]] = []
        hints = get_type_hints(cls, include_extras=True)
        for name in [one.name for one in fields(cls)]:
            type_, can_be_none, marks = _parse(hints[name])
            marks += [given.marks[name]] if name in given.marks else []
            if part := next((one for one in marks if isinstance(one, Fields)), None):
                self._parts[name] = _Mapping(type_, part, is_optional=can_be_none)
                continue
            column = next((one.name for one in marks if isinstance(one, Named)), name)
            form = next((one for one in marks if isinstance(one, Form)), None) or _form(type_)
            stored = next((one for one in marks if isinstance(one, TypeEngine)), form.type)
            nullable = can_be_none or (is_optional and column not in given.absent)
            self.columns.append(
                Column(column, stored, nullable=nullable, primary_key=KEY in marks, unique=UNIQUE in marks or None)
            )
            self._plain[name] = column, form
        self.keys = [name for name, column in zip(self._plain, self.columns, strict=True) if column.primary_key]
        self.absent = {column.name: given.absent.get(column.name) for column in self.columns}
        self.columns += [column for part in self._parts.values() for column in part.columns]

    def names(self, chosen: Collection[str]) -> list[str]:
        """Return the names of the columns of these fields."""
        own = [column for name, (column, _) in self._plain.items() if name in chosen]
        return own + [column.name for name, part in self._parts.items() if name in chosen for column in part.columns]

    def writer(
        self, chosen: Collection[str] | None = None, *, prefix: str = "", derived: Mapping[str, Callable[[Any], Any]] | None = None
    ) -> Callable[[Any], dict[str, Any]]:  # fmt: skip
        """Return a function that returns the values of columns of a record: those of the chosen fields, and derived ones."""
        own = {name: one for name, one in self._plain.items() if chosen is None or name in chosen}
        columns, names = [prefix + column for column, _ in own.values()], list(own)
        converted = [(i, form.write) for i, (_, form) in enumerate(own.values()) if form.write]
        parts = [(one, of.writer(), of.absent) for one, of in self._parts.items() if chosen is None or one in chosen]
        computed = list((derived or {}).items())

        def write(record: Any) -> dict[str, Any]:
            values = [getattr(record, name) for name in names]
            for i, convert in converted:
                if values[i] is not None:
                    values[i] = convert(values[i])
            row = dict(zip(columns, values, strict=True))
            for name, write_part, absent in parts:
                part = getattr(record, name)
                row |= absent if part is None else write_part(part)
            for name, compute in computed:
                row[name] = compute(record)
            return row

        return write

    def reader(self) -> Callable[[Sequence[Any]], Any]:
        """Return a function that returns the record of a row, which may have more columns at its end."""
        cls, names = self._cls, list(self._plain)
        converted = [(i, form.read) for i, (_, form) in enumerate(self._plain.values()) if form.read]
        parts, start = [], len(names)
        for name, of in self._parts.items():
            parts.append((name, slice(start, start + len(of.columns)), of.reader()))
            start += len(of.columns)

        def read(row: Sequence[Any]) -> Any:
            values = list(row)
            for i, convert in converted:
                if values[i] is not None:
                    values[i] = convert(values[i])
            given = dict(zip(names, values, strict=False))
            for name, columns, read_part in parts:
                given[name] = None if row[columns.start] is None else read_part(row[columns])
            return cls(**given)

        return read


def _parse(hint: Any) -> tuple[Any, bool, list[Any]]:
    """Return the type of a field, whether it can be None, and what else is said of it."""
    marks: list[Any] = []
    can_be_none = False
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            marks += more
        elif NoneType in get_args(hint):
            can_be_none = True
            (hint,) = (one for one in get_args(hint) if one is not NoneType)
        else:
            return hint, can_be_none, marks


def _form(type_: Any) -> Form:
    if hasattr(type_, "from_wire"):
        return Form(LargeBinary(), methodcaller("to_wire"), lambda raw: type_.from_wire(bytes(raw), tolerant=True))
    return Form(None, attrgetter("value"), type_) if issubclass(type_, StrEnum) else _FORMS[type_]
