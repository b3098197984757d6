"""The hosted pages of the gateway in Chromium: without script, by keyboard, in several tabs, and what axe finds in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from merchant import ASKED, DECLINED, Merchant
from test_gateway_pages import new_link
from test_pages_browser import (  # noqa: F401  # fixtures
    DARK,
    DESKTOP,
    PHONE,
    Provider,
    browse,
    chromium,
    heading,
    press,
    provider,
    require_accessible,
    screenshots,
)

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
def test_axe_finds_nothing_in_any_page(
    form: dict[str, Any],
    merchant: Merchant,
    browse: Browse,
    screenshots: Path,
    request: pytest.FixtureRequest,  # noqa: F811
) -> None:
    def check(name: str) -> None:
        require_accessible(page, screenshots / f"{request.node.callspec.id}-gateway-{name}.png")

    texts = {
        "merchant_name": "Example Shop",
        "description": "Two chairs and a table",
        "merchant_order_id": "Order 4711",
    }
    long = {"merchant_name": "Ä" * 60, "description": "W" * 200, "merchant_order_id": "<b>" + "x" * 60}
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
    for name, fields, steps in (
        ("long", long, ()), ("zero", {"amount": 0, **texts}, ()), ("no-method", {"payment_methods": ["other"]}, ()),
        ("cancelled", texts, ("Cancel",)),
    ):  # fmt: skip
        page.goto(merchant.order(**fields)["order_url"])
        for step in steps:
            press(page, step)
        check(name)
    page.goto(new_link(merchant, description="Two chairs")["payment_url"])
    check("link")
    press(page, "Cancel")
    check("link-cancelled")
    page.goto(f"{merchant.bank.addresses.approval_url}/gateway/orders/unknown")
    check("unknown")
