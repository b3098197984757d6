"""Search the orders of a project, as pages or a CSV report. A query becomes an SQL condition with values as parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Row, and_, false, not_, or_, select, true, tuple_

from tppkit._clock import from_microseconds, shift, to_microseconds
from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.protocol.gateway.bodies import ReportRow, SearchRequest, SearchResult
from tppkit.protocol.gateway.endpoints import SEARCH, SEARCH_CSV
from tppkit.protocol.gateway.orders import LINKED_ORDERS, Order
from tppkit.protocol.gateway.query import And, Between, Equal, Everything, Not, Or, Query, parse_query, query_error
from tppkit.protocol.gateway.search import DEFAULT_SIZE, Page, page_of, report_rows, write_cursor
from tppkit.protocol.gateway.values import MAX_AMOUNT, read_timestamp, write_timestamp
from tppkit.protocol.wire import MAX_ARRAY_BYTES
from tppkit.sandbox.cell import Answer, Handler, HostCall, StreamHandler
from tppkit.sandbox.gateway.orders import order_answers
from tppkit.sandbox.gateway.tables import ORDERS, shown_transactions

_REPORTED = [
    ORDERS.c[name] for name in (
        "id", "project_id", "status", "merchant_order_id", "merchant_customer_id", "currency", "amount", "created_at", "modified_at",
        "completed_at",
    )
]  # fmt: skip
BATCH = 200  # orders to read at a time
MAX_PAGE_BYTES = MAX_ARRAY_BYTES // 2  # larger than any order, and below the clients' limit
# Times with an index of project, time and id; assumption search-sort.
SORTS: Mapping[str, Column[int]] = {"created": ORDERS.c.created_at, "modified": ORDERS.c.modified_at}


class _Field(NamedTuple):
    """The column of a query's field.

    Attributes:
        column: the column.
        ends: returns the smallest and largest value of the column for a value of a query; raises ValueError.
        made_by: how the order was made, if only such orders have the field.
    """

    column: Column[Any]
    ends: Callable[[str], tuple[Any, Any]]
    made_by: str | None = None


def _text(value: str) -> tuple[str, str]:
    return value, value


def _uuid(value: str) -> tuple[str, str]:
    return value.lower(), value.lower()


def _number(value: str) -> tuple[int, int]:
    if not re.fullmatch("[0-9]{1,19}", value) or int(value) > MAX_AMOUNT:
        raise ValueError("not a whole number in digits, or too large")
    return int(value), int(value)


def _time(value: str) -> tuple[int, int]:  # assumption search-fields
    try:
        day = date.fromisoformat(value)
    except ValueError:
        at = to_microseconds(read_timestamp(value))
        return at, at
    begin = read_timestamp(day.isoformat())
    return to_microseconds(begin), to_microseconds(shift(begin, timedelta(days=1))) - 1


_FIELDS: Mapping[str, _Field] = {
    "id": _Field(ORDERS.c.id, _uuid),
    "status": _Field(ORDERS.c.status, _text),
    "merchant_order_id": _Field(ORDERS.c.merchant_order_id, _text),
    "currency": _Field(ORDERS.c.currency, _text),
    "amount": _Field(ORDERS.c.amount, _number),
    "created": _Field(ORDERS.c.created_at, _time),
    "modified": _Field(ORDERS.c.modified_at, _time),
    "completed": _Field(ORDERS.c.completed_at, _time),
    "customer.merchant_customer_id": _Field(ORDERS.c.merchant_customer_id, _text),
    "related_payment_link_id": _Field(ORDERS.c.link_id, _uuid),
    "related_order_id": _Field(ORDERS.c.original_id, _uuid),
    **{link.field: _Field(ORDERS.c.original_id, _uuid, made_by) for made_by, link in LINKED_ORDERS.items()},
}


def search(call: HostCall[SearchRequest]) -> Answer[SearchResult]:
    """POST /v1/search/orders/."""
    body, page = call.body, page_of(call.body)
    asked = body.size or DEFAULT_SIZE  # fewer at the end of simple paging
    size, source = asked if page.size is None else page.size, _Search(call, page, list(ORDERS.c))
    rows = source.rows(size + 1, after=_after(page), start=page.start)
    orders = _fitting(call, rows[:size])
    cursor = None
    if 0 < len(orders) < len(rows):
        at, last_id = source.sort_key(rows[len(orders) - 1])
        cursor = write_cursor(_shown_time(at), last_id, size=asked, sort=page.sort)
    return Answer(SearchResult.model_construct(orders=tuple(orders), search_after=cursor))


def _fitting(call: HostCall[SearchRequest], rows: Sequence[Row[Any]]) -> list[Order]:
    """Return the merchants' views of the orders, as many as fit (assumption search-size)."""
    orders, left = list[Order](), MAX_PAGE_BYTES
    for begin in range(0, len(rows), BATCH):
        for order in order_answers(call, [ORDERS.read(row) for row in rows[begin : begin + BATCH]]):
            left -= len(order.to_wire())
            if left < 0:
                return orders
            orders.append(order)
    return orders


