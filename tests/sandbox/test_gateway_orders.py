"""Orders, the vault and payments of the gateway by plain requests."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from merchant import ASKED, DECLINED
from raw_provider import control, is_refused

from tppkit.cli.sandbox_lines import order_line

MINUTE, HOUR, DAY = 60, 3600, 86400


def status(order: Any) -> tuple[str, str]:
    """Of an order and of its last transaction."""
    return order["status"], order["transactions"][-1]["status"]


def test_an_own_checkout_takes_three_requests(merchant):
    terms = {"merchant_order_id": "A-1", "description": "Order A-1", "extra": {"basket": [1, {"x": None}]}}
    order = merchant.card_order(1250, **terms)
    assert status(order) == ("new", "new")
    paid = merchant.authenticate(order, merchant.card(order, name="Ona Onaite")).json()
    assert merchant.read(order) == paid
    assert (paid["status"], paid["amount"], paid["currency"], paid["flags"]) == ("completed", 1250, "EUR", ["is-test"])
    assert {name: paid[name] for name in terms} == terms
    assert paid["created"] <= paid["completed"] == paid["modified"]
    assert "redirect_url" not in paid
    (transaction,) = paid["transactions"]
    number = f"{merchant.pan[:6]}******{merchant.pan[-4:]}"
    assert (transaction["id"], transaction["order_id"]) == (order["transactions"][0]["id"], order["id"])
    assert transaction["payment_method_brand"] == "visa"
    assert [one["event"] for one in transaction["events"]] == ["new", "accepted"]
    assert transaction["outcomes"]["processing"]["response_code"] == "00"
    details = transaction["payment_method_details"]
    assert (details["truncated_pan"], details["cardholder_name"]) == (number, "Ona Onaite")
    assert {"approval_code", "network_transaction_id"} <= details.keys()
    assert "vault_token" not in details


def test_payment_methods_are_those_of_the_page_and_not_of_the_transaction(merchant):
    paid = merchant.own_checkout(payment_methods=["bank-transfer"])
    assert (status(paid), paid["payment_methods"]) == (("completed", "accepted"), ["bank-transfer"])


def test_a_declined_card_ends_an_own_checkout_with_an_error(merchant):
    paid = merchant.own_checkout(pan=DECLINED)
    assert (status(paid), "completed" in paid) == (("error", "declined"), False)
    assert paid["transactions"][0]["outcomes"]["processing"]["response_code"] == "05"
    assert is_refused(merchant.authenticate(paid, merchant.card(merchant.card_order())), 409, "STATUS_INVALID")


def test_a_customer_who_is_asked_to_authenticate_decides(merchant):
    for outcome, expected in (("approved", ("completed", "accepted")), ("declined", ("error", "declined"))):
        asked = merchant.own_checkout(pan=ASKED)
        assert status(asked) == ("processing", "new")
        assert asked["redirect_url"] == asked["transactions"][0]["payment_url"]
        assert status(merchant.pay(asked, outcome=outcome)) == expected


def test_an_attempt_that_changes_no_status_is_a_modification_too(merchant):
    order = merchant.order()
    tried = merchant.pay(order, outcome="declined")
    assert merchant.pay(order, outcome="declined")["modified"] > tried["modified"]
    assert merchant.pay(order, outcome="cancelled")["status"] == "cancelled"
    order = merchant.card_order()
    token = merchant.card(order, ASKED)
    asked = merchant.authenticate(order, token).json()
    assert merchant.authenticate(order, token).json()["modified"] > asked["modified"]


def test_an_expired_card_is_refused_on_the_hosted_page_too(merchant):
    order, card = merchant.order(), {"card": merchant.pan, "expiry": "012020"}
    answer = merchant.cards.keep(control(merchant.bank, f"/gateway/orders/{order['id']}/pay", card))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "card.expired")
    assert merchant.read(order) == order


def test_an_order_of_one_project_does_not_reach_a_transaction_of_another(bank, make_merchant):
    mine, other = make_merchant(bank), make_merchant(bank)
    held = mine.own_checkout(transaction={"capture_mode": "manual"})
    token, before = mine.card(mine.card_order()), mine.read(held)
    crossed = {"id": other.card_order()["id"], "transactions": held["transactions"]}
    for path, body in {
        "captures/": None, "captures/amount/": {"amount": 1, "description": "x"}, "voids/": None, "voids/amount/": {"amount": 1},
        "initiate/": {"vault_token": token}, "authenticate/": {"vault_token": token, "cvc": mine.cvc},
    }.items():  # fmt: skip
        assert is_refused(other.act(crossed, path, body), 404, "NOT_FOUND"), path
    assert mine.read(held) == before


def test_a_refused_card_does_not_use_the_setup_token_up(merchant):
    order = merchant.card_order()
    for pan in ("1" * 11, "1" * 20, "4111 1111 1111 1111", "4111111111111111\n", "４" * 13):
        assert is_refused(merchant.store(order, pan), 400, "FORMAT_ERROR")
    assert is_refused(merchant.store(order, expiry="012020"), 400, "CARD_INVALID")
    merchant.card(order)
    assert is_refused(merchant.store(order), 400, "SETUP_TOKEN_INVALID")


@pytest.mark.parametrize("mode", [None, "manual", "delayed"])
def test_only_a_manual_amount_is_capturable(mode, merchant):
    (paid,) = merchant.own_checkout(transaction={"capture_mode": mode} if mode else {})["transactions"]
    assert (paid["status"], paid["is_capturable"]) == ("accepted", mode == "manual")


def test_an_attempt_ends_its_own_checkout_after_30_minutes_or_its_period(timed_merchant):
    usual = timed_merchant.card_order()
    longer = timed_merchant.card_order(transaction={"expiration_period": "PT2H"})
    held = timed_merchant.card_order(transaction={"expiration_period": "PT2H", "capture_mode": "manual"})
    token = timed_merchant.card(usual)
    timed_merchant.advance(29 * MINUTE)
    assert {status(timed_merchant.read(one)) for one in (usual, longer, held)} == {("new", "new")}
    timed_merchant.advance(MINUTE)
    for order in (usual, held):
        assert status(timed_merchant.read(order)) == ("expired", "declined")
        assert is_refused(timed_merchant.authenticate(order, token), 409, "STATUS_INVALID")
    assert status(timed_merchant.read(longer)) == ("new", "new")
    timed_merchant.advance(90 * MINUTE)
    assert status(timed_merchant.read(longer)) == ("expired", "declined")


def test_an_own_checkout_whose_only_attempt_ends_before_it_is_an_error(timed_merchant):
    order = timed_merchant.card_order(expiration_period="P1D")
    timed_merchant.advance(30 * MINUTE)
    assert status(timed_merchant.read(order)) == ("error", "declined")


def test_an_order_on_the_hosted_page_ends_after_a_day_or_its_period(timed_merchant):
    usual, tried = timed_merchant.order(), timed_merchant.order()
    shorter = timed_merchant.order(expiration_period="PT1H")
    timed_merchant.pay(tried, outcome="declined")
    timed_merchant.advance(HOUR)
    assert timed_merchant.read(shorter)["status"] == "expired"
    assert timed_merchant.read(usual)["status"] == "new"
    timed_merchant.advance(DAY - HOUR)
    assert timed_merchant.read(usual)["status"] == "expired"
    assert status(timed_merchant.read(tried)) == ("expired", "declined")


def test_an_order_follows_its_transaction_after_the_lag_of_the_project(fresh_bank, make_merchant):
    merchant = make_merchant(fresh_bank, lag_seconds=45 * MINUTE)
    orders = {pan: merchant.own_checkout(pan=pan) for pan in (None, DECLINED)}
    assert status(orders[None]) == ("processing", "accepted")
    assert status(orders[DECLINED]) == ("processing", "declined")
    cancelled = control(fresh_bank, f"/gateway/orders/{orders[None]['id']}/pay", {"outcome": "cancelled"})
    assert cancelled.status_code == 400
    merchant.advance(44 * MINUTE)  # the clock goes on meanwhile
    assert {merchant.read(order)["status"] for order in orders.values()} == {"processing"}
    merchant.advance(MINUTE)
    assert [merchant.read(order)["status"] for order in orders.values()] == ["completed", "error"]


def test_the_line_that_the_sandbox_prints_creates_an_order(bank):
    done = subprocess.run(["sh", "-c", order_line(bank)], capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["status"] == "new"
