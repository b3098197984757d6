"""The search language as a tree: a builder, a writer that quotes, and a parser. Source: gateway document, section 4.3.

    query = (F("status") == "completed") & F("created").between(date(2026, 1, 1), None)
    str(query)  # status:completed AND created:[2026-01-01 TO *]
    parse_query(str(query)) == query

For what the document does not show, see assumption search-language. The tree does not know which fields exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import date, datetime
from typing import ClassVar, NoReturn

from tppkit.errors import FormatError
from tppkit.protocol.gateway.values import CONTROL, write_timestamp

MAX_LENGTH = 4096
MAX_DEPTH = 10  # of NOT and parentheses
MAX_TERMS = 100

_SPACE = re.compile(r"[ \t\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_BARE = re.compile(r"[\w.@+-]+")
_END = re.compile(r"[\w.@:+-]+")
_QUOTED = re.compile(r'"([^"\\]*(?:\\["\\][^"\\]*)*)"')
_KEYWORDS = {word: re.compile(rf"{word}(?![\w.@:+-])") for word in ("AND", "OR", "NOT", "TO")}
# Written without quotes: what no other reader of such a language takes for an operator.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SAFE_END = re.compile(r"[A-Za-z0-9_.:+-]+")


class Query:
    """A query; `&`, `|` and `~` combine queries, and `str` writes them.

    Example:
        query = parse_query("status:completed AND NOT currency:EUR")
        query | (F("merchant_order_id") == "4711")
    """

    __slots__ = ()
    _rank: ClassVar[int] = 4  # how strongly it binds
    _size: tuple[int, int] = (1, 0)  # terms, and the depth of NOT and parentheses

    def __and__(self, other: Query) -> Query:
        return And(self, other) if isinstance(other, Query) else NotImplemented  # type: ignore[redundant-expr]

    def __or__(self, other: Query) -> Query:
        return Or(self, other) if isinstance(other, Query) else NotImplemented  # type: ignore[redundant-expr]

    def __invert__(self) -> Query:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("queries are combined with &, | and ~ instead of and, or and not")

    def _inside(self, rank: int) -> str:
        """The text, in parentheses if it binds less strongly than what is around it."""
        return str(self) if self._rank >= rank else f"({self})"


@dataclass(frozen=True, slots=True)
class Everything(Query):
    """Every order."""

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True, slots=True)
class Equal(Query):
    """Orders whose field has a value.

    Attributes:
        field: the name of the field, with dots between levels.
        value: the value as a text.
        offset: where a parsed text has it; of the first character.
    """

    field: str
    value: str
    offset: int | None = dataclass_field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        _require(self.field, self.value)

    def __str__(self) -> str:
        return f"{self.field}:{_written(self.value, _SAFE)}"


@dataclass(frozen=True, slots=True)
class Between(Query):
    """Orders whose field has a value in a range, both ends included.

    Attributes:
        field: the name of the field, with dots between levels.
        first: the smallest value as a text, or None for an open end.
        last: the largest one.
        offset: where a parsed text has it; of the first character.
    """

    field: str
    first: str | None
    last: str | None
    offset: int | None = dataclass_field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        _require(self.field, self.first or "", self.last or "")

    def __str__(self) -> str:
        first, last = ("*" if end is None else _written(end, _SAFE_END) for end in (self.first, self.last))
        return f"{self.field}:[{first} TO {last}]"


@dataclass(frozen=True, slots=True)
class Not(Query):
    """Orders that a query does not match.

    Raises:
        FormatError: `search.query`, nested too deep.
    """

    query: Query
    _size: tuple[int, int] = dataclass_field(init=False, repr=False, compare=False)
    _rank = 3

    def __post_init__(self) -> None:
        terms, depth = self.query._size
        object.__setattr__(self, "_size", _possible(terms, 1 + depth + (self.query._rank < self._rank)))

    def __str__(self) -> str:
        return f"NOT {self.query._inside(self._rank)}"


@dataclass(frozen=True, slots=True)
class _Pair(Query):
    left: Query
    right: Query
    _size: tuple[int, int] = dataclass_field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        (terms, depth), (more, other) = self.left._size, self.right._size
        deepest = max(depth + (self.left._rank < self._rank), other + (self.right._rank <= self._rank))
        object.__setattr__(self, "_size", _possible(terms + more, deepest))

    def __str__(self) -> str:
        word = type(self).__name__.upper()
        return f"{self.left._inside(self._rank)} {word} {self.right._inside(self._rank + 1)}"


class And(_Pair):
    """Orders that both queries match.

    Raises:
        FormatError: `search.query`, too many terms, or nested too deep.
    """

    __slots__ = ()
    _rank = 2


class Or(_Pair):
    """Orders that one of the queries matches. Errors are those of `And`."""

    __slots__ = ()
    _rank = 1


def _possible(terms: int, depth: int) -> tuple[int, int]:
    if terms > MAX_TERMS or depth > MAX_DEPTH:
        raise query_error(f"more than {MAX_TERMS} terms, or nested more than {MAX_DEPTH} deep")
    return terms, depth


class F:
    """A field of orders, for a query without string concatenation.

    Args:
        field: its name, with dots between levels.

    Raises:
        FormatError: `search.query`, for a value as well: another type, a time without zone, or control characters.

    Example:
        paid = (F("status") == "completed") & F("amount").between(100, None)
        client.search(paid | ~(F("currency") == "EUR"))
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, field: str) -> None:
        self._field = field

    def __eq__(self, value: str | int | date) -> Query:  # type: ignore[override]
        return Equal(self._field, _text(value))

    def __ne__(self, value: str | int | date) -> Query:  # type: ignore[override]
        return Not(self == value)

    def between(self, first: str | int | date | None, last: str | int | date | None) -> Query:
        """Values in a range, both ends included; None for an open end."""
        return Between(self._field, *(None if end is None else _text(end) for end in (first, last)))