def report(call: HostCall[SearchRequest]) -> Iterator[ReportRow]:
    """POST /v1/search/orders/?format=csv: yield the rows, reading the orders in batches."""
    page = page_of(call.body, report=True)
    source, after, start, left = _Search(call, page, _REPORTED), _after(page), page.start, page.size
    merchant_id = call.settings.project(call.caller).merchant_id
    while left is None or left > 0:
        orders = source.rows(BATCH if left is None else min(BATCH, left), after=after, start=start)
        if not orders:
            return
        transactions = shown_transactions(call.db, [order.id for order in orders])
        for order in orders:
            fields = {
                "id": order.id, "merchant_order_id": order.merchant_order_id, "created": _shown_time(order.created_at),
                "completed": _shown_time(order.completed_at), "currency": order.currency, "amount": order.amount, "status": order.status,
                "customer": {"merchant_customer_id": order.merchant_customer_id}, "merchant_id": merchant_id,
                "project_id": order.project_id,
            }  # fmt: skip
            yield from report_rows(fields, map(json.loads, transactions[order.id]))
        after, start = source.sort_key(orders[-1]), None
        left = None if left is None else left - len(orders)


HANDLERS: tuple[Handler[Any, Any] | StreamHandler[Any, Any], ...] = (
    Handler(SEARCH, search, writes=False, long=True),
    StreamHandler(SEARCH_CSV, report),
)


class _Search:
    """The search of a request in the caller's orders.

    Raises:
        FormatError: `search.query`, `search.sort`.
    """

    def __init__(self, call: HostCall[SearchRequest], page: Page, columns: Sequence[Column[Any]]) -> None:
        column = SORTS.get(page.sort.field)
        if column is None:
            raise FormatError("search.sort", f"orders are sorted by {' or '.join(SORTS)}")
        self._db: Connection = call.db
        self._key, self._descending = (column, ORDERS.c.id), page.sort.descending
        order = [one.desc() if self._descending else one.asc() for one in self._key]
        where = and_(ORDERS.c.project_id == call.caller, condition(parse_query(call.body.query)))
        self._select = select(*columns).where(where).order_by(*order)

    def rows(self, limit: int, *, after: tuple[int, str] | None, start: int | None) -> Sequence[Row[Any]]:
        """Return the next orders: those after a sort key, or without the first `start` ones."""
        statement = self._select.limit(limit)
        if after is not None:
            key = tuple_(*self._key)
            statement = statement.where(key < after if self._descending else key > after)
        if start:
            statement = statement.offset(start)
        return self._db.execute(statement).all()

    def sort_key(self, row: Row[Any]) -> tuple[int, str]:
        """Return the sort key of a row."""
        return getattr(row, self._key[0].name), row.id


def condition(query: Query) -> ColumnElement[bool]:
    """Return the SQL condition of a query; it is true or false for every row, never NULL, so that NOT matches all others.

    Raises:
        FormatError: `search.query`, a field is not listed or cannot have the value.
    """
    match query:
        case Everything():
            return true()
        case And():
            return and_(*map(condition, _operands(query, And)))
        case Or():
            return or_(*map(condition, _operands(query, Or)))
        case Not():
            return not_(condition(query.query))
        case Equal():
            field = _field(query)
            return _within(field, *_ends(query, field, query.value))
        case Between():
            field = _field(query)
            if field.ends not in (_number, _time) and (query.first, query.last) != (None, None):
                raise query_error(f"{query.field} has no ranges: its values are texts", offset=query.offset)
            first = None if query.first is None else _ends(query, field, query.first)[0]
            last = None if query.last is None else _ends(query, field, query.last)[1]
            return _within(field, first, last)
    return false()


def _operands(query: Query, kind: type[And | Or]) -> Iterator[Query]:
    """Yield the operands of a chain, the last one first, without recursion because a chain can be long."""
    while isinstance(query, kind):
        yield query.right
        query = query.left
    yield query


def _field(term: Equal | Between) -> _Field:
    field = _FIELDS.get(term.field)
    if field is None:
        safe = shown(re.sub("[0-9]", "#", term.field))  # it may contain a card number
        text = f"orders are not searched by {safe}; the fields are {', '.join(_FIELDS)}"
        raise query_error(text, offset=term.offset)
    return field


def _ends(term: Equal | Between, field: _Field, value: str) -> tuple[Any, Any]:
    try:
        return field.ends(value)
    except ValueError as e:  # its message does not repeat the value
        raise query_error(f"the value of {term.field} is {e}", offset=term.offset) from None


def _within(field: _Field, first: Any, last: Any) -> ColumnElement[bool]:
    column, parts = field.column, list[ColumnElement[bool]]()
    if column.nullable:
        parts.append(column.is_not(None))
    if first is not None and first == last:
        parts.append(column == first)
    else:
        parts += [column >= first] if first is not None else []
        parts += [column <= last] if last is not None else []
    if field.made_by is not None:
        parts += [ORDERS.c.made_by.is_not(None), ORDERS.c.made_by == field.made_by]
    return and_(true(), *parts)


def _after(page: Page) -> tuple[int, str] | None:
    """Return the sort key after which the page begins; None: the page begins with the first order.

    Raises:
        FormatError: `search.paging`, the cursor's value is not a time.
    """
    if page.after is None:
        return None
    try:
        return to_microseconds(read_timestamp(str(page.after.value))), page.after.id.lower()
    except ValueError:
        raise FormatError("search.paging", "search_after is not from an answer") from None


def _shown_time(microseconds: int | None) -> str | None:
    return None if microseconds is None else write_timestamp(from_microseconds(microseconds))
