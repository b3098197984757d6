"""A developer's actions on the bank and its payments through the control host."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import pytest
from raw_provider import PAYMENT, advance, control

from tppkit.sandbox import SandboxServer

pytestmark = pytest.mark.slow

ONA, JONAS = "customer-1", "customer-2"
DAILY, SMALL = "LT029999900000000001", "LT189999900000000004"


def get(server: SandboxServer, path: str) -> Any:
    return httpx.get(server.addresses.control_url + path, trust_env=False, timeout=30).json()


def code(response: httpx.Response) -> str:
    assert 400 <= response.status_code < 500
    return str(response.json()["error"]["code"])


def act(server: SandboxServer, payment: dict[str, Any], action: str, body: Any = None) -> httpx.Response:
    return control(server, f"/payments/{payment['paymentId']}/{action}", body)


def test_customers_are_listed_with_the_accounts_that_they_may_use(bank):
    customers = get(bank, "/customers")
    assert {tuple(customer) for customer in customers} == {("id", "name", "phone", "accounts")}
    assert {kind["kind"] for customer in customers for kind in customer["accounts"]} == {"personal", "business"}
    assert customers[0]["accounts"][0] == {"iban": DAILY, "currencies": ["EUR", "USD", "GBP"], "kind": "personal"}


def test_approve_without_a_body_uses_the_first_possible_customer_and_account(bank, tpp):
    payment = tpp.new_payment(body={**PAYMENT, "creditorAccount": {"iban": DAILY}})
    assert code(act(bank, payment, "approve", {"iban": DAILY})) == "account.unfit"  # does not pay itself
    answer = act(bank, payment, "approve")
    expected = {"paymentId": payment["paymentId"], "transactionStatus": "ACSP"}
    assert (answer.status_code, answer.json()) == (200, expected)
    assert tpp.status(payment) == "ACSP"


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({}, True),
        ({"customer": JONAS}, True),
        ({"iban": SMALL}, True),
        ({"customer": JONAS, "iban": SMALL}, True),
        ({"customer": ONA}, False),
        ({"customer": ONA, "iban": SMALL}, False),
        ({"iban": DAILY}, False),
        ({"customer": "unknown"}, False),
    ],
)
def test_the_debtor_account_restricts_who_approves_with_what(body, fits, bank, tpp):
    amount = {"currency": "EUR", "amount": "1.00"}
    payment = tpp.new_payment(body={**PAYMENT, "instructedAmount": amount, "debtorAccount": {"iban": SMALL}})
    answer = act(bank, payment, "approve", body)
    assert answer.status_code == 200 if fits else code(answer) == "account.unfit"
    assert tpp.status(payment) == ("ACSP" if fits else "RCVD")


@pytest.mark.parametrize(
    "body", [{"customer": JONAS, "iban": DAILY}, {"customer": ONA, "iban": SMALL}, {"iban": "DE89370400440532013000"}]
)
def test_a_customer_approves_with_an_account_that_they_may_use(body, bank, tpp):
    payment = tpp.new_payment()
    assert code(act(bank, payment, "approve", body)) == "account.unfit"
    assert act(bank, payment, "approve", {"customer": ONA, "iban": DAILY}).status_code == 200


@pytest.mark.parametrize("end", ["approve", "decline", "cancel", "expire"])
def test_a_payment_that_is_decided_cannot_be_decided_again(end, caller, fresh_bank):
    payment = caller.new_payment()
    if end == "cancel":
        caller.cancel(payment)
    elif end == "expire":
        advance(fresh_bank, 300)
    else:
        assert act(fresh_bank, payment, end).status_code == 200
    before = caller.status(payment)
    for action in ("approve", "open", "decline"):
        assert code(act(fresh_bank, payment, action)) == "payment.decided"
    assert caller.status(payment) == before


@pytest.mark.parametrize("payment_id", ["unknown", "%00", "a" * 200])
def test_an_unknown_payment_is_refused(payment_id, bank):
    for action in ("approve", "open", "decline"):
        assert code(control(bank, f"/payments/{payment_id}/{action}")) == "payment.unknown"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("approve", []),
        ("approve", {"customer": 1}),
        ("approve", {"iban": {}}),
        ("/instant", None),
        ("/instant", {"country": "DE"}),
        ("/instant", {"country": "de", "reachable": False}),
        ("/instant", {"country": "DEU", "reachable": False}),
        ("/instant", {"country": "DE", "reachable": 0}),
    ],
)
def test_a_body_of_another_form_is_refused(path, body, bank, tpp):
    where = path if path.startswith("/") else f"/payments/{tpp.new_payment()['paymentId']}/{path}"
    assert code(control(bank, where, body)) == "model.invalid"


def test_a_page_of_another_origin_cannot_approve(bank, tpp):
    payment = tpp.new_payment()
    url = f"{bank.addresses.control_url}/payments/{payment['paymentId']}/approve"
    assert code(httpx.post(url, headers={"Origin": "https://evil.example"}, trust_env=False)) == "control.origin"
    assert tpp.status(payment) == "RCVD"


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE balances SET amount = amount + 1 WHERE account = 'a1'", "a balance is not the sum of its entries"),
        ("UPDATE payments SET status = 'ACSC'", "is ACSC, its transfer None"),
        ("DELETE FROM payments", "which does not exist"),
        ("UPDATE payments SET payment_id = 'other'", "a seal was accepted for other without a record"),
    ],
)
def test_the_check_reports_differences(damage, found, open_bank, connect):
    with open_bank(checked=False) as server:
        connect(server).new_payment()
        assert get(server, "/ledger/check") == {"ok": True, "differences": []}
        with closing(sqlite3.connect(server.settings.directory / "sandbox.sqlite")) as database, database:
            database.execute(damage)
        checked = get(server, "/ledger/check")
        assert not checked["ok"]
        assert any(found in difference for difference in checked["differences"])
