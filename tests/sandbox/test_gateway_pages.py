"""The hosted pages of the gateway without a browser: what they say in every state, which forms count, and where customers go then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from merchant import ASKED, DECLINED, Merchant
from test_psd2_pages import Page

BACK, FAILED = "https://shop.example/back?x=1&y=2", "https://shop.example/failed"
BOTH = {"return_url": BACK, "failure_url": FAILED}
LINK = {"currency": "EUR", "amount": 1250, "merchant_order_id": "L-1"}
ASKED_DECLINED = "4000008260003178"


class Customer:
    """A browser without script at one page; `cards` of the merchant searches every answer.

    Attributes:
        at: the address of the page.
        answer: the latest one.
    """

    def __init__(self, merchant: Merchant, url: str) -> None:
        self.merchant, self.at = merchant, url
        self.show()

    def show(self, query: str = "", **headers: str) -> Page:
        """Load the page, also where it leads to another page of the sandbox."""
        with httpx.Client(trust_env=False, follow_redirects=True) as http:
            self.answer = self.merchant.cards.keep(http.get(self.at + query, headers=headers))
        self.at = str(self.answer.url).partition("?")[0]
        return self.page

    @property
    def page(self) -> Page:
        return Page(self.answer.text)

    @property
    def heading(self) -> str:
        found = re.search("<h1>(.*?)</h1>", self.answer.text)
        return found[1] if found else ""

    def fields(self) -> dict[str, str]:
        """The hidden fields of the form."""
        return dict(re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', self.answer.text))

    def send(self, fields: Mapping[str, str], **headers: str) -> httpx.Response:
        return self.merchant.cards.keep(httpx.post(self.at, data=fields, headers=headers, trust_env=False))

    def press(self, action: str, **fields: str) -> str:
        """Send the form of the page; return where it leads. A page of the sandbox is loaded, and its heading returned."""
        return self.follow(self.send({**self.fields(), "action": action, **fields}))

    def follow(self, answer: httpx.Response) -> str:
        if answer.status_code != 303:
            self.answer = answer
            return self.heading
        location = answer.headers["location"]
        if not location.startswith("/"):
            return str(location)
        self.at = str(httpx.URL(self.at).join(location))
        self.show()
        return self.heading

    def card(self, number: str | None = None, **fields: str) -> dict[str, str]:
        pan = self.merchant.cards.pan(number) if number else self.merchant.pan
        return {"number": pan, "expiry": "12/39", "cvc": self.merchant.cvc, **fields}

    def pay(self, number: str | None = None, **fields: str) -> str:
        return self.press("pay", **self.card(number, **fields))


@pytest.fixture
def visit(merchant: Merchant) -> Any:
    return lambda order: Customer(merchant, order["order_url"])


def statuses(order: Any) -> tuple[str, list[str]]:
    return order["status"], [one["status"] for one in order["transactions"]]


def new_link(merchant: Merchant, **fields: Any) -> Any:
    return merchant.post("/sandbox/v1/paymentlinks/", {**LINK, **fields})


def read_link(merchant: Merchant, link: Any) -> Any:
    return merchant.send("GET", f"/v1/paymentlinks/{link['id']}/").json()


def test_story_1_a_customer_pays_after_a_declined_attempt(merchant: Merchant, visit: Any) -> None:
    order = merchant.order(1250, **BOTH)
    customer = visit(order)
    assert customer.pay(DECLINED) == "Your payment"
    assert "was declined" in customer.page.text
    assert merchant.read(order)["status"] == "processing"
    assert customer.pay() == BACK
    assert statuses(merchant.read(order)) == ("completed", ["declined", "accepted"])


@pytest.mark.parametrize(
    ("listed", "shown"),
    [(None, {"Card", "Bank transfer"}), (["bank-transfer"], {"Bank transfer"}), (["credit-card", "other"], {"Card"}), (["other"], set())],
)  # fmt: skip
def test_story_2_the_page_offers_the_listed_methods_that_the_project_has(
    listed: list[str] | None, shown: set[str], merchant: Merchant, visit: Any
) -> None:
    customer = visit(merchant.order(**({} if listed is None else {"payment_methods": listed})))
    found = {"Card"} if "Card number" in customer.page.text else set()
    found |= {"Bank transfer"} if "Bank transfer" in customer.page.text else set()
    assert found == shown


def test_story_16_a_link_can_be_paid_after_failed_attempts(timed_merchant: Merchant) -> None:
    merchant = timed_merchant
    link, unpaid = new_link(merchant, return_url=BACK), new_link(merchant)
    customer = Customer(merchant, link["payment_url"])
    for made in (1, 2):
        assert customer.pay(DECLINED) == "Your payment"
        assert "was declined" in customer.page.text
        read = read_link(merchant, link)
        assert (read["status"], len(read["orders"]["error"])) == ("all_unsuccessful", made)
    assert customer.pay(ASKED) == "Confirm with your bank"
    assert read_link(merchant, link)["status"] == "processing"
    other = Customer(merchant, link["payment_url"])
    assert (other.at, other.heading) == (customer.at, "Confirm with your bank")
    assert customer.press("approve") == BACK
    paid = read_link(merchant, link)
    assert (paid["status"], paid["orders"]["completed"]) == ("completed", [paid["completed_order_id"]])
    assert Customer(merchant, link["payment_url"]).heading == "Payment successful"
    merchant.advance(30 * 86400)
    assert read_link(merchant, unpaid)["status"] == "expired"
    assert Customer(merchant, unpaid["payment_url"]).heading == "The time to pay is over"
