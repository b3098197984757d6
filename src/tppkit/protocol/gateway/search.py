"""Pages, order and CSV rows of a search. Source: gateway document, section 4.3."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from tppkit.errors import FormatError
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, ReportRow, SearchRequest
from tppkit.protocol.gateway.values import Amount, GatewayModel, Text, Uuid, amount_with_decimals

MAX_SIMPLE_RESULTS = 10_000  # section 8
DEFAULT_SIZE, MAX_SIZE = 100, 1000  # assumption search-size
FIRST_PAGE = "-1"  # of search_after

_PREFIX = "transaction."
_ORDER_CELLS = [(column, column.split(".")) for column in CSV_COLUMNS if not column.startswith(_PREFIX)]
_TRANSACTION_CELLS = [(column, column.split(".")[1:]) for column in CSV_COLUMNS if column.startswith(_PREFIX)]
_SORT = re.compile(r"([a-z_]+(?:\.[a-z_]+)*) (asc|desc)")


class Sort(NamedTuple):
    """An order of results.

    Attributes:
        field: what they are ordered by; the id decides between equals (assumption search-sort).
        descending: the largest first.
    """

    field: str
    descending: bool

    @property
    def text(self) -> str:
        """The value of `sort`, for example `created asc`."""
        return f"{self.field} {'desc' if self.descending else 'asc'}"


DEFAULT_SORT = Sort("created", descending=True)


class Cursor(GatewayModel):
    """The last order of a page; the next page begins after it (assumption search-cursor).

    Attributes:
        value: what the order is sorted by; it comes from the caller, and its type may be another than the field's.
        id: the id of the order.
        size: of the page.
        sort: of the page.
    """

    value: Text | Amount | None = Field(default=None, repr=False)
    id: Uuid
    size: int | None = None
    sort: str


def write_cursor(value: str | int | None, order_id: str, *, size: int | None, sort: Sort) -> str:
    """The `search_after` of an answer, by what its last order is sorted by."""
    return Cursor(value=value, id=order_id, size=size, sort=sort.text).to_wire().decode()


def read_cursor(text: str, *, size: int | None, sort: Sort) -> Cursor | None:
    """Return the order after which a page begins, or None for the first page.

    Raises:
        FormatError: `search.paging`, also if size or sort are not those of the previous request.
    """
    if text == FIRST_PAGE:
        return None
    try:
        cursor = Cursor.from_wire(text.encode())
    except (FormatError, UnicodeError):
        raise FormatError("search.paging", f"search_after is neither {FIRST_PAGE} nor from an answer") from None
    if (cursor.size, cursor.sort) != (size, sort.text):
        raise FormatError("search.paging", "size and sort are the same in every request of a search")
    return cursor


class Page(NamedTuple):
    """Which results are asked for.

    Attributes:
        sort: their order.
        size: how many at most; None for all.
        start: how many are skipped in simple paging; None with `search_after`.
        after: the order after which they begin; None: from the first one.
    """

    sort: Sort
    size: int | None
    start: int | None
    after: Cursor | None


def page_of(request: SearchRequest, *, report: bool = False) -> Page:
    """The page that a request asks for; simple paging ends after 10,000 results.

    Args:
        request: the body.
        report: the answer is a CSV report, which has all results unless the request has a size (assumption csv-size).

    Raises:
        FormatError: `search.paging`, `search.sort`.
    """
    size = request.size if request.size is not None or report else DEFAULT_SIZE
    if request.start is not None and request.search_after is not None:
        raise FormatError("search.paging", "start and search_after are not combined")
    if size is not None and size > MAX_SIZE:
        raise FormatError("search.paging", f"size is above {MAX_SIZE}, the most results that are given at a time")
    sort = DEFAULT_SORT if request.sort is None else _parse_sort(request.sort)
    if request.search_after is not None:
        return Page(sort, size, None, read_cursor(request.search_after, size=size, sort=sort))
    start = min(request.start or 0, MAX_SIMPLE_RESULTS)
    left = MAX_SIMPLE_RESULTS - start
    return Page(sort, left if size is None else min(size, left), start, None)


def _parse_sort(text: str) -> Sort:
    found = _SORT.fullmatch(text)
    if found is None:
        raise FormatError("search.sort", "sort is not a field and asc or desc, such as `created asc`")
    return Sort(found[1], descending=found[2] == "desc")


def report_rows(order: Mapping[str, Any], transactions: Iterable[Mapping[str, Any]]) -> Iterator[ReportRow]:
    """The rows of an order in the CSV report: one for each transaction (assumption csv-rows).

    Args:
        order: the JSON object of the order, or those of its fields that the report has.
        transactions: the JSON objects of its transactions.
    """
    cells = {column: _cell(order, path) for column, path in _ORDER_CELLS} | {"amount": order["amount"]}
    for transaction in transactions:
        amount = transaction.get("amount", order["amount"])
        decimal = amount_with_decimals(amount, transaction.get("currency", order["currency"]))
        own = {column: _cell(transaction, path) for column, path in _TRANSACTION_CELLS}
        yield ReportRow.from_object(cells | own | {"transaction.amount_with_decimals": decimal})


def _cell(value: Any, path: Iterable[str]) -> str | None:
    """The text at a place; the document has no field of a transaction for fee and settlement."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
