"""The shop in `tppkit demo`: logins and payments of the legacy interface, card payments of the gateway.

Its server on loopback receives callbacks and webhooks over HTTPS.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from tppkit._clock import utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.callbacks.login_codes import LoginCodes, digest_session_id
from tppkit.cli.demo_steps import Steps, UnexpectedResult, expect
from tppkit.client import AccessKind, GatewayClient, LegacyClient, is_paid
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, PaymentOrder, Transaction
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.tls import TlsMode, make_http_protocol
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop
from tppkit.testpki import Pki, certificate_pem, key_pem
from tppkit.web import CallbackGate, CallbackMiddleware, WebhookGate, WebhookInbox, make_webhook_path
from tppkit.web.seal import Send

Control = Callable[[str, Any], Any]
_PHONE = "+37060000001"
_ORDER = PaymentOrder(
    acc="LT121000011101001000", amts={"EUR": Decimal("12.50")}, name="Bookshop Ąžuolas", street="Pilies g. 1", city="Vilnius",
    country="LTU", msg="Order 4712",
)  # fmt: skip
_HOUR_S = 3600
# The issuer of this card asks its holder.
CARD = {"number": "4000 0027 6000 3184", "expiry": "12/39", "cvc": "123", "name": "Ona Kazlauskienė"}
_PAID, _SHIPPED, _SENT_BACK = 2500, 1500, 500
_HIDDEN = re.compile('<input type="hidden" name="([a-z]+)" value="([^"]*)">')


class Shop:
    """The shop's handlers, and what they received.

    Args:
        origin: The shop's address without a path.
        store: Stores callbacks and webhooks.
        key_file: The public key of the legacy interface.
        gateway: The shop's client of the payment gateway.
        control: Calls the sandbox's control host.

    Example:
        with open_shop(server, pki, folder, control) as shop:
            control("/legacy/provider", {"callback_url": f"{shop.origin}/cb"})
            shop.deliver()
    """

    def __init__(
        self, origin: str, store: InboxStore, *, key_file: Path, gateway: GatewayClient, control: Control
    ) -> None:
        self.origin, self.gateway, self.control = origin, gateway, control
        self.grants: list[AccessGranted] = []
        self.outcomes: list[tuple[str, Transaction]] = []
        self.logins: list[tuple[str | None, LoginConfirmed]] = []
        addresses = [
            CallbackAddress(f"{origin}/cb/", CallbackKind.ACCESS),
            CallbackAddress(f"{origin}/cb/{{token}}", CallbackKind.PAYMENT),
            CallbackAddress(f"{origin}/login/{{token}}", CallbackKind.LOGIN),
        ]
        inbox = Inbox(CallbackReceiver(addresses, keys=[load_callback_key(key_file, name="sandbox")]), store)
        self.codes = LoginCodes(inbox, name="Bookshop Ąžuolas", perm=(LoginPermission.NAME, LoginPermission.EMAIL))
        self.codes.create_tables()
        callbacks = CallbackGate(
            inbox, on_access=self._granted, on_payment=self._paid, on_login=self._logged_in, login=self.codes.answer
        )
        path = make_webhook_path()
        self.webhook_url = origin + path
        self._webhooks = WebhookInbox(store, gateway.order)
        webhooks = CallbackMiddleware(_not_found, gate=WebhookGate(self._webhooks, path=path))
        self.app = CallbackMiddleware(webhooks, gate=callbacks)

    def _granted(self, event: AccessGranted, callback: VerifiedCallback, connection: Any) -> None:
        self.grants.append(event)

    def _paid(self, event: Transaction, callback: VerifiedCallback, connection: Any) -> None:
        self.outcomes.append((callback.token, event))

    def _logged_in(self, event: LoginConfirmed, callback: VerifiedCallback, connection: Any) -> None:
        self.logins.append((self.codes.match(callback, connection), event))

    def deliver(self, *, after_s: float = 0) -> None:
        """Advance the sandbox's clock, and wait until each callback and webhook that fell due was attempted once."""
        self.control("/clock/advance", {"seconds": after_s})

    def changed_orders(self) -> dict[str, Order]:
        """Fetch each order that a webhook names; by order id."""
        orders: dict[str, Order] = {}

        def keep(order: Order, connection: Any) -> None:
            orders[order.id] = order

        self.deliver()
        self._webhooks.work(keep, at=utc_now())
        return orders


