"""Approved payments move money at their due time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx
import pytest
from raw_provider import INSTANT, PAYMENT, OpenBank, advance, control, decide
from serving import wait_until

from tppkit.protocol.psd2 import BankRules
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.bank.ledger import MAX_PENDING

pytestmark = pytest.mark.slow

AMPLE, SHOP, SMALL = "LT029999900000000001", "LT459999900000000003", "LT189999900000000004"  # SMALL holds 8.40 EUR


def amounting(amount: str, **fields: Any) -> dict[str, Any]:
    return {**PAYMENT, "instructedAmount": {"currency": "EUR", "amount": amount}, **fields}


def approve(server: SandboxServer, payment: dict[str, Any], iban: str = AMPLE) -> None:
    response = control(server, f"/payments/{payment['paymentId']}/approve", {"iban": iban})
    assert (response.status_code, response.json()["transactionStatus"]) == (200, "ACSP")


def rows(server: SandboxServer, query: str) -> list[Any]:
    with closing(sqlite3.connect(server.sandbox.settings.directory / "sandbox.sqlite")) as database:
        return database.execute(query).fetchall()


def held(server: SandboxServer, iban: str = AMPLE) -> int:
    """Its EUR in cents."""
    query = "SELECT amount FROM balances JOIN accounts ON account = id WHERE currency = 'EUR' AND iban = '{}'"
    ((amount,),) = rows(server, query.format(iban))
    assert isinstance(amount, int)
    return amount


def agrees(server: SandboxServer) -> bool:
    """Whether ledger, payments and evidence agree."""
    return bool(httpx.get(f"{server.addresses.control_url}/ledger/check", trust_env=False).json()["ok"])


@pytest.mark.parametrize("body", [amounting("100000.01"), {**PAYMENT, "creditorAccount": {"iban": SHOP}}])
def test_a_payment_that_the_instant_rail_does_not_accept_is_booked_after_an_hour(body, caller, fresh_bank):
    control(fresh_bank, "/instant", {"country": "LT", "reachable": False})
    before, payment = held(fresh_bank, SHOP), caller.new_payment(body=body)
    approve(fresh_bank, payment)
    advance(fresh_bank, 3590)
    assert caller.status(payment) == "ACSP"
    advance(fresh_bank, 10)
    assert caller.status(payment) == "ACSC"
    assert held(fresh_bank, SHOP) == before + (12_50 if body["creditorAccount"]["iban"] == SHOP else 0)


def test_an_approval_that_the_available_money_does_not_cover_is_refused(caller, fresh_bank):
    first, second, third = (caller.new_payment(body=amounting(amount)) for amount in ("5.00", "3.41", "3.40"))
    approve(fresh_bank, first, SMALL)
    refused = control(fresh_bank, f"/payments/{second['paymentId']}/approve", {"iban": SMALL})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "account.funds")
    page = decide(second, "approve", customer="customer-2", iban=SMALL)
    assert (page.status_code, "not enough money" in page.text) == (200, True)
    assert caller.status(second) == "RCVD"
    approve(fresh_bank, third, SMALL)
    assert agrees(fresh_bank)
    advance(fresh_bank, 86_400)
    assert [caller.status(payment) for payment in (first, second, third)] == ["ACSC", "RJCT", "ACSC"]
    assert held(fresh_bank, SMALL) == 0


def test_a_payment_whose_money_is_missing_at_execution_is_rejected(open_bank, connect):
    with open_bank(checked=False) as server:
        caller = connect(server)
        payment = caller.new_payment(body=amounting("8.40"))
        approve(server, payment, SMALL)
        change(server, "UPDATE balances SET amount = 839 WHERE amount = 840")
        advance(server, 86_400)
        assert (caller.status(payment), held(server, SMALL)) == ("RJCT", 8_39)


def test_a_payment_to_an_iban_of_the_bank_without_an_account_is_rejected(caller, fresh_bank):
    before = held(fresh_bank)
    payment = caller.new_payment(body={**PAYMENT, "creditorAccount": {"iban": "LT729999900000000099"}})
    approve(fresh_bank, payment)
    advance(fresh_bank, 3600)
    assert (caller.status(payment), held(fresh_bank)) == ("RJCT", before)
    assert agrees(fresh_bank)


def test_an_unreachable_country_is_refused_at_initiation_also_after_a_restart(open_bank, connect):
    with open_bank() as server:
        control(server, "/instant", {"country": "DE", "reachable": False})
    with open_bank() as server:
        assert connect(server).initiate(product=INSTANT).json()["tppMessages"][0]["code"] == "PRODUCT_INVALID"
        assert connect(server).initiate().status_code == 201
        control(server, "/instant", {"country": "DE", "reachable": True})
        assert connect(server).initiate(product=INSTANT).status_code == 201


def test_a_payment_that_fell_due_is_booked_at_its_time_by_the_first_request_after_a_restart(open_bank, connect):
    rules = BankRules(instant_execution=timedelta(seconds=0.5))
    with open_bank(rules=rules) as server:
        before, payment = held(server), connect(server).new_payment()
        approve(server, payment)
    time.sleep(0.6)
    with open_bank(rules=rules) as server:
        assert connect(server).status(payment) == "ACSC"
        assert held(server) == before - 12_50
        query = "SELECT started_at, due_at, booked_at FROM transfers JOIN bookings ON transaction_id = id"
        ((started, due, booked),) = rows(server, query)
        assert (booked, due - started) == (due, 500_000)
        assert rows(server, "SELECT count(*) FROM customers") == [(3,)]  # not seeded again


def test_payments_are_booked_without_any_request(open_bank, connect):
    with open_bank(rules=BankRules(instant_execution=timedelta(seconds=0.2))) as server:
        approve(server, connect(server).new_payment())
        wait_until(lambda: rows(server, "SELECT state FROM transfers") == [("booked",)], "the booking")


def test_an_advance_lets_everything_happen_that_falls_due(caller, fresh_bank):
    before = held(fresh_bank)
    for _ in range(25):  # more than one transaction takes
        approve(fresh_bank, caller.new_payment())
    advance(fresh_bank, 5 * 86_400)
    late = "SELECT count(*) FROM transfers JOIN bookings ON transaction_id = id WHERE booked_at <> due_at"
    assert rows(fresh_bank, late) == [(0,)]
    assert rows(fresh_bank, "SELECT state, count(*) FROM transfers GROUP BY state") == [("booked", 25)]
    assert held(fresh_bank) == before - 25 * 12_50


def change(server: SandboxServer, statement: str) -> None:
    """Change the database behind the bank's back."""
    with closing(sqlite3.connect(server.sandbox.settings.directory / "sandbox.sqlite")) as database, database:
        database.execute(statement)


