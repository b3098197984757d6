"""The payment gateway in `tppkit demo`: an order is paid on the hosted page, captured in part and refunded."""

from __future__ import annotations

import re

import httpx

from tppkit.cli.demo_shop import Shop
from tppkit.cli.demo_steps import Steps, UnexpectedResult, expect
from tppkit.client import is_paid
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest

# The issuer of this card asks its holder.
CARD = {"number": "4000 0027 6000 3184", "expiry": "12/39", "cvc": "123", "name": "Ona Kazlauskienė"}
_PAID, _SHIPPED, _SENT_BACK = 2500, 1500, 500
_HIDDEN = re.compile('<input type="hidden" name="([a-z]+)" value="([^"]*)">')


def show_gateway(steps: Steps, shop: Shop) -> None:
    """Run the steps of the payment gateway.

    Args:
        steps: Gets the steps.
        shop: Receives the webhooks.

    Raises:
        DemoStopped: A step had an unexpected result.
    """
    order = _pay(steps, shop)
    _fetch_paid(steps, shop, order)
    capture = _capture(steps, shop, order)
    _refund(steps, shop, order, capture)


def _pay(steps: Steps, shop: Shop) -> Order:
    with steps.step("A customer pays an order by card on the hosted page") as lines:
        payment = TransactionRequest(payment_method="credit-card", capture_mode="manual")
        order = shop.gateway.create_order(OrderRequest(
            currency="EUR", amount=_PAID, merchant_order_id="4713", merchant_name="Bookshop Ąžuolas", transactions=(payment,),
            return_url=f"{shop.origin}/thanks", webhook_url=shop.webhook_url,
        ))  # fmt: skip
        lines.append(f"201 {order.status}, order {order.id}: {_money(order)}, to be captured later.")
        address = str(order.transactions[0].payment_url)
        lines.append(f"The customer pays at {address}")
        last = _browse(address)
        lines.append(f"The issuer asks, the customer confirms, and the page redirects to {last}. That proves nothing.")
        expect(last == order.return_url, "the customer does not return to the shop")
    return order


def _browse(url: str) -> str:
    """Fill in the card form and confirm the payment like a browser without scripts; return the address of the last redirect."""
    try:
        with httpx.Client(trust_env=False) as browser:
            for fields in ({"action": "pay", **CARD}, {"action": "approve"}):
                page = browser.get(url, follow_redirects=True).raise_for_status()
                answer = browser.post(page.url, data={**dict(_HIDDEN.findall(page.text)), **fields})
                expect(answer.status_code == 303, f"the answer to the form is {answer.status_code}")
                url = str(page.url.join(answer.headers["location"]))
    except httpx.HTTPError as e:
        raise UnexpectedResult(f"no answer: {e}") from e
    return url


def _fetch_paid(steps: Steps, shop: Shop, order: Order) -> None:
    with steps.step("Receive a webhook about the order, and fetch the order to see that it is paid") as lines:
        orders = shop.changed_orders()
        lines.append("An unsigned POST to an unguessable path names the order; it is stored and answered 200.")
        expect([*orders] == [order.id], "the webhooks name other orders")
        paid = orders[order.id]
        lines.append(f"The order is fetched and handled once: {paid.status}, {_money(paid)}.")
        expect(is_paid(paid, own_checkout=False), "the order is not paid")


def _capture(steps: Steps, shop: Shop, order: Order) -> Order:
    with steps.step("Capture a part when the first parcel ships") as lines:
        capture = shop.gateway.capture_amount(order.id, order.transactions[0].id, _SHIPPED, description="First parcel")
        lines.append(f"Captured {_money(capture)} of {_money(order)}; the rest is released.")
        _expect_webhook(shop, order, capture, "capture_of_order_id")
        lines.append(f"A webhook names the capture, order {capture.id}.")
    return capture


def _refund(steps: Steps, shop: Shop, order: Order, capture: Order) -> None:
    with steps.step("Refund a book that was returned") as lines:
        refund = shop.gateway.create_refund(order.id, _SENT_BACK, description="Returned book")
        lines.append(f"Refunded {_money(refund)} of {_money(capture)}.")
        _expect_webhook(shop, order, refund, "refund_of_order_id")
        lines.append(f"A webhook names the refund, order {refund.id}.")
        now = shop.gateway.order(order.id)
        expect(now.refunded_amount == _SENT_BACK, f"the order's refunded amount is {now.refunded_amount}")


def _expect_webhook(shop: Shop, order: Order, made: Order, link: str) -> None:
    orders = shop.changed_orders()
    expect(made.id in orders, "no webhook names it")
    fetched = orders[made.id]
    expect((getattr(fetched, link), fetched.amount) == (order.id, made.amount), "the webhook names another order")


def _money(order: Order) -> str:
    return f"{order.amount / 100:.2f} {order.currency}"