@contextmanager
def open_shop(server: SandboxServer, pki: Pki, folder: Path, control: Control) -> Iterator[Shop]:
    """Run the shop's server while the body runs.

    Args:
        server: The sandbox, whose TLS settings the shop shares.
        pki: The sandbox's PKI; issues the shop's server certificate.
        folder: Gets the shop's database.
        control: Calls the sandbox's control host.
    """
    at, issued = server.addresses, pki.issue_server("localhost", label="receiver")
    tls = replace(
        server.sandbox.tls, mode=TlsMode.NO_CERTIFICATES, private_key_pem=key_pem(issued.key),
        certificate_pem=b"".join(map(certificate_pem, (issued.certificate, *issued.chain))),
    )  # fmt: skip
    with (
        GatewayClient(at.gateway_url, api_key=at.api_key, server_anchors=[pki.root.certificate]) as gateway,
        closing(InboxStore(f"sqlite:///{folder / 'inbox.sqlite'}")) as store,
        listen("127.0.0.1", 0) as bound,
    ):
        store.create_tables()
        origin = f"https://localhost:{bound.getsockname()[1]}"
        shop = Shop(origin, store, key_file=Path(at.legacy_public_key), gateway=gateway, control=control)
        servers = [(QuietServer(make_config(shop.app, http=make_http_protocol(tls))), bound)]
        with in_thread(lambda on_ready: serve(servers, on_ready=on_ready), stop=lambda: stop(servers)):
            yield shop


async def _not_found(scope: Any, receive: Any, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def show_legacy(steps: Steps, shop: Shop, client: LegacyClient) -> None:
    """Run the steps of the legacy interface.

    Raises:
        DemoStopped: A step had an unexpected result.
    """
    shop.control("/legacy/provider", {"callback_url": f"{shop.origin}/cb"})
    _log_in(steps, shop)
    _pay_legacy(steps, shop, client)


def _log_in(steps: Steps, shop: Shop) -> None:
    with steps.step("Log a customer in with a code on the shop's page") as lines:
        session_id = secrets.token_urlsafe()
        code = shop.codes.make(session_id, at=utc_now())
        lines.append(f"The page shows {code.text} and {code.code}.")
        asked = shop.control("/legacy/login", {"code": code.text})["asked"]
        lines.append(
            f"The customer scans it; a signed GET asks who we are: {asked['name']}, {' '.join(asked['perm'])}."
        )
        shop.deliver()
        expect(len(shop.logins) == 1, f"{len(shop.logins)} logins arrived")
        ((session, login),) = shop.logins
        lines.append(f"A signed POST logs in {login.name}, {login.email}, in the session of that page only.")
        expect(session == digest_session_id(session_id), "the login belongs to no session")


def _pay_legacy(steps: Steps, shop: Shop, client: LegacyClient) -> None:
    with steps.step("Request access to payments, which a callback grants") as lines:
        token = client.request_access(AccessKind.PAYMENTS, _PHONE)
        lines.append("POST /pis/<access token> with an API key; the customer approves.")
        shop.control(f"/legacy/access/{token}/approve", None)
        shop.deliver()
        expect([one.token for one in shop.grants] == [token], "the callback names another access")
        lines.append(f"A signed POST gives the end of the access: {shop.grants[0].exp}.")
    with steps.step("Pay, and receive the outcome by callbacks") as lines:
        uuid = client.pay(token, _ORDER)
        lines.append(f"POST /pis/<access token>/TX/{uuid}; the customer approves.")
        shop.control(f"/legacy/payments/{uuid}/approve", None)
        shop.deliver()
        shop.deliver(after_s=_HOUR_S)
        for name, one in shop.outcomes:
            amounts = " ".join(map(str, one.amounts))
            lines.append(f"A signed POST to /cb/{name}: {one.tlc}, version {one.ver}, {amounts}.")
        states = [(name, one.tlc, str(one.amounts[0])) for name, one in shop.outcomes]
        expect(states == [(uuid, "posted", "EUR-12.50"), (uuid, "executed", "EUR-12.50")], f"the outcomes are {states}")


def show_gateway(steps: Steps, shop: Shop) -> None:
    """Run the steps of the payment gateway.

    Raises:
        DemoStopped: A step had an unexpected result.
    """
    order = _pay_order(steps, shop)
    _fetch_paid(steps, shop, order)
    capture = _capture(steps, shop, order)
    _refund(steps, shop, order, capture)


def _pay_order(steps: Steps, shop: Shop) -> Order:
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
