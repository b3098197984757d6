"""The hosted pages of the gateway without a browser: texts of each state, valid forms, and redirects."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from gateway_customer import Customer
from merchant import ASKED, DECLINED, Merchant

from tppkit._clock import parse_time

pytestmark = pytest.mark.slow

BACK, FAILED = "https://shop.example/back?x=1&y=2", "https://shop.example/failed"
BOTH = {"return_url": BACK, "failure_url": FAILED}
ASKED_DECLINED = "4000008260003178"


@pytest.fixture
def visit(merchant: Merchant) -> Any:
    return lambda order: Customer(merchant, order["order_url"])


def statuses(order: Any) -> tuple[str, list[str]]:
    return order["status"], [one["status"] for one in order["transactions"]]


def test_story_16_a_link_can_be_paid_after_failed_attempts(timed_merchant):
    merchant = timed_merchant
    link, unpaid = merchant.link(return_url=BACK), merchant.link()
    customer = Customer(merchant, link["payment_url"])
    for made in (1, 2):
        assert customer.pay(DECLINED) == "Your payment"
        assert "was declined" in customer.page.text
        read = merchant.read_link(link)
        assert (read["status"], len(read["orders"]["error"])) == ("all_unsuccessful", made)
    assert customer.pay(ASKED) == "Confirm with your bank"
    assert merchant.read_link(link)["status"] == "processing"
    other = Customer(merchant, link["payment_url"])
    assert (other.at, other.heading) == (customer.at, "Confirm with your bank")
    assert customer.press("approve") == BACK
    paid = merchant.read_link(link)
    assert (paid["status"], paid["orders"]["completed"]) == ("completed", [paid["completed_order_id"]])
    assert Customer(merchant, link["payment_url"]).heading == "Payment successful"
    merchant.advance(30 * 86400)
    assert merchant.read_link(unpaid)["status"] == "expired"
    assert Customer(merchant, unpaid["payment_url"]).heading == "The time to pay is over"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", ""), ("number", "4929123456x"), ("number", "{pan}{pan}"), ("number", "4929123456785678"), ("expiry", "13/39"),
        ("expiry", "01/20"), ("expiry", "{pan}"),
        ("cvc", ""), ("cvc", "12345"), ("cvc", "{pan}"), ("name", "{pan}"), ("name", "A" * 121), ("name", "a\0b"),
    ],
)  # fmt: skip
def test_a_wrong_card_redirects_to_the_form_with_its_harmless_fields(field, value, merchant, visit):
    order = merchant.order()
    customer = visit(order)
    typed = {"name": "Ona Example", "expiry": "12/39", field: value.format(pan=merchant.pan)}
    answer = customer.send({**customer.fields(), **customer.card(), **typed, "action": "pay"})
    assert (answer.status_code, merchant.pan in answer.headers["set-cookie"]) == (303, False)
    customer.follow(answer)
    assert customer.answer.status_code == 200
    (wrong,) = re.findall(
        r'<input id="(\w+)"[^>]*aria-invalid="true"[^>]*aria-describedby="(\S+)"', customer.answer.text
    )
    assert wrong == (field, f"{field}-hint")
    shown = dict(re.findall(r'<input id="(\w+)"[^>]* value="([^"]*)"', customer.answer.text))
    assert shown == {one: typed[one] for one in ("name", "expiry") if one != field or value in ("13/39", "01/20")}
    assert "Check your card" not in customer.show().text  # the errors are shown once
    assert (merchant.read(order)["status"], customer.pay()) == ("new", "Payment successful")


@pytest.mark.parametrize(
    "form", [{"expiry": "1/39"}, {"expiry": "01 / 2039"}, {"expiry": "0139"}, {"number": "4929-1234 5678-5674"}]
)
def test_a_card_can_be_typed_as_customers_do(form, merchant, visit):
    merchant.cards.pan("4929123456785674")
    assert visit(merchant.order()).pay(**form) == "Payment successful"


@pytest.mark.parametrize(
    ("choice", "fields", "address"),
    [
        ("pay", BOTH, BACK), ("pay", {"failure_url": FAILED}, "Payment successful"),
        ("cancel", BOTH, FAILED), ("cancel", {"return_url": BACK}, BACK), ("cancel", {}, "Payment cancelled"),
        ("cancel", {"return_url": "myapp://paid"}, "myapp://paid"),
    ],
)  # fmt: skip
def test_the_customer_is_sent_to_the_merchants_address_and_its_link_is_on_the_result_page(
    choice, fields, address, merchant, visit
):
    order = merchant.order(**fields)
    customer = visit(order)
    assert customer.press(choice, **customer.card()) == address
    assert address in visit(order).page.values("href") or "://" not in address


@pytest.mark.parametrize(
    ("amount", "number", "choice", "heading", "code"),
    [
        (1000, ASKED, "approve", "Payment successful", "00"), (1000, ASKED, "decline", "Your payment", "1A"),
        (1000, ASKED_DECLINED, "approve", "Your payment", "51"), (0, ASKED, "approve", "Card checked", "00"),
    ],
)  # fmt: skip
def test_3d_secure_waits_for_the_customer(amount, number, choice, heading, code, merchant, visit):
    order = merchant.order(amount)
    customer = visit(order)
    assert customer.pay(number) == "Confirm with your bank"
    assert statuses(merchant.read(order)) == ("processing", ["new"])
    again = visit(order)
    assert again.press(choice) == heading
    assert ("payment was accepted" in again.page.text) == (heading == "Payment successful")
    (transaction,) = merchant.read(order)["transactions"]
    assert transaction["outcomes"]["processing"]["response_code"] == code


def stored_cards(merchant: Merchant) -> int:
    """How many cards of the merchant the sandbox keeps, encrypted."""
    with closing(sqlite3.connect(merchant.bank.settings.directory / "sandbox.sqlite")) as db:
        query = "SELECT count(*) FROM gateway_cards WHERE project_id = ?"
        return int(db.execute(query, [merchant.project_id]).fetchone()[0])


@pytest.mark.parametrize("end", ["approve", "decline", "time", "another card"])
def test_a_card_is_kept_until_the_customer_has_answered(end, timed_merchant):
    merchant = timed_merchant
    order = merchant.order(expiration_period="PT1H")
    customer = Customer(merchant, order["order_url"])
    customer.pay(ASKED)
    assert stored_cards(merchant) == 1
    if end == "time":
        merchant.advance(3600)
    elif end == "another card":
        merchant.pay(order, card=merchant.pan)
    else:
        customer.press(end)
    assert stored_cards(merchant) == 0


def test_a_card_that_expires_during_authentication_is_declined(timed_merchant):
    merchant = timed_merchant
    order = merchant.card_order(transaction={"expiration_period": "P40D"})
    customer = Customer(merchant, order["transactions"][0]["payment_url"])
    month = parse_time(order["created"])
    assert customer.pay(ASKED, expiry=f"{month:%m/%y}") == "Confirm with your bank"
    merchant.advance(31 * 86400)
    assert customer.press("approve") == "Payment failed"
    (transaction,) = merchant.read(order)["transactions"]
    assert (transaction["outcomes"]["processing"]["response_code"], stored_cards(merchant)) == ("54", 0)


@pytest.mark.parametrize(("number", "kept"), [(None, 1), (ASKED, 1), (DECLINED, 0)])
def test_a_first_one_click_payment_on_the_page_stores_its_card(number, kept, merchant):
    order = merchant.card_order(0, transaction={"payment_method_details": {"one_click_type": "first"}})
    customer = Customer(merchant, order["transactions"][0]["payment_url"])
    customer.pay(number, name="Ona Example")
    if number == ASKED:
        customer.press("approve")
    details = merchant.read(order)["transactions"][0]["payment_method_details"]
    assert (stored_cards(merchant), "vault_token" in details, "ani_results" in details) == (kept, kept == 1, kept == 1)


@pytest.mark.parametrize(("choice", "status"), [("approve", "accepted"), ("decline", "declined")])
def test_a_bank_transfer_is_approved_or_declined(choice, status, merchant, visit):
    order = merchant.order()
    customer = visit(order)
    customer.show("?method=bank-transfer")
    customer.press(choice)
    (transaction,) = merchant.read(order)["transactions"]
    assert (transaction["payment_method"], transaction["status"]) == ("bank-transfer", status)


def test_the_page_of_a_transaction_offers_its_method_only(merchant):
    order = merchant.order(transactions=[{"payment_method": "bank-transfer"}], **BOTH)
    customer = Customer(merchant, order["transactions"][0]["payment_url"])
    assert "Card" not in customer.page.text
    assert customer.send({**customer.fields(), **customer.card(), "action": "pay"}).status_code == 400
    assert customer.press("decline") == "Your payment"  # the page of the order, which takes another attempt
    assert customer.at == order["order_url"]
    assert customer.pay() == BACK
    assert Customer(merchant, order["transactions"][0]["payment_url"]).heading == "Payment successful"


@pytest.mark.parametrize(
    ("choice", "address", "status"), [("approve", BACK, "accepted"), ("decline", FAILED, "declined")]
)
def test_an_own_checkout_sends_its_customer_to_3d_secure(choice, address, status, make_merchant, bank):
    merchant = make_merchant(bank, lag_seconds=600)
    order = merchant.card_order(**BOTH)
    asked = merchant.authenticate(order, merchant.card(order, ASKED)).json()
    customer = Customer(merchant, asked["redirect_url"])
    assert customer.heading == "Confirm with your bank"
    assert customer.press(choice) == address
    assert statuses(merchant.read(order)) == ("processing", [status])
    result = "Payment successful" if choice == "approve" else "Payment failed"
    assert [Customer(merchant, url).heading for url in (asked["redirect_url"], order["order_url"])] == [result, result]


def test_the_customer_of_a_link_can_leave_and_come_back(merchant):
    link = merchant.link()
    customer = Customer(merchant, link["payment_url"])
    assert customer.press("cancel") == "Payment cancelled"
    assert merchant.read_link(link)["status"] == "all_unsuccessful"
    (again,) = [one for one in customer.page.values("href") if one and one.startswith("/gateway/")]
    assert again == httpx.URL(link["payment_url"]).path
    customer = Customer(merchant, link["payment_url"])
    assert "declined" not in customer.page.text
    assert customer.pay() == "Payment successful"


def test_a_form_that_is_sent_eight_times_concurrently_has_one_effect(merchant):
    order, link = merchant.order(), merchant.link()
    for customer in (Customer(merchant, order["order_url"]), Customer(merchant, link["payment_url"])):
        form = {**customer.fields(), **customer.card(DECLINED), "action": "pay"}
        with ThreadPoolExecutor() as threads:
            answers = list(threads.map(customer.send, [form] * 8))
        assert {answer.status_code for answer in answers} == {303}
    assert len(merchant.read(order)["transactions"]) == 1
    assert [len(ids) for ids in merchant.read_link(link)["orders"].values()] == [1]


@pytest.mark.parametrize("action", ["pay", "cancel", "approve", "decline"])
@pytest.mark.parametrize(("number", "place"), [(ASKED, "Confirm with your bank"), (None, BACK)], ids=["asked", "over"])
def test_a_form_of_another_step_changes_nothing(number, place, action, merchant, visit):
    order = merchant.order(**BOTH)
    first, second = visit(order), visit(order)
    first.pay(number)
    before = merchant.read(order)
    assert second.press(action, **second.card(), method="bank-transfer") == place
    assert merchant.read(order) == before


@pytest.mark.parametrize("page", ["transaction", "order"])
def test_an_outdated_question_does_not_decide_about_another_card(page, merchant):
    order, other = merchant.card_order(), merchant.card_order()
    asked = merchant.authenticate(order, merchant.card(order, ASKED)).json()
    outdated = Customer(merchant, asked["redirect_url"] if page == "transaction" else order["order_url"])
    merchant.authenticate(order, merchant.card(other, ASKED_DECLINED))
    before = merchant.read(order)
    assert outdated.press("decline") == "Confirm with your bank"
    assert merchant.read(order) == before
    assert outdated.press("decline") == "Payment failed"


def test_a_payment_after_the_end_goes_to_the_address_for_failures(timed_merchant):
    order = timed_merchant.order(expiration_period="PT1H", **BOTH)
    customer, other = (Customer(timed_merchant, order["order_url"]) for _ in range(2))
    other.pay(ASKED)
    timed_merchant.advance(3600)
    assert customer.pay() == FAILED
    assert other.press("approve") == FAILED
    assert Customer(timed_merchant, order["order_url"]).heading == "The time to pay is over"
    assert statuses(timed_merchant.read(order)) == ("expired", ["declined"])


def test_a_card_beside_an_open_bank_transfer_is_unclear(merchant, visit):
    order = merchant.order(transactions=[{"payment_method": "bank-transfer"}])
    customer = visit(order)
    customer.show("?method=credit-card")
    assert customer.pay() == "Payment received, another is open"
    assert statuses(merchant.read(order)) == ("see-transactions", ["new", "accepted"])


@pytest.mark.parametrize(
    ("fields", "headers", "status"),
    [
        ({"action": "other"}, {}, 400), ({"action": "approve", "method": "credit-card"}, {}, 400),
        ({"action": "approve", "method": "other"}, {}, 400), ({"action": ["pay", "pay"]}, {}, 400),
        ({str(number): "1" for number in range(30)}, {}, 400), ({"name": "A" * 5000}, {}, 413),
        ({"action": "pay"}, {"Sec-Fetch-Site": "cross-site"}, 403), ({"action": "pay"}, {"Origin": "https://evil.example"}, 403),
        ({"action": "pay"}, {"Origin": "null"}, 403),
    ],
)  # fmt: skip
def test_a_form_that_the_page_did_not_make_pays_nothing(fields, headers, status, merchant, visit):
    order = merchant.order()
    customer = visit(order)
    answer = customer.send({**customer.fields(), **customer.card(), **fields}, **headers)
    assert (answer.status_code, merchant.read(order)["status"]) == (status, "new")


@pytest.mark.parametrize(
    "path", ["orders/unknown", "others/unknown", "orders/%00", "links/a%2Fb", "transactions/" + "a" * 65]
)
def test_an_unknown_page_is_not_found(path, merchant):
    answer = Customer(merchant, f"{merchant.bank.addresses.approval_url}/gateway/{path}").answer
    assert (answer.status_code, path.rpartition("/")[2] in answer.text) == (404, False)


@pytest.mark.parametrize("page", ["form", "result", "message"])
def test_no_page_is_stored_framed_or_runs_a_script(page, merchant, visit):
    customer = visit(merchant.order())
    if page == "result":
        customer.press("cancel")
    elif page == "message":
        customer.press("other")
    headers = customer.answer.headers
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert not {"script", "iframe"} & set(customer.page.tags)


def test_texts_of_a_merchant_are_escaped(merchant, visit):
    markup = '<script>"&amp;'
    fields = ("merchant_name", "description", "merchant_order_id")
    order = merchant.order(**dict.fromkeys(fields, markup), return_url='https://shop.example/?"><script>')
    customer = visit(order)
    assert customer.page.text.count(markup) == 3
    customer.press("cancel")
    shown = visit(order).page
    assert (order["return_url"] in shown.values("href"), "script" in shown.tags) == (True, False)


@pytest.mark.parametrize("cookie", ["", "wrong=%3Ci%3E+number", "wrong=cvc&wrong=cvc", "%ff", "a=" * 100])
def test_a_cookie_that_the_sandbox_did_not_make_shows_at_most_known_errors(cookie, merchant, visit):
    customer = visit(merchant.order())
    page = customer.show(Cookie=f"refused={quote(cookie, safe='')}")
    assert (customer.answer.status_code, "<i>" in customer.answer.text) == (200, False)
    assert ("Enter the 12 to 19 digits" in page.text) == ("number" in cookie)


def test_marks_of_direction_in_texts_of_a_merchant_are_removed(merchant, visit):
    names = dict.fromkeys(("merchant_name", "description"), "Sho\u202ep \u206621.05\u2069\u200f")
    customer = visit(merchant.order(**names))
    assert customer.page.text.count("Shop 21.05") == 2
    assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", customer.answer.text)


def test_the_payee_is_named_without_a_name_of_the_merchant(merchant, visit):
    order, link = merchant.order(), merchant.link()
    payee = f"Merchant {order['merchant_id'][:8]}"
    assert [payee in page.text for page in (visit(order).page, Customer(merchant, link["payment_url"]).page)] == [
        True
    ] * 2


def test_a_failed_payment_says_why(merchant):
    order = merchant.card_order()
    merchant.authenticate(order, merchant.card(order, DECLINED))
    page = Customer(merchant, order["order_url"]).page
    assert "The bank did not accept it. No money has been taken." in page.text


def test_opening_a_page_changes_nothing(merchant, visit):
    order, link = merchant.order(), merchant.link()
    visit(order).show("?method=bank-transfer")
    Customer(merchant, link["payment_url"])
    assert (merchant.read(order), merchant.read_link(link)) == (order, link)


def test_the_log_has_neither_tokens_nor_cards(open_bank, make_merchant):
    lines: list[str] = []
    with open_bank(log=lines.append) as server:
        merchant = make_merchant(server)
        order = merchant.order()
        customer = Customer(merchant, order["order_url"])
        customer.press("pay", **customer.card(), name=merchant.pan)
        customer.pay()
        merchant.cards.keep(lines)
    assert order["order_url"].rpartition("/")[2] not in "".join(lines)
    assert "GET /gateway/orders/*** 200" in lines
