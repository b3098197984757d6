"""Pages and CSV rows of a search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tppkit.errors import FormatError
from tppkit.protocol.gateway import Customer, Order, PaymentMethodDetails
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, ReportRow, SearchRequest
from tppkit.protocol.gateway.endpoints import SEARCH_CSV
from tppkit.protocol.gateway.orders import OrderTransaction
from tppkit.protocol.gateway.search import Page, Sort, page_of, read_cursor, report_rows, write_cursor

ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
CREATED = Sort("created", descending=True)


LAST = {"size": 100, "sort": CREATED}


@pytest.mark.parametrize(
    ("fields", "page"),
    [
        ({}, Page(CREATED, 100, 0, None)), ({"size": 20, "start": 9990}, Page(CREATED, 10, 9990, None)),
        ({"size": 20, "start": 10_000}, Page(CREATED, 0, 10_000, None)), ({"start": 10**30}, Page(CREATED, 0, 10_000, None)),
        ({"sort": "customer.country asc", "search_after": "-1", "size": 5}, Page(Sort("customer.country", False), 5, None, None)),
    ],
)  # fmt: skip
def test_the_page_that_a_request_asks_for(fields, page):
    assert page_of(SearchRequest(query="*", **fields)) == page


@pytest.mark.parametrize(
    ("fields", "page"),
    [
        ({}, Page(CREATED, 10_000, 0, None)), ({"start": 10}, Page(CREATED, 9990, 10, None)), ({"size": 5}, Page(CREATED, 5, 0, None)),
        ({"search_after": "-1"}, Page(CREATED, None, None, None)), ({"search_after": "-1", "size": 5}, Page(CREATED, 5, None, None)),
    ],
)  # fmt: skip
def test_a_report_without_size_has_every_result(fields, page):
    assert page_of(SearchRequest(query="*", **fields), report=True) == page


@pytest.mark.parametrize(
    "value", ["2026-01-01T00:00:00.000000+00:00", '"' * 1000, "\N{WAVE DASH}" * 1000, 0, 2**63 - 1, None]
)
def test_the_next_page_begins_behind_the_last_order(value):
    cursor = write_cursor(value, ID, **LAST)
    page = page_of(SearchRequest.from_wire(SearchRequest(query="*", search_after=cursor).to_wire()))
    assert page.after is not None
    assert (page.start, page.after.value, page.after.id) == (None, value, ID)


@pytest.mark.parametrize(
    "other", [{"size": 99}, {"size": None}, {"sort": Sort("created", False)}, {"sort": Sort("amount", True)}]
)
def test_size_and_sort_are_the_same_on_every_page(other):
    with pytest.raises(FormatError) as refused:
        read_cursor(write_cursor(1, ID, **LAST), **(LAST | other))
    assert refused.value.code == "search.paging"


CURSOR = {"value": 1, "id": ID, "size": 100, "sort": "created desc"}


@pytest.mark.parametrize(
    "text",
    ["0", "-1 ", "[]", "{}", "[" * 4096, "\ud800", *(json.dumps(CURSOR | change) for change in (
        {"value": 2**63}, {"value": True}, {"value": 1.5}, {"value": "a\0"}, {"value": []}, {"id": "x"}, {"id": 1}, {"size": "100"}))],
)  # fmt: skip
def test_only_cursors_of_answers_are_read(text):
    assert read_cursor(json.dumps(CURSOR), **LAST) is not None
    with pytest.raises(FormatError) as refused:
        read_cursor(text, **LAST)
    assert refused.value.code == "search.paging"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"start": 0, "search_after": "-1"}, "search.paging"), ({"size": 1001}, "search.paging"), ({"sort": "created"}, "search.sort"),
        ({"sort": "created up"}, "search.sort"), ({"sort": "created asc, id asc"}, "search.sort"),
        ({"sort": "created asc\n"}, "search.sort"),
    ],
)  # fmt: skip
def test_wrong_pages_are_refused(fields, code):
    for report in (False, True):
        with pytest.raises(FormatError) as refused:
            page_of(SearchRequest(query="*", **fields), report=report)
        assert refused.value.code == code


def test_the_size_of_a_page_is_not_repeated() -> None:  # logs would mask it as a card number
    with pytest.raises(FormatError, match="size is above 1000"):
        page_of(SearchRequest(query="*", size=10**25))


def order(**fields: Any) -> Order:
    details = PaymentMethodDetails(truncated_pan="411111******1111")
    attempt = OrderTransaction(
        id=ID, status="accepted", payment_method="credit-card", payment_method_details=details, credit_debit="credit"
    )
    terms = {"id": ID, "status": "completed", "currency": "EUR", "amount": 1234, "transactions": (attempt,)}
    return Order(**(terms | fields))


def rows(one: Order) -> Iterator[ReportRow]:
    shown = one.to_object()
    return report_rows(shown, shown["transactions"])


def report(*orders: Order) -> list[str]:
    return b"".join(SEARCH_CSV.rows.chunks(row for one in orders for row in rows(one))).decode().splitlines()


def test_a_report_has_the_columns_of_the_document_in_their_order():
    head, row = report(order(merchant_order_id="4711", customer=Customer(merchant_customer_id="c-1"), project_id=ID))
    assert head.split(",") == list(CSV_COLUMNS)
    assert len(CSV_COLUMNS) == 22
    assert row == (
        f"{ID},4711,,,EUR,1234,completed,{ID},accepted,credit-card,,12.34,credit,,411111******1111,,,,,c-1,,{ID}"
    )


def test_a_report_has_a_row_for_each_transaction():
    attempts = order().transactions * 2
    assert len(report(order(transactions=attempts), order(transactions=()))) == 1 + 2


@pytest.mark.parametrize(("currency", "amount", "text"), [("JPY", 500, "500"), ("BHD", 1500, "1.500")])
def test_amounts_are_in_both_units(currency, amount, text):
    row = report(order(currency=currency, amount=amount))[1].split(",")
    assert (row[5], row[11]) == (str(amount), text)


def test_a_report_is_read_again():
    sent = list(rows(order(merchant_order_id='a,"b')))
    reader = SEARCH_CSV.rows.reader()
    assert reader.feed(b"".join(SEARCH_CSV.rows.chunks(sent))) == sent
    reader.end()
