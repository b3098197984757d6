"""Pages, order and CSV rows of a search. Source: gateway document, section 4.3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tppkit.errors import FormatError
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, ReportRow, SearchRequest
from tppkit.protocol.gateway.orders import Order, Transaction
from tppkit.protocol.gateway.values import amount_with_decimals

MAX_SIMPLE_RESULTS = 10_000  # section 8
DEFAULT_SIZE, MAX_SIZE = 100, 1000  # assumption search-size
FIRST_PAGE = "-1"  # of search_after

_SORT = re.compile(r"([a-z_]+(?:\.[a-z_]+)*) (asc|desc)")


class Sort(NamedTuple):
    """An order of results.

    Attributes:
        field: what they are ordered by; the id decides between equals (assumption search-sort).
        descending: the largest first.
    """

    field: str
    descending: bool


DEFAULT_SORT = Sort("created", descending=True)


class Page(NamedTuple):
    """Which results are asked for.

    Attributes:
        sort: their order.
        size: how many at most.
        start: how many are skipped; 0 with a cursor.
        cursor: the value of `search_after`, or None for simple paging.
    """

    sort: Sort
    size: int
    start: int
    cursor: str | None


def page_of(request: SearchRequest) -> Page:
    """The page that a request asks for; simple paging ends after 10,000 results.

    Raises:
        FormatError: `search.paging`, `search.sort`.
    """
    size = DEFAULT_SIZE if request.size is None else request.size
    if request.start is not None and request.search_after is not None:
        raise FormatError("search.paging", "start and search_after are not combined")
    if size > MAX_SIZE:
        raise FormatError("search.paging", f"size is {size}, and at most {MAX_SIZE} results are given at a time")
    sort = DEFAULT_SORT if request.sort is None else _parse_sort(request.sort)
    if request.search_after is not None:
        return Page(sort, size, 0, request.search_after)
    start = request.start or 0
    return Page(sort, max(0, min(size, MAX_SIMPLE_RESULTS - start)), start, None)


def _parse_sort(text: str) -> Sort:
    found = _SORT.fullmatch(text)
    if found is None:
        raise FormatError("search.sort", "sort is not a field and asc or desc, such as `created asc`")
    return Sort(found[1], descending=found[2] == "desc")


def report_rows(order: Order) -> Iterator[ReportRow]:
    """The rows of an order in the CSV report: one for each transaction (assumptions csv-rows, csv-formulas)."""
    for transaction in order.transactions:
        amount = order.amount if transaction.amount is None else transaction.amount
        cells = {column: _cell(order, transaction, column) for column in CSV_COLUMNS}
        cells["amount"] = order.amount
        cells["transaction.amount_with_decimals"] = amount_with_decimals(amount, transaction.currency or order.currency)
        yield ReportRow.from_object(cells)


def _cell(order: Order, transaction: Transaction, column: str) -> Any:
    """What the column names, as an inert text; the document has no field of a transaction for fee and settlement."""
    found: Any = transaction if column.startswith("transaction.") else order
    for name in column.removeprefix("transaction.").split("."):
        found = getattr(found, name, None)
    return _inert(found) if isinstance(found, str) else None


def _inert(text: str) -> str:
    """The text with an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text
