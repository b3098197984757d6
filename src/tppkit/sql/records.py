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
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

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
T = TypeVar("T")


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
        mapping, derived = _Mapping(record), derived or {}
        computed = {column.name: get for column, get in derived.items()}
        self.table = Table(name, metadata, *mapping.columns, *derived, **options)
        self.c = self.table.c
        self.read: Callable[[Sequence[Any]], R] = mapping.read
        _, self._row = mapping.writer(computed)
        changed, self._changes = mapping.writer(computed, changing)
        key = self.table.primary_key
        names = [f"of_{column.name}" for column in key]
        text = ", ".join(f"{name!r}: {name}" for name in names)
        self._key = mapping.compile(f"lambda {', '.join(names)}: {{{text}}}")
        is_this = [column == bindparam(f"of_{column.name}") for column in key]
        one = select(self.table).where(*is_this)
        self._find, self._lock = Statement(one), Statement(one.with_for_update())
        self._add = Statement(insert(self.table).inline())
        self._add_new = insert_or(self.table, lambda into: into.on_conflict_do_nothing().returning(*key))
        self._set = Statement(update(self.table).where(*is_this).values({name: bindparam(name) for name in changed}))

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
        self._set.run_one(db, self._changes(record))

    def find(self, db: Connection, *key: Any) -> R | None:
        """Return the record with this key without a lock, or None."""
        row = self._find.first(db, self._key(*key))
        return None if row is None else self.read(row)

    def lock(self, db: Connection, *key: Any) -> R | None:
        """Return the record with this key, locked for a change, or None."""
        row = self._lock.first(db, self._key(*key))
        return None if row is None else self.read(row)

    def first(self, db: Connection, query: Statement, values: Mapping[str, Any]) -> R | None:
        """Return the record of a query's first row, or None."""
        row = query.first(db, values)
        return None if row is None else self.read(row)

    def all(self, db: Connection, query: Statement | Select[Any], values: Mapping[str, Any]) -> tuple[R, ...]:
        """Return the records of a query's rows. A query with a list of values is not a `Statement`."""
        rows = query.all(db, values) if isinstance(query, Statement) else db.execute(query, values)
        return tuple(map(self.read, rows))


class _Stored(NamedTuple):
    """A field and its column.

    Attributes:
        column: the column.
        field: the field's path from the record.
        optional: the paths that can be None, this one or those before it.
        write: converts a value to the column's form, or None.
        absent: what is stored if one of these paths is None.
    """

    column: Column[Any]
    field: str
    optional: tuple[str, ...]
    write: Callable[[Any], Any] | None
    absent: Any


class _Mapping:
    """How a dataclass is stored: first its fields with one column each, then those that are dataclasses.

    The functions for rows are compiled from text, as `dataclasses` compiles `__init__`: loops take twice as long.
    """

    def __init__(self, cls: type[Any]) -> None:
        self._stored: list[_Stored] = []
        self._values: dict[str, Any] = {}
        self.read: Callable[[Any], Any] = self.compile(f"lambda row: {self._add(cls, Fields(), 'record', ())}")
        self.columns = [one.column for one in self._stored]

    def writer(
        self, derived: Mapping[str, Callable[[Any], Any]], chosen: Collection[str] | None = None
    ) -> tuple[list[str], Callable[[Any], dict[str, Any]]]:
        """Return the names of the chosen columns, and a function that returns their values for a record.

        Args:
            derived: functions for further columns.
            chosen: names of fields and derived columns, whose values are returned with those of the key as `of_name`; None: all.
        """
        items, key = {}, {}
        for one in self._stored:
            if chosen is None or one.field.split(".")[1] in chosen:
                items[one.column.name] = self._written(one)
            elif one.column.primary_key:
                key[f"of_{one.column.name}"] = self._written(one)
        for name, get in derived.items():
            if chosen is None or name in chosen:
                items[name] = f"{self._name(get)}(record)"
        text = ", ".join(f"{name!r}: {value}" for name, value in (key | items).items())
        return list(items), self.compile(f"lambda record: {{{text}}}")

    def _add(self, cls: type[Any], given: Fields, path: str, optional: tuple[str, ...]) -> str:
        """Add the columns of a dataclass, and return the expression that makes one from a row."""
        hints = get_type_hints(cls, include_extras=True)
        arguments, parts = [], []
        for name in [one.name for one in fields(cls)]:
            type_, can_be_none, marks = _parse(hints[name])
            marks += [given.marks[name]] if name in given.marks else []
            field = f"{path}.{name}"
            nullable = (*optional, field) if can_be_none else optional
            if part := _first(Fields, marks):
                parts.append((name, type_, part, field, nullable))
                continue
            form = _first(Form, marks) or _form(type_)
            named = _first(Named, marks)
            column: Column[Any] = Column(
                named.name if named else name, _first(TypeEngine, marks) or form.type, primary_key=KEY in marks,
                unique=UNIQUE in marks or None, nullable=bool(nullable) and name not in given.absent,
            )  # fmt: skip
            value = f"row[{len(self._stored)}]"
            read = f"{self._name(form.read)}({value})" if form.read else value
            arguments.append(f"{name}={f'None if {value} is None else ' if can_be_none and form.read else ''}{read}")
            self._stored.append(_Stored(column, field, nullable, form.write, given.absent.get(name)))
        for name, type_, part, field, nullable in parts:
            first = f"row[{len(self._stored)}]"
            made = self._add(type_, part, field, nullable)
            arguments.append(f"{name}={f'None if {first} is None else ' if field in nullable else ''}{made}")
        return f"{self._name(cls)}({', '.join(arguments)})"

    def _written(self, one: _Stored) -> str:
        value = f"{self._name(one.write)}({one.field})" if one.write else one.field
        absent = " or ".join(f"{path} is None" for path in one.optional if one.write or path != one.field)
        return f"{self._name(one.absent)} if {absent} else {value}" if absent else value

    def _name(self, value: Any) -> str:
        name = f"_{len(self._values)}"
        self._values[name] = value
        return name

    def compile(self, text: str) -> Any:
        """Return the value of an expression."""
        return eval(text, self._values)  # noqa: S307  # of names of fields and columns


def _first(kind: type[T], marks: Sequence[Any]) -> T | None:
    return next((one for one in marks if isinstance(one, kind)), None)


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
