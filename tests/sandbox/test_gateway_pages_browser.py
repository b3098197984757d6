"""The hosted pages of the gateway in Chromium: without script, by keyboard, in several tabs, and checked by axe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser import DARK, DESKTOP, PHONE, heading, press, require_accessible
from merchant import ASKED, DECLINED, Merchant
from test_gateway_pages import statuses

pytestmark = pytest.mark.slow

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright; install the extra dev")

Browse = Callable[..., Any]
FORMS = pytest.mark.parametrize("form", [DESKTOP, PHONE, DARK], ids=["desktop", "phone", "dark"])


def fill(page: Any, merchant: Merchant, number: str | None = None, **fields: str) -> None:
    pan = merchant.cards.pan(number) if number else merchant.pan
    for label, value in {"Card number": pan, "Expiry date": "12/39", "Security code": merchant.cvc, **fields}.items():
        page.get_by_label(label, exact=True).fill(value)


def pay(page: Any, merchant: Merchant, number: str | None = None) -> None:
    fill(page, merchant, number)
    page.get_by_role("button", name="Pay").click()


@FORMS
def test_axe_finds_nothing_in_any_page(form, merchant, browse, screenshots, request):
    def check(name: str) -> None:
        require_accessible(page, screenshots / f"{request.node.callspec.id}-gateway-{name}.png")

    names = ("merchant_name", "description", "merchant_order_id")
    texts = dict(zip(names, ("Example Shop", "Two chairs and a table", "Order 4711"), strict=True))
    long = {"amount": 2**63 - 1, **dict(zip(names, ("Ä" * 60, "W" * 200, "<b>" + "x" * 60), strict=True))}
    back = {"return_url": "https://shop.example/back"}
    order = merchant.order(123456, **texts, **back)
    page = browse(order["order_url"], form)
    check("card")
    press(page, "Pay 1234.56 EUR")
    check("wrong-card")
    page.get_by_role("link", name="Bank transfer").click()
    check("transfer")
    page.get_by_role("link", name="Card").click()
    pay(page, merchant, DECLINED)
    check("declined")
    pay(page, merchant, ASKED)
    check("confirm")
    page.route("https://shop.example/**", lambda route: route.fulfill(body="shop"))
    press(page, "Confirm")
    page.wait_for_url(back["return_url"])
    page.goto(order["order_url"])
    check("paid")
    for name, fields in (("long", long), ("zero", {"amount": 0, **texts}), ("cancelled", texts)):
        page.goto(merchant.order(**fields)["order_url"])
        if name == "cancelled":
            press(page, "Cancel")
        check(name)
    page.goto(merchant.link(description="Two chairs")["payment_url"])
    check("link")
    press(page, "Cancel")
    check("link-cancelled")
    page.goto(f"{merchant.bank.addresses.approval_url}/gateway/orders/unknown")
    check("unknown")


@pytest.mark.parametrize("form", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_story_1_a_customer_pays_after_a_declined_attempt_without_script(form, merchant, browse, provider):
    back = f"{provider.url}/back?order=4711&name=a%20b"
    order = merchant.order(1250, return_url=back, failure_url=f"{provider.url}/failed")
    assert order["transactions"] == []
    page = browse(order["order_url"], form, java_script_enabled=False)
    pay(page, merchant, DECLINED)
    assert "The last payment was declined." in page.get_by_role("alert").inner_text()
    assert merchant.read(order)["status"] == "processing"
    pay(page, merchant, ASKED)
    press(page, "Reject")
    assert "You did not confirm it with your bank." in page.get_by_role("alert").inner_text()
    pay(page, merchant, ASKED)
    press(page, "Confirm")
    page.wait_for_url(back)
    assert provider.visits == ["/back?order=4711&name=a%20b"]
    assert statuses(merchant.read(order)) == ("completed", ["declined", "declined", "accepted"])


def test_story_2_the_page_offers_the_listed_methods_that_the_project_has(merchant, browse):
    page = browse(merchant.order(payment_methods=["credit-card", "other"])["order_url"])
    assert page.get_by_label("Card number").is_visible()
    assert page.get_by_text("Bank transfer").count() == 0
    page.goto(merchant.order(payment_methods=["bank-transfer"])["order_url"])
    assert page.get_by_label("Card number").count() == 0
    page.goto(merchant.order()["order_url"])
    assert page.get_by_label("Card number").is_visible()
    page.get_by_role("link", name="Bank transfer").click()
    press(page, "Approve")
    assert heading(page) == "Payment successful"


def test_the_keyboard_is_enough(merchant, browse):
    order = merchant.order()
    page = browse(order["order_url"])
    typed = {"number": merchant.cards.pan(ASKED), "expiry": "1239", "cvc": merchant.cvc, "name": "Ona Example"}

    def focused() -> Any:
        return page.evaluate("document.activeElement.id || document.activeElement.innerText")

    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")  # an empty form
    assert focused() == "number"
    for name, value in typed.items():
        assert focused() == name
        page.keyboard.type(value)
        page.keyboard.press("Tab")
    for name in ("Pay 10.00 EUR", "Confirm"):
        if name == "Confirm":
            page.keyboard.press("Tab")
        assert focused() == name
        with page.expect_navigation():
            page.keyboard.press("Enter")
    assert heading(page) == "Payment successful"
    assert merchant.read(order)["transactions"][0]["payment_method_details"]["cardholder_name"] == "Ona Example"


def test_messages_are_tied_to_their_fields(merchant, browse):
    page = browse(merchant.order()["order_url"])
    fill(page, merchant, **{"Security code": "12"})
    page.get_by_role("button", name="Pay").click()
    code, number = (page.get_by_label(label, exact=True) for label in ("Security code", "Card number"))
    assert page.title().startswith("Error: ")
    sync_api.expect(code).to_have_accessible_description("Enter the 3 or 4 digits of the security code.")
    sync_api.expect(code).to_be_focused()
    sync_api.expect(number).to_have_value("")
    page.get_by_role("link", name="Enter the 3 or 4 digits").click()
    sync_api.expect(code).to_be_focused()


def test_of_two_tabs_the_first_decides(merchant, browse):
    order = merchant.order()
    first = browse(order["order_url"])
    second, third = browse(order["order_url"], beside=first), browse(order["order_url"])
    pay(first, merchant, ASKED)
    pay(second, merchant)
    assert heading(second) == "Confirm with your bank"
    press(second, "Confirm")
    press(first, "Reject")
    press(third, "Cancel")
    assert heading(first) == heading(second) == heading(third) == "Payment successful"
    assert statuses(merchant.read(order)) == ("completed", ["accepted"])


def test_going_back_to_a_refused_form_shows_the_page(merchant, browse):
    page = browse(merchant.order()["order_url"])
    page.get_by_label("Card number").fill("12")
    page.get_by_label("Expiry date").fill("12/39")
    page.get_by_role("button", name="Pay").click()
    page.get_by_text("Check your card details").wait_for()
    assert page.get_by_label("Expiry date").input_value() == "12/39"
    page.goto("about:blank")
    page.go_back()  # after a POST, Chromium shows ERR_CACHE_MISS
    page.get_by_label("Card number").wait_for()


def test_going_back_pays_nothing_again(merchant, browse, provider):
    order = merchant.order(return_url=f"{provider.url}/back")
    page = browse(order["order_url"])
    pay(page, merchant)
    page.wait_for_url(f"{provider.url}/back")
    page.go_back()
    assert heading(page) == "Payment successful"
    page.reload()
    page.get_by_role("link", name="Return to the shop").click()
    page.wait_for_url(f"{provider.url}/back")
    assert len(merchant.read(order)["transactions"]) == 1


def test_no_other_site_shows_the_page_in_a_frame(merchant, browse, provider):
    provider.frame = merchant.order()["order_url"]
    page = browse(f"{provider.url}/shop")
    assert not page.frame_locator("iframe").get_by_label("Card number").is_visible()
