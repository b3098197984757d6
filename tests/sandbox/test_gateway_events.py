"""Timed changes at the gateway, each at its own time; and the limits of an order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from raw_provider import control

from tppkit.sandbox.gateway.bounds import MAX_LISTED, MAX_TERMS_BYTES

pytestmark = pytest.mark.slow

DAY_S = 86_400


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_in_one_step_of_the_clock_each_event_happens_at_its_own_time(timed_merchant):
    shop = timed_merchant
    periods, delayed = {"PT3H": 3, "PT1H": 1, "PT2H": 2}, {"capture_mode": "delayed"}
    held = [shop.own_checkout(transaction={**delayed, "expiration_period": period}) for period in periods]
    hosted = shop.order(expiration_period="PT90M")
    shop.advance(DAY_S)
    assert at(shop.read(hosted)["modified"]) - at(hosted["created"]) == timedelta(minutes=90)
    for order, hours in zip(held, periods.values(), strict=True):
        now = shop.read(order)
        captured = shop.read({"id": now["related_orders"][0]})
        due = at(order["transactions"][0]["events"][-1]["occurred"]) + timedelta(hours=hours)
        assert at(captured["created"]) == at(captured["completed"]) == at(now["modified"]) == due


@pytest.mark.parametrize(
    ("table", "path", "shown", "name"),
    [
        ("gateway_orders", "/v1/orders/", "/v1/orders/", "order"),
        ("gateway_links", "/sandbox/v1/paymentlinks/", "/v1/paymentlinks/", "payment link"),
    ],
)
def test_a_broken_order_or_link_delays_no_other(table, path, shown, name, open_bank, make_merchant):
    terms = {"currency": "EUR", "amount": 100, "merchant_order_id": "L"}
    with open_bank(checked=False) as server:
        shop = make_merchant(server)
        broken, whole = (shop.post(path, terms) for _ in range(2))
        with closing(sqlite3.connect(server.settings.directory / "sandbox.sqlite")) as database, database:
            database.execute(f"UPDATE {table} SET terms = '{{}}' WHERE id = ?", [broken["id"]])
        shop.advance(31 * DAY_S)
        assert shop.send("GET", f"{shown}{whole['id']}/").json()["status"] == "expired"
        found = httpx.get(server.addresses.control_url + "/ledger/check", trust_env=False, timeout=10).json()
        assert found["differences"] == [f"{name} {broken['id']}: it is new forever"]


def refused(answer: httpx.Response) -> Any:
    return answer.json()["error"]["code"] if answer.is_error else None


def test_an_order_has_a_bounded_number_of_attempts(merchant):
    order = merchant.order()
    for _ in range(MAX_LISTED):
        merchant.pay(order, outcome="declined")
    answer = control(merchant.bank, f"/gateway/orders/{order['id']}/pay", {"outcome": "approved"})
    assert refused(answer) == "order.too-many"


def test_an_order_has_a_bounded_number_of_refunds(merchant):
    order = merchant.own_checkout()
    target = f"/sandbox/v1/orders/{order['id']}/refunds/"
    answers = [merchant.send("POST", target, {"amount": 1}) for _ in range(MAX_LISTED + 1)]
    assert [refused(answer) for answer in answers] == [None] * MAX_LISTED + ["STATUS_INVALID"]


def test_an_amount_can_be_captured_after_a_bounded_number_of_partial_voids(merchant):
    order = merchant.own_checkout(transaction={"capture_mode": "manual"})
    answers = [merchant.act(order, "voids/amount/", {"amount": 1}) for _ in range(MAX_LISTED + 1)]
    assert [refused(answer) for answer in answers] == [None] * MAX_LISTED + ["STATUS_INVALID"]
    assert merchant.act(order, "captures/").json()["amount"] == 1000 - MAX_LISTED


def test_an_order_that_is_too_long_as_it_would_be_stored_is_refused(merchant):
    numbers = "1e15," * (MAX_TERMS_BYTES // 12)  # written with all their digits
    body = b'{"currency": "EUR", "amount": 1, "extra": {"n": [%s0]}}' % numbers.encode()
    answer = merchant.http.post("/v1/orders/", content=body, headers={"Content-Type": "application/json"})
    assert len(body) < MAX_TERMS_BYTES
    assert (answer.status_code, refused(answer)) == (413, "FORMAT_ERROR")
