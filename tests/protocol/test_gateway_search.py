"""Pages and CSV rows of a search."""

from __future__ import annotations

from typing import Any

import pytest

from tppkit.errors import FormatError
from tppkit.protocol.gateway import Customer, Order, PaymentMethodDetails
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, SearchRequest
from tppkit.protocol.gateway.endpoints import SEARCH_CSV
from tppkit.protocol.gateway.orders import Transaction
from tppkit.protocol.gateway.search import Page, Sort, page_of, report_rows

ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
CREATED = Sort("created", descending=True)


@pytest.mark.parametrize(
    ("fields", "page"),
    [
        ({}, Page(CREATED, 100, 0, None)), ({"size": 20, "start": 9990}, Page(CREATED, 10, 9990, None)),
        ({"size": 20, "start": 10_000}, Page(CREATED, 0, 10_000, None)), ({"start": 20_000}, Page(CREATED, 0, 20_000, None)),
        ({"sort": "customer.country asc", "search_after": "-1", "size": 5}, Page(Sort("customer.country", False), 5, 0, "-1")),
    ],
)  # fmt: skip
def test_the_page_that_a_request_asks_for(fields: dict[str, Any], page: Page) -> None:
    assert page_of(SearchRequest(query="*", **fields)) == page


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"start": 0, "search_after": "-1"}, "search.paging"), ({"size": 1001}, "search.paging"), ({"sort": "created"}, "search.sort"),
        ({"sort": "created up"}, "search.sort"), ({"sort": "created asc, id asc"}, "search.sort"),
        ({"sort": "created asc\n"}, "search.sort"),
    ],
)  # fmt: skip
def test_pages_that_are_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(FormatError) as refused:
        page_of(SearchRequest(query="*", **fields))
    assert refused.value.code == code


def order(**fields: Any) -> Order:
    details = PaymentMethodDetails(truncated_pan="411111******1111")
    attempt = Transaction(
        id=ID, status="accepted", payment_method="credit-card", payment_method_details=details, credit_debit="credit"
    )
    terms = {"id": ID, "status": "completed", "currency": "EUR", "amount": 1234, "transactions": (attempt,)}
    return Order(**(terms | fields))


def report(*orders: Order) -> list[str]:
    return b"".join(SEARCH_CSV.rows.chunks(row for one in orders for row in report_rows(one))).decode().splitlines()


def test_a_report_has_the_columns_of_the_document_in_their_order() -> None:
    head, row = report(order(merchant_order_id="4711", customer=Customer(merchant_customer_id="c-1"), project_id=ID))
    assert head.split(",") == list(CSV_COLUMNS)
    assert len(CSV_COLUMNS) == 22
    assert row == (
        f"{ID},4711,,,EUR,1234,completed,{ID},accepted,credit-card,,12.34,credit,,411111******1111,,,,,c-1,,{ID}"
    )


def test_a_report_has_a_row_for_each_transaction() -> None:
    attempts = order().transactions * 2
    assert len(report(order(transactions=attempts), order(transactions=()))) == 1 + 2


@pytest.mark.parametrize(("currency", "amount", "text"), [("JPY", 500, "500"), ("BHD", 1500, "1.500")])
def test_amounts_are_in_both_units(currency: str, amount: int, text: str) -> None:
    row = report(order(currency=currency, amount=amount))[1].split(",")
    assert (row[5], row[11]) == (str(amount), text)


@pytest.mark.parametrize("text", ["=cmd", "+1", "-1", "@sum", "\t=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    row = report(order(merchant_order_id=text, customer=Customer(merchant_customer_id=text)))[1].split(",")
    assert {row[1], row[19]} == {f"'{text}"}


def test_a_report_is_read_again() -> None:
    rows = list(report_rows(order(merchant_order_id='a,"b')))
    reader = SEARCH_CSV.rows.reader()
    assert reader.feed(b"".join(SEARCH_CSV.rows.chunks(rows))) == rows
    reader.end()
