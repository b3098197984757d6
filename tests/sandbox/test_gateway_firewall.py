"""Cards in wrong places: neither storage nor logs nor answers contain them. The fixture `cards` searches."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from time import monotonic, sleep
from typing import Any

import httpx
import pytest
from cards import Cards
from merchant import EXPIRY, MakeMerchant, Merchant
from raw_provider import OpenBank, control

from tppkit.testing import assert_no_pan

pytestmark = pytest.mark.slow

NO_ID = "4be1c1f4-8a3c-4f6f-9d6d-0c9b8a1c2d3e"
PAN, CVC = "{pan}", "{cvc}"  # the merchant's
CARD: Mapping[str, Any] = {"pan": PAN, "expiry": EXPIRY, "setup_token": NO_ID}
ONE_CLICK: Mapping[str, Any] = {"one_click_type": "one-click", "vault_token": NO_ID, "cvc": CVC}
RECEIVER: Mapping[str, Any] = {"receiver_account_number": PAN, "receiver_account_number_type": "card-account"}
CARDS = [CARD | change for change in (
    {}, {"expiry": PAN}, {"setup_token": PAN}, {"name": PAN * 10}, {"pan": f"{PAN} "}, {"pan": [PAN]}, {PAN: 1}, {"setup_token": CVC},
)]  # fmt: skip
DETAILS = [
    ONE_CLICK, ONE_CLICK | {"cvc": [CVC]}, ONE_CLICK | {"vault_token": PAN}, ONE_CLICK | {"one_click_type": PAN}, RECEIVER,
    RECEIVER | {"receiver_account_number_type": PAN}, {"cvc": PAN}, {"cvc": f"{CVC}{CVC}"}, {"first_transaction_id": PAN},
]  # fmt: skip


@pytest.fixture
def merchant(open_bank: OpenBank, cards: Cards, make_merchant: MakeMerchant) -> Iterator[Merchant]:
    """A merchant at a sandbox whose log is searched too."""
    with open_bank(log=cards.keep) as server:
        yield make_merchant(server)


def filled(value: Any, merchant: Merchant) -> Any:
    match value:
        case str():
            return value.replace(PAN, merchant.pan).replace(CVC, merchant.cvc)
        case Mapping():
            return {filled(key, merchant): filled(one, merchant) for key, one in value.items()}
        case list():
            return [filled(one, merchant) for one in value]
    return value


def order(**fields: Any) -> dict[str, Any]:
    """An order whose card transaction has these fields."""
    return {"currency": "EUR", "amount": 1250, "transactions": [{"payment_method": "credit-card", **fields}]}


def test_refused_requests_leave_no_card(merchant):
    requests = [(merchant.vault, card) for card in CARDS]
    requests += [("/v1/orders/", order(payment_method_details=details)) for details in DETAILS]
    wrong = (order() | {"currency": PAN}, order(payment_method=PAN, capture_mode=PAN))
    requests += [("/v1/orders/", body) for body in wrong]
    statuses = [merchant.send("POST", path, filled(body, merchant)).status_code for path, body in requests]
    statuses += [
        merchant.http.post(path, content=filled(body, merchant)).status_code
        for path in ("/v1/orders/", merchant.vault)
        for body in (f'{{"pan": "{PAN}", "cvc": "{CVC}"', f'{{"pan": "{PAN}", "pan": "{PAN}"}}', f'"{PAN}"')
    ]
    assert all(400 <= status < 500 for status in statuses), statuses


def test_answers_do_not_repeat_a_card_of_the_path(merchant):
    number = "4929123456785676"  # httpx logs addresses, so the logs are not searched
    paths = [f"/v1/orders/{number}/", f"/v1/orders/{number}/x/", f"{merchant.vault}{number}/"]
    answers = [merchant.send("POST", path, {}) for path in paths]
    assert all(400 <= answer.status_code < 500 for answer in answers)
    assert_no_pan([answer.content for answer in answers], cards=[number])


@pytest.mark.parametrize("sent", ["P{}", "{}"])
def test_neither_answers_nor_the_log_repeat_a_card_of_the_method_or_the_content_type(sent, merchant):
    number = "4929-1234-5678-5676"
    refused = merchant.http.request(sent.format(number), "/v1/orders/", json={})
    typed = merchant.http.post("/v1/orders/", content=b"{}", headers={"Content-Type": sent.format(number)})
    assert [refused.status_code, typed.status_code] == [405, 400]
    latest = httpx.get(merchant.bank.addresses.control_url + "/requests", trust_env=False)
    assert [one["status"] for one in latest.json()[:2]] == [400, 405]
    assert_no_pan([refused, typed, latest], cards=[number.replace("-", "")])


def test_a_card_number_typed_as_name_at_the_control_host_is_refused(merchant):
    order = merchant.order()
    card = {"card": merchant.pan, "name": merchant.pan}
    answer = merchant.cards.keep(control(merchant.bank, f"/gateway/orders/{order['id']}/pay", card))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("PayBody: name:")


def test_the_log_names_unknown_fields_but_none_that_could_be_card_data(merchant, caplog):
    caplog.set_level(logging.WARNING, "tppkit.sandbox.host")
    transaction = {"payment_method": "credit-card", "capture_mod": "manual", merchant.cvc: 1, merchant.pan: 1}
    merchant.order(transactions=[transaction], extra={"own": 1})
    assert caplog.messages == ["  unknown fields: another, capture_mod"]


def test_the_log_of_an_unexpected_failure_has_no_card_in_its_variables(merchant, caplog):
    order, hosted = merchant.card_order(), merchant.order()
    token = merchant.card(merchant.card_order())
    link = merchant.link()
    form = {"step": "0.0.0", "action": "pay", "number": merchant.pan, "expiry": "12/39", "cvc": merchant.cvc}
    file = merchant.bank.settings.directory / "sandbox.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for table in ("orders", "links"):
            database.execute(f"UPDATE gateway_{table} SET status = 'x' || status")
        failed = [
            merchant.store(order), merchant.authenticate(order, token), merchant.http.post(hosted["order_url"], data=form),
            control(merchant.bank, f"/gateway/orders/{hosted['id']}/pay", {"card": merchant.pan}),
            control(merchant.bank, f"/gateway/paymentlinks/{link['id']}/pay", {"card": merchant.pan}),
        ]  # fmt: skip
        for table in ("orders", "links"):
            database.execute(f"UPDATE gateway_{table} SET status = substr(status, 2)")
    assert [answer.status_code for answer in failed] == [500] * 5
    end = monotonic() + 5
    while len([record for record in caplog.records if record.exc_info]) < 5:  # the server answers before it logs
        assert monotonic() < end
        sleep(0.01)


def test_a_card_that_is_stored_would_be_found(merchant, tmp_path):
    number = "4929123456785676"
    merchant.order(extra={"note": number})  # is kept as it came
    with pytest.raises(AssertionError, match=r"gateway_orders\.terms: card 1, digits, a cell"):
        assert_no_pan(tmp_path, cards=[number])
