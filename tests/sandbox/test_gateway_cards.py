"""One-click payments, name inquiries, account funding, and card data that is not stored, over HTTPS."""

from __future__ import annotations

import json
from typing import Any

import pytest
from merchant import ASKED, BILLING, DECLINED, EXTERNAL, Merchant
from raw_provider import is_refused

FIRST = {"payment_method_details": {"one_click_type": "first"}}
NETWORK = {"recurring_type": "recurring", "first_network_transaction_id": "N-1", "schedule_type": "unscheduled"}
SERIES = {"payment_method_details": NETWORK}


def details(order: Any) -> Any:
    return order["transactions"][0]["payment_method_details"]


def status(order: Any) -> tuple[str, str]:
    return order["status"], order["transactions"][0]["status"]


def one_click(merchant: Merchant, amount: int = 500, **reference: Any) -> Any:
    """The answer to a later payment by one click."""
    given = {"one_click_type": "one-click", "cvc": merchant.cvc, **reference}
    transaction = {"payment_method": "credit-card", "payment_method_details": given}
    return merchant.send("POST", "/v1/orders/", {"currency": "EUR", "amount": amount, "transactions": [transaction]})


def aft(merchant: Merchant, **changes: Any) -> Any:
    """The answer to a new order that funds an account."""
    fields = {"receiver_account_number": merchant.cards.pan(), "receiver_account_number_type": "card-account"}
    transaction = {"payment_method": "credit-card", "payment_method_details": fields, **changes.pop("transaction", {})}
    body = {"currency": "USD", "amount": 900, "customer": {**BILLING, **changes}, "transactions": [transaction]}
    return merchant.send("POST", "/v1/orders/", body)


@pytest.mark.parametrize("reference", ["vault_token", "first_transaction_id"])
def test_a_first_payment_stores_the_card_for_later_ones(merchant, reference):
    first = merchant.own_checkout(transaction=FIRST)
    first_id, token = first["transactions"][0]["id"], details(first)["vault_token"]
    for _ in range(2):
        answer = one_click(merchant, **{reference: token if reference == "vault_token" else first_id.upper()})
        assert (answer.status_code, status(answer.json())) == (201, ("completed", "accepted"))
        assert "setup_token" not in details(answer.json())
        assert answer.json()["transactions"][0]["payment_url"]
    assert merchant.read(first) == first


def test_the_card_is_shown_on_the_completed_order_only(fresh_bank, make_merchant):
    merchant = make_merchant(fresh_bank, lag_seconds=600)
    order = merchant.card_order(transaction=FIRST)
    token = merchant.card(order)
    accepted = merchant.authenticate(order, token).json()
    assert (status(accepted), "vault_token" in details(accepted)) == (("processing", "accepted"), False)
    merchant.advance(600)
    assert details(merchant.read(order))["vault_token"] == token


@pytest.mark.parametrize(
    ("pan", "expected"), [("4012888888881881", ("00", "50")), ("4005519200000004", ("02", None)), (DECLINED, None)]
)
def test_the_card_decides_about_the_results_of_a_name_inquiry(merchant, pan, expected):
    found = details(merchant.own_checkout(0, pan=pan, transaction=FIRST, name="Ona Onaite")).get("ani_results")
    assert (found and (found["status"], found.get("match"))) == expected


@pytest.mark.parametrize(
    ("transaction", "pan"), [(None, None), (FIRST, DECLINED), (SERIES, None)], ids=["no-first", "declined", "series"]
)
def test_a_card_that_no_accepted_first_payment_stored_pays_no_one_click(merchant, transaction, pan):
    order = merchant.card_order(transaction=transaction)
    token = merchant.card(order, pan)
    merchant.authenticate(order, token)
    first_id = order["transactions"][0]["id"]
    for reference in ({"vault_token": token}, {"first_transaction_id": first_id}):
        assert is_refused(one_click(merchant, **reference), 400, "ONE_CLICK_INVALID")


def test_the_card_of_another_project_pays_nothing(bank, merchant, make_merchant):
    first, other = merchant.own_checkout(transaction=FIRST), make_merchant(bank)
    token = details(first)["vault_token"]
    assert is_refused(one_click(other, vault_token=token), 404, "NOT_FOUND")
    assert is_refused(one_click(other, first_transaction_id=first["transactions"][0]["id"]), 400, "ONE_CLICK_INVALID")
    assert is_refused(other.authenticate(other.card_order(), token), 404, "NOT_FOUND")


def stored_after_question(merchant: Merchant) -> str:
    """The vault token of a card whose customer the bank asks at each payment."""
    order = merchant.card_order(transaction=FIRST)
    merchant.authenticate(order, merchant.card(order, ASKED))
    return details(merchant.pay(order, outcome="approved"))["vault_token"]


def test_a_one_click_payment_is_authenticated_with_its_own_card_only(merchant):
    own, other = stored_after_question(merchant), details(merchant.own_checkout(transaction=FIRST))["vault_token"]
    waiting = one_click(merchant, vault_token=own).json()
    assert is_refused(merchant.authenticate(waiting, other, **EXTERNAL), 400, "ONE_CLICK_INVALID")
    assert status(merchant.authenticate(waiting, own.upper(), **EXTERNAL).json()) == ("completed", "accepted")


@pytest.mark.parametrize(
    ("choice", "expected"), [("approved", ("completed", "accepted")), ("declined", ("error", "declined"))]
)
def test_the_bank_may_ask_the_customer_of_a_one_click_payment(merchant, choice, expected):
    waiting = one_click(merchant, vault_token=stored_after_question(merchant)).json()
    assert (status(waiting), bool(waiting["transactions"][0]["payment_url"])) == (("processing", "new"), True)
    assert status(merchant.pay(waiting, outcome=choice)) == expected


def test_a_card_pays_a_first_time_again_and_both_first_payments_stay_usable(merchant):
    first = merchant.own_checkout(transaction=FIRST)
    again = merchant.authenticate(merchant.card_order(transaction=FIRST), details(first)["vault_token"]).json()
    for one in (first, again):
        assert one_click(merchant, first_transaction_id=one["transactions"][0]["id"]).status_code == 201


@pytest.mark.parametrize(
    "changes", [{"state": "PR"}, {"state": None}, {"city": None}, {"address_type": "shipping"}], ids=str
)
def test_account_funding_needs_the_whole_billing_address(bank, make_merchant, changes):
    assert is_refused(aft(make_merchant(bank, aft=True), **changes), 400, "AFT_INVALID")


def test_account_funding_shows_no_receiver_and_needs_an_enabled_account(bank, merchant, make_merchant):  # story 12
    made = aft(make_merchant(bank, aft=True))
    (transaction,) = made.json()["transactions"]
    assert (made.status_code, transaction["transaction_type"]) == (201, "aft")
    assert "receiver_account_number" not in transaction["payment_method_details"]
    assert is_refused(aft(merchant), 403, "AFT_NOT_ENABLED")


def test_cards_in_unread_fields_are_not_kept(merchant):
    pan, cvc = merchant.cards.pan(), merchant.cards.cvc()
    nested: dict[str, Any] = {"number": pan, "cvc": cvc, "card": {"pan": pan}}
    transaction = {
        "payment_method": "credit-card",
        **nested,
        "payment_method_details": {"number": pan, "vault": nested},
    }
    order = merchant.order(**nested, customer={"city": "Vilnius", **nested}, transactions=[transaction])
    paid = merchant.authenticate(order, merchant.card(order, **nested), **nested)
    assert (paid.status_code, paid.json()["customer"]) == (200, {"city": "Vilnius"})
    assert pan not in json.dumps(merchant.read(order))
