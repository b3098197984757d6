"""The payment gateway in `tppkit demo`: an order paid on the hosted page, captured in part, refunded, and learned by webhooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tppkit._clock import utc_now
from tppkit.cli.demo_receiver import Control, deliver, receiving
from tppkit.cli.story import Story, Surprise, expect
from tppkit.client import GatewayClient, is_paid
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.listening import listen
from tppkit.testpki import Pki
from tppkit.web import WebhookGate, WebhookInbox, make_webhook_path

CARD = {
    "number": "4000 0027 6000 3184",
    "expiry": "12/39",
    "cvc": "123",
    "name": "Ona Kazlauskienė",
}  # its issuer asks
_PAID, _SHIPPED, _SENT_BACK = 2500, 1500, 500
_HIDDEN = re.compile('<input type="hidden" name="([a-z]+)" value="([^"]*)">')


class _Merchant:
    """A shop's client of the gateway, and the orders that its webhooks made it look at."""

    def __init__(self, client: GatewayClient, inbox: WebhookInbox, origin: str, path: str, control: Control) -> None:
        self.client, self.origin, self.path = client, origin, path
        self._inbox, self._control = inbox, control

    def learn(self) -> dict[str, Order]:
        """The orders that webhooks tell of, by their ids, each fetched once."""
        learned: dict[str, Order] = {}

        def keep(order: Order, connection: Any) -> None:
            learned[order.id] = order

        deliver(self._control)
        self._inbox.work(keep, at=utc_now())
        return learned


def play_gateway(story: Story, server: SandboxServer, pki: Pki, folder: Path, control: Control) -> None:
    """Play the steps of the payment gateway.

    Args:
        story: gets the steps.
        server: the sandbox.
        pki: of the sandbox; issues the receiver's certificate.
        folder: gets the receiver's database.
        control: moves the clock.

    Raises:
        StoryOver: a step went otherwise than expected.
    """
    with _shop(server, pki, folder, control) as shop:
        order = _pay(story, shop)
        _learn(story, shop, order)
        capture = _capture(story, shop, order)
        _refund(story, shop, order, capture)


@contextmanager
def _shop(server: SandboxServer, pki: Pki, folder: Path, control: Control) -> Iterator[_Merchant]:
    at, path = server.addresses, make_webhook_path()
    with (
        GatewayClient(at.gateway_url, api_key=at.api_key, server_anchors=[pki.root.certificate]) as client,
        closing(InboxStore(f"sqlite:///{folder / 'inbox.sqlite'}")) as store,
        listen("127.0.0.1", 0) as bound,
    ):
        store.create_tables()
        inbox = WebhookInbox(store, client.order)
        with receiving(bound, WebhookGate(inbox, path=path), server=server, pki=pki):
            yield _Merchant(client, inbox, f"https://localhost:{bound.getsockname()[1]}", path, control)


def _pay(story: Story, shop: _Merchant) -> Order:
    with story.step("A customer pays an order by card on the hosted page") as told:
        payment = TransactionRequest(payment_method="credit-card", capture_mode="manual")
        order = shop.client.create_order(OrderRequest(
            currency="EUR", amount=_PAID, merchant_order_id="4713", merchant_name="Bookshop Ąžuolas", transactions=(payment,),
            return_url=f"{shop.origin}/thanks", webhook_url=shop.origin + shop.path,
        ))  # fmt: skip
        told.append(f"201 {order.status}, order {order.id}: {_money(order)}, to be captured later.")
        address = str(order.transactions[0].payment_url)
        told.append(f"The customer pays at {address}")
        went = _browse(address)
        told.append(f"The issuer asks, the customer confirms, and the page leads to {went}. That alone proves nothing.")
        expect(went == order.return_url, "the customer does not come back to the shop")
    return order


def _browse(url: str) -> str:
    """Fill in the card form and confirm the payment, as a browser without script does; return the address that it is led to."""
    try:
        with httpx.Client(trust_env=False) as browser:
            for fields in ({"action": "pay", **CARD}, {"action": "approve"}):
                page = browser.get(url, follow_redirects=True).raise_for_status()
                answer = browser.post(page.url, data={**dict(_HIDDEN.findall(page.text)), **fields})
                expect(answer.status_code == 303, f"the form is answered {answer.status_code}")
                url = str(page.url.join(answer.headers["location"]))
    except httpx.HTTPError as e:
        raise Surprise(f"no answer: {e}") from e
    return url


def _learn(story: Story, shop: _Merchant, order: Order) -> None:
    with story.step("Learn by webhook that the order changed, and by fetching it that it was paid") as told:
        learned = shop.learn()
        told.append("An unsigned POST to an unguessable path names the order; it is stored, and answered 200.")
        expect([*learned] == [order.id], "the webhooks are of other orders")
        paid = learned[order.id]
        told.append(f"The order is fetched, and handled once: {paid.status}, {_money(paid)}.")
        expect(is_paid(paid, own_checkout=False), "it was not paid")


def _capture(story: Story, shop: _Merchant, order: Order) -> Order:
    with story.step("Capture a part when the first parcel ships") as told:
        capture = shop.client.capture_amount(order.id, order.transactions[0].id, _SHIPPED, description="First parcel")
        told.append(f"Captured {_money(capture)} of {_money(order)}; the rest is released.")
        _expect_learned(shop, order, capture, "capture_of_order_id")
        told.append(f"A webhook tells of the capture, order {capture.id}.")
    return capture


def _refund(story: Story, shop: _Merchant, order: Order, capture: Order) -> None:
    with story.step("Refund a book that came back") as told:
        refund = shop.client.create_refund(order.id, _SENT_BACK, description="A book came back")
        told.append(f"Refunded {_money(refund)} of {_money(capture)}.")
        _expect_learned(shop, order, refund, "refund_of_order_id")
        told.append(f"A webhook tells of the refund, order {refund.id}.")
        now = shop.client.order(order.id)
        expect(now.refunded_amount == _SENT_BACK, f"the order says that {now.refunded_amount} was refunded")


def _expect_learned(shop: _Merchant, order: Order, made: Order, link: str) -> None:
    learned = shop.learn()
    expect(made.id in learned, "no webhook tells of it")
    expect(
        getattr(learned[made.id], link) == order.id and learned[made.id].amount == made.amount, "it is another order"
    )


def _money(order: Order) -> str:
    return f"{order.amount / 100:.2f} {order.currency}"
