"""Searches of orders by plain requests: pages, CSV report, hostile queries, and the indexes that they use. Stories 17 and 18."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from merchant import DECLINED, Merchant
from raw_provider import is_refused
from sqlalchemy import Connection, Engine, create_engine, event

from tppkit.message import Message
from tppkit.protocol.gateway import CardSecret
from tppkit.protocol.gateway.bodies import CSV_COLUMNS, SearchRequest
from tppkit.protocol.gateway.card_data import truncate_pan
from tppkit.protocol.gateway.orders import OrderTerms
from tppkit.protocol.gateway.states import OrderStatus
from tppkit.protocol.wire import MAX_ARRAY_BYTES
from tppkit.sandbox.cell import HostCall
from tppkit.sandbox.gateway import search, tables
from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.projects import Project, Projects
from tppkit.sandbox.gateway.settings import GatewaySettings
from tppkit.sandbox.outgoing_http import Receivers

pytestmark = pytest.mark.slow

SEARCH = "/v1/search/orders/"
MANY = """WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
    INSERT INTO gateway_orders (id, project_id, status, terms, currency, amount, is_test, own_checkout, page_token, created_at, modified_at)
    SELECT printf('%s%05d', substr(:project, 1, 31), n), :project, 'expired', CAST('{"currency":"EUR","amount":1}' AS BLOB), 'EUR', 1, 0, 0,
    hex(randomblob(16)), 1767225600000000 + n / 2, 1767225600000000 FROM numbers"""
ANOTHER_ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"


def ids(merchant: Merchant, query: str, **fields: Any) -> list[str]:
    """Of the orders of one page."""
    return [order["id"] for order in merchant.post(SEARCH, {"query": query, **fields})["orders"]]


def all_ids(merchant: Merchant, **fields: Any) -> list[str]:
    """Of the orders of all pages."""
    found, cursor = list[str](), "-1"
    while cursor:
        page = merchant.post(SEARCH, {"query": "*", "search_after": cursor, **fields})
        found += [order["id"] for order in page["orders"]]
        cursor = page.get("search_after")
    return found


def report(merchant: Merchant, **fields: Any) -> httpx.Response:
    answer = merchant.send("POST", SEARCH + "?format=csv", {"query": "*", **fields})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv")
    return answer


def cursor(value: Any, sort: str = "created desc") -> str:
    return json.dumps({"value": value, "id": ANOTHER_ID, "size": 100, "sort": sort})


def rows(merchant: Merchant, **fields: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(report(merchant, **fields).text, newline="")))


def change(merchant: Merchant, statement: str, parameters: Any) -> None:
    with closing(sqlite3.connect(merchant.bank.settings.directory / "sandbox.sqlite")) as database, database:
        database.execute(statement, parameters)


def fill(merchant: Merchant, count: int) -> None:
    """Give a merchant so many orders, two at each time."""
    change(merchant, MANY, {"project": merchant.project_id, "count": count})


def test_a_page_has_whole_orders_with_their_attempts_and_links(merchant):
    merchant.order()
    held = merchant.own_checkout(transaction={"capture_mode": "manual"})
    assert merchant.act(held, "captures/").status_code == 201
    found = merchant.post(SEARCH, {"query": "status:completed", "sort": "created asc"})
    assert found == {"orders": [merchant.read(order) for order in found["orders"]]}
    original, made = found["orders"]
    assert (original["id"], made["capture_of_order_id"]) == (held["id"], held["id"])


def test_an_order_is_found_by_each_of_its_fields(merchant):
    terms = {"merchant_order_id": 'a "b" \\ *', "customer": {"merchant_customer_id": "c-1"}}
    merchant.order(1, currency="JPY", merchant_order_id="a")
    held = merchant.own_checkout(1234, transaction={"capture_mode": "manual"}, **terms)
    merchant.act(held, "captures/")
    (made,) = [one for one in merchant.post(SEARCH, {"query": "*"})["orders"] if "capture_of_order_id" in one]
    day, time, others = held["created"][:10], held["completed"], f" AND NOT id:{made['id']}"
    for query in (
        f"id:{held['id'].upper()}", 'merchant_order_id:"a \\"b\\" \\\\ *" AND NOT related_order_id:[* TO *]',
        f"customer.merchant_customer_id:c-1 AND amount:1234{others}", f"created:{day} AND amount:[2 TO *]{others}",
        f"completed:[{time} TO {time}] AND created:[{day} TO {day}]{others}",
        f"NOT (currency:JPY OR capture_of_order_id:{held['id']} OR capture_of_order_id:{ANOTHER_ID})",
    ):  # fmt: skip
        assert ids(merchant, query) == [held["id"]], query
    for query in (f"capture_of_order_id:{held['id']}", f"related_order_id:{held['id'].upper()}"):
        assert ids(merchant, query) == [made["id"]], query
    for query in (
        "amount:[1235 TO *]",
        f"refund_of_order_id:{held['id']}",
        "created:[* TO 2020-01-01]",
        "status:NEW",
        "NOT *",
    ):
        assert ids(merchant, query) == [], query


def test_not_finds_orders_without_the_field(merchant):
    order = merchant.order()
    for query in ("NOT merchant_order_id:a", "NOT completed:[2020-01-01 TO *]", f"NOT refund_of_order_id:{ANOTHER_ID}"):
        assert ids(merchant, query) == [order["id"]], query


@pytest.mark.parametrize(
    ("first", "last"), [("2026-03-01", "2026-03-01"), ("2026-03-01T00:00:00Z", "2026-03-02T01:59:59.999999+02:00")]
)
def test_a_date_is_the_whole_day_in_utc(merchant, first, last):
    order = merchant.order()["id"]
    begin = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * 1_000_000
    end = begin + 86_400_000_000
    for at in (begin - 1, begin, end - 1, end):
        change(merchant, "UPDATE gateway_orders SET created_at = ? WHERE id = ?", (at, order))
        assert (ids(merchant, f"created:[{first} TO {last}]") == [order]) is (begin <= at < end)


def test_simple_paging_ends_after_10000_results_and_the_cursor_continues(timed_merchant):  # story 17
    merchant = timed_merchant  # whose sandbox has no other orders, since all are checked after each test
    fill(merchant, 10_005)
    sorted_ = {"query": "*", "sort": "created asc", "size": 20}
    page = merchant.post(SEARCH, {**sorted_, "start": 9990})
    assert [order["id"][-5:] for order in page["orders"]] == [f"{n:05}" for n in range(9991, 10001)]
    assert merchant.post(SEARCH, {"query": "*", "start": 10_000}) == {"orders": []}
    rest = merchant.post(SEARCH, {**sorted_, "search_after": page["search_after"]})
    assert [order["id"][-5:] for order in rest["orders"]] == [f"{n:05}" for n in range(10001, 10006)]
    assert "search_after" not in rest


def test_a_page_of_large_orders_ends_early_and_the_cursor_continues(merchant):
    made = [merchant.order(extra={"x": ["y" * 15_000]})["id"] for _ in range(150)]
    page = merchant.send("POST", SEARCH, {"query": "*", "sort": "created asc", "size": 200})
    assert len(page.content) < MAX_ARRAY_BYTES // 2 + 1000
    assert 100 < len(page.json()["orders"]) < 150
    assert all_ids(merchant, size=200, sort="created asc") == made


@pytest.mark.parametrize("sort", ["created asc", "created desc", "modified asc", "modified desc"])
def test_search_after_shows_every_order_once_also_of_equal_times(merchant, sort):
    fill(merchant, 20)
    found = all_ids(merchant, size=5, sort=sort)
    assert (len(set(found)), found) == (20, sorted(found, reverse=sort.endswith("desc")))


def test_a_changed_cursor_and_a_start_beside_it_are_refused(merchant):
    for _ in range(3):
        merchant.order()
    cursor = merchant.post(SEARCH, {"query": "*", "search_after": "-1", "size": 2})["search_after"]
    for fields in (
        {"start": 0},
        {"search_after": cursor.replace("20", "ab", 1)},
        {"size": 3},
        {"sort": "created asc"},
    ):  # story 17
        answer = merchant.send("POST", SEARCH, {"query": "*", "search_after": cursor, "size": 2, **fields})
        assert is_refused(answer, 400, "SEARCH_INVALID"), fields
    assert len(ids(merchant, "*", search_after=cursor, size=2)) == 1


def test_a_report_has_a_row_for_each_transaction_and_raw_cells(merchant):  # story 18
    formulas = {"merchant_order_id": "=cmd", "customer": {"merchant_customer_id": "@c"}}
    for currency, amount in (("JPY", 500), ("EUR", 1234), ("BHD", 1500)):
        merchant.own_checkout(amount, currency=currency, **formulas)
    twice = merchant.order(merchant_order_id='a,"b"\nc')
    merchant.pay(twice, card=DECLINED)
    merchant.pay(twice, card=merchant.pan)
    merchant.order()
    found = rows(merchant, sort="created asc")
    assert list(found[0]) == list(CSV_COLUMNS)
    assert [row["transaction.amount_with_decimals"] for row in found] == ["500", "12.34", "1.500", "10.00", "10.00"]
    assert [row["transaction.status"] for row in found] == ["accepted"] * 3 + ["declined", "accepted"]
    cells = {(row["merchant_order_id"], row["customer.merchant_customer_id"]) for row in found[:3]}
    assert cells == {("=cmd", "@c")}
    assert [(row["id"], row["merchant_order_id"]) for row in found[3:]] == [(twice["id"], 'a,"b"\nc')] * 2
    assert found[0]["transaction.payment_method_details.truncated_pan"] == truncate_pan(CardSecret(merchant.pan))
    raw = report(merchant).content
    assert (raw[:3], raw[-2:]) == (b"id,", b"\r\n")


def test_a_report_pages_by_orders_and_a_refund_names_its_transaction(merchant):
    paid = merchant.own_checkout()
    merchant.control(f"/gateway/orders/{paid['id']}/refund", {"amount": 400})
    first, second = rows(merchant, sort="created asc")
    assert rows(merchant, sort="created asc", size=1) == [first]
    assert rows(merchant, sort="created asc", start=1) == [second]
    assert rows(merchant, query="status:new") == []
    linked = (second["transaction.refund_of_transaction_id"], second["transaction.credit_debit"])
    assert linked == (first["transaction.id"], "debit")


def test_nothing_of_another_project_is_found(bank, make_merchant):
    mine, other = make_merchant(bank), make_merchant(bank)
    paid = mine.own_checkout(merchant_order_id="A-1")
    mine.order()
    cursor = mine.post(SEARCH, {"query": "*", "search_after": "-1", "size": 1})["search_after"]
    for query in (
        "*",
        "NOT status:new",
        f"id:{paid['id']} OR merchant_order_id:A-1",
        "NOT (amount:1 AND amount:2) OR *",
    ):
        assert ids(other, query) == []
        assert ids(other, query, search_after=cursor, size=1) == []
        assert rows(other, query=query) == []


@pytest.mark.parametrize(
    "query",
    [
        "'; DROP TABLE gateway_orders; --", "id:x' OR '1'='1", "password:1", "terms:x", "customer.email_address:a", "status:", "status",
        "amount:-1", "amount:1.5", "amount:9223372036854775808", f"amount:{'9' * 4000}", "amount:١", "amount:[x TO 2]", "created:yesterday",
        "created:2026-02-30", "created:[2026-01-01 TO 2026-13-01]", "created:10000-01-01", "status:[a TO b]", 'merchant_order_id:["" TO *]',
        "(" * 4000, "NOT " * 1000 + "*", " AND ".join(["*"] * 101), "status:a\x00b", "status:\ud800", "status:[a", 'status:"a', "*" * 4097,
        "",
    ],
)  # fmt: skip
def test_a_hostile_query_is_refused(merchant, query):
    for target in (SEARCH, SEARCH + "?format=csv"):
        answer = merchant.send("POST", target, {"query": query})
        code = "SEARCH_INVALID" if 0 < len(query) <= 4096 and query != "status:\ud800" else "FORMAT_ERROR"
        assert is_refused(answer, 400, code), answer.text
        assert len(answer.text) < 600
        assert "***" not in answer.text  # of the filter for secrets


@pytest.mark.parametrize(
    ("query", "character"),
    [("* AND password:1", 7), ("(amount:x)", 2), ("* OR created:[* TO 2026-02-30]", 6), ("  status:[a TO b]", 3)],
)
def test_a_refusal_names_the_character_where_the_term_begins(merchant, query, character):
    answer = merchant.send("POST", SEARCH, {"query": query})
    assert is_refused(answer, 400, "SEARCH_INVALID")
    assert answer.json()["error"]["message"].startswith(f"the query at character {character}: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"sort": "amount asc"}, {"sort": "project_id asc"}, {"sort": "created; DROP"}, {"size": 1001}, {"search_after": "x"},
        {"search_after": cursor("x")}, {"search_after": cursor(1)}, {"search_after": cursor(None)},
    ],
)  # fmt: skip
def test_a_page_that_does_not_exist_is_refused(merchant, fields):
    assert is_refused(merchant.send("POST", SEARCH, {"query": "*", **fields}), 400, "SEARCH_INVALID")


def test_a_card_number_in_a_query_is_not_repeated(merchant):
    for query in ("F{}:1", "status:[{} TO *]", "created:{}", "amount:{}x", "status:x {}"):
        answer = merchant.send("POST", SEARCH, {"query": query.format(merchant.pan)})
        assert is_refused(answer, 400, "SEARCH_INVALID")
        assert merchant.pan not in answer.text


def test_the_largest_query_is_answered(merchant):
    order = merchant.order()
    nested = "NOT (" * 5 + "amount:1" + ")" * 5
    for query in (" OR ".join(["amount:1"] * 99 + ["*"]), " AND ".join(["NOT amount:1"] * 100), nested):
        assert ids(merchant, query) == [order["id"]]


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    url = "sqlite://"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    tables.TABLES.create_all(engine)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    terms = OrderTerms(currency="EUR", amount=1)
    with engine.begin() as db:
        for number in range(500):
            given = terms.model_copy(update={"merchant_order_id": f"{number}"})
            tables.add_order(
                db,
                tables.StoredOrder(
                    id=str(UUID(int=number)), project_id="p", status=OrderStatus.NEW, terms=given, is_test=True, own_checkout=False,
                    page_token=f"{number}", created_at=at, modified_at=at,
                ),
            )  # fmt: skip
        db.exec_driver_sql("ANALYZE" if request.param == "postgresql" else "SELECT 1")
    yield engine
    tables.TABLES.drop_all(engine)
    engine.dispose()


def plan(db: Connection, folder: Path, **fields: Any) -> str:
    """How the database finds the orders of a page."""
    statements: list[tuple[str, Any]] = []
    event.listen(db, "before_cursor_execute", lambda *args: statements.append(args[2:4]))
    body, projects, at = SearchRequest(**fields), Projects(folder), datetime(2026, 6, 1, tzinfo=UTC)
    projects.keep(Project(id="p", key_hash=b"", created_at=at))
    settings = GatewaySettings(
        projects, CardCipher(bytes(32), source="test"), lambda: "", "http://localhost", Receivers()
    )
    call = HostCall("p", at, {}, {}, Message("POST", SEARCH), body, db, settings, lambda: "")
    search.search(call)
    sqlite = db.dialect.name == "sqlite"
    for setting in () if sqlite else ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
        db.exec_driver_sql(f"SET LOCAL {setting} = off")  # the table is small, where an index costs more
    explain = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN (COSTS OFF) "
    return "\n".join(str(row[-1]) for row in db.exec_driver_sql(explain + statements[0][0], statements[0][1]))


@pytest.mark.parametrize(
    ("fields", "index"),
    [
        ({"query": "*"}, "gateway_orders_by_time"), ({"query": "status:completed"}, "gateway_orders_by_time"),
        ({"query": "merchant_order_id:4711"}, "gateway_orders_by_reference"),
        ({"query": "created:[2026-01-01 TO 2026-01-31]"}, "gateway_orders_by_time"),
        ({"query": "*", "search_after": cursor("2026-01-01")}, "gateway_orders_by_time"),
        ({"query": "*", "search_after": cursor("2026-01-01", "modified asc"), "sort": "modified asc"}, "gateway_orders_by_change"),
    ],
)  # fmt: skip
def test_pages_are_read_in_the_order_of_an_index(engine, tmp_path, fields, index):
    with engine.connect() as db:
        found = plan(db, tmp_path, **fields)
    assert index in found
    assert not {"TEMP B-TREE", "Sort"} & set(re.findall("TEMP B-TREE|Sort", found))
    if "search_after" in fields:
        assert re.search(r"_at,id\)[<>]\(|Index Cond: .*ROW\(", found)