def test_a_transfer_that_cannot_be_carried_out_does_not_delay_others(open_bank, connect):
    with open_bank(checked=False) as server:
        caller = connect(server)
        damaged, payment = caller.new_payment(), caller.new_payment()
        for one in (damaged, payment):
            approve(server, one)
        change(server, f"UPDATE payments SET body = X'7b7d' WHERE payment_id = '{damaged['paymentId']}'")
        advance(server, 10)
        assert (caller.status(damaged), caller.status(payment)) == ("ACSP", "ACSC")
        books = httpx.get(server.addresses.control_url + "/ledger/check", trust_env=False).json()
        assert books["differences"] == [f"payment {damaged['paymentId']} is ACSP, its transfer failed"]


def test_an_account_has_at_most_a_thousand_pending_transfers(open_bank, connect):
    with open_bank(checked=False) as server:
        caller = connect(server)
        first, second, third = (caller.new_payment() for _ in range(3))
        approve(server, first)
        names = "source, account, amount, currency, debtor_name, creditor_iban, creditor_name, remittance, instant"
        copied = f"{names}, started_at, due_at, state"
        change(
            server,
            f"WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MAX_PENDING})"
            f" INSERT INTO transfers (id, order_id, {copied}) SELECT 't-' || n, 'o-' || n, {copied} FROM transfers, numbers",
        )
        refused = control(server, f"/payments/{second['paymentId']}/approve", {"iban": AMPLE})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "account.unfit")
        approve(server, second, SHOP)
        change(server, "DELETE FROM transfers WHERE id = 't-2'")
        approve(server, third)


def test_an_approval_that_comes_twice_starts_one_transfer(caller, fresh_bank):
    payment = caller.new_payment()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: decide(payment, "approve"), range(4)))
    assert len(rows(fresh_bank, "SELECT id FROM transfers")) == 1


@pytest.fixture
def validating(open_bank: OpenBank) -> Iterator[SandboxServer]:
    with open_bank(rules=BankRules(technical_validation=True)) as server:
        yield server


@pytest.mark.parametrize(
    ("act", "end"),
    [
        (lambda server, payment: decide(payment, "decline"), "RJCT"),
        (lambda server, payment: advance(server, 300), "RJCT"),
        (lambda server, payment: approve(server, payment), "ACSP"),
    ],
)
def test_with_the_setting_a_payment_that_is_opened_passes_through_actc(act, end, validating, connect):
    caller = connect(validating)
    payment = caller.new_payment()
    assert control(validating, f"/payments/{payment['paymentId']}/open").json()["transactionStatus"] == "ACTC"
    assert caller.status(payment) == "ACTC"
    assert caller.cancel(payment).status_code == 409
    act(validating, payment)
    assert caller.status(payment) == end


def test_the_page_approves_with_the_debtor_account_only(caller, fresh_bank):
    for debtor in (SMALL, PAYMENT["creditorAccount"]["iban"]):  # the latter is of no customer
        payment = caller.new_payment(body=amounting("1.00", debtorAccount={"iban": debtor}))
        assert "account cannot be used" in decide(payment, "approve").text
        assert caller.status(payment) == "RCVD"
        assert caller.status(payment) == "RCVD"