def query_error(what: str, *, offset: int | None = None) -> FormatError:
    """The error for a query, with the character where it goes wrong."""
    place = "" if offset is None else f"the query at character {offset + 1}: "
    return FormatError("search.query", f"{place}{what}", offset=offset)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise query_error("a time needs a time zone")
        return write_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise query_error("a value is a text, a whole number, a date or a time")
    return str(value)


def _require(field: str, *values: str) -> None:
    if not _NAME.fullmatch(field):
        raise query_error("a field is named by letters, digits and . _ - that begin with a letter")
    if any(CONTROL.search(value) for value in values):
        raise query_error("a value has control characters")


def _written(value: str, safe: re.Pattern[str]) -> str:
    if safe.fullmatch(value) and value not in _KEYWORDS:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse_query(text: str) -> Query:
    """The tree of a query, in time that grows with its length.

    Raises:
        FormatError: `search.query`, with the character where it goes wrong and never a value.
    """
    if len(text) > MAX_LENGTH:
        raise query_error(f"the query has {len(text)} characters, and {MAX_LENGTH} are possible")
    return _Parser(text).parse()


class _Parser:
    """Recursive descent: alternatives of conjunctions of negations of terms."""

    def __init__(self, text: str) -> None:
        self._query = text
        self._at = 0  # the next character
        self._terms = 0

    def parse(self) -> Query:
        control = CONTROL.search(self._query)
        if control:
            raise self._wrong("control character", control.start())
        query = self._either(0)
        if self._at < len(self._query):
            raise self._wrong("expected AND, OR or the end")
        return query

    def _either(self, depth: int) -> Query:
        query = self._both(depth)
        while self._keyword("OR"):
            query = Or(query, self._both(depth))
        return query

    def _both(self, depth: int) -> Query:
        query = self._negated(depth)
        while self._keyword("AND"):
            query = And(query, self._negated(depth))
        return query

    def _negated(self, depth: int) -> Query:
        self._take(_SPACE)
        if depth > MAX_DEPTH:
            raise self._wrong(f"nested more than {MAX_DEPTH} deep")
        if self._keyword("NOT"):
            return Not(self._negated(depth + 1))
        if self._skip("("):
            query = self._either(depth + 1)
            self._expect(")")
        else:
            query = self._term()
        self._take(_SPACE)
        return query

    def _term(self) -> Query:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise self._wrong(f"more than {MAX_TERMS} terms")
        if self._skip("*"):
            return Everything()
        begin, name = self._at, self._take(_NAME)
        if name is None:
            raise self._wrong("expected *, field:value, NOT or a parenthesis")
        self._expect(":")
        if self._skip("["):
            return self._range(name, begin)
        return Equal(name, self._value(_BARE), offset=begin)

    def _range(self, name: str, begin: int) -> Query:
        first = self._end()
        if not self._keyword("TO"):
            raise self._wrong("expected TO")
        last = self._end()
        self._expect("]")
        return Between(name, first, last, offset=begin)

    def _end(self) -> str | None:
        self._take(_SPACE)
        value = None if self._skip("*") else self._value(_END)
        self._take(_SPACE)
        return value

    def _value(self, bare: re.Pattern[str]) -> str:
        quoted = _QUOTED.match(self._query, self._at)
        if quoted:
            self._at = quoted.end()
            return re.sub(r"\\(.)", r"\1", quoted[1])
        value = self._take(bare)
        if value is None:
            raise self._wrong(
                "expected a value, in quotes if it has other characters than letters, digits and . _ @ + -"
            )
        return value

    def _keyword(self, word: str) -> bool:
        return self._take(_KEYWORDS[word]) is not None

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._query, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _skip(self, character: str) -> bool:
        found = self._query.startswith(character, self._at)
        self._at += found
        return found

    def _expect(self, character: str) -> None:
        if not self._skip(character):
            raise self._wrong(f"expected {character}")

    def _wrong(self, what: str, at: int | None = None) -> FormatError:
        return query_error(what, offset=self._at if at is None else at)
