"""The shop in `tppkit demo`: logins and payments of the legacy interface, card payments of the gateway.

Its server on loopback receives callbacks and webhooks over HTTPS.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
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
from tppkit.cli.demo import Control
from tppkit.cli.demo_steps import Steps, expect
from tppkit.client import AccessKind, GatewayClient, LegacyClient, is_paid
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.protocol.legacy import LoginPermission, PaymentOrder
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.tls import TlsMode, make_http_protocol
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop
from tppkit.testpki import Pki, certificate_pem, key_pem
from tppkit.web import CallbackGate, CallbackMiddleware, WebhookGate, WebhookInbox, make_webhook_path
from tppkit.web.seal import Send

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
        self._received: list[tuple[Any, str | None]] = []
        addresses = [
            CallbackAddress(f"{origin}/cb/", CallbackKind.ACCESS),
            CallbackAddress(f"{origin}/cb/{{token}}", CallbackKind.PAYMENT),
            CallbackAddress(f"{origin}/login/{{token}}", CallbackKind.LOGIN),
        ]
        inbox = Inbox(CallbackReceiver(addresses, keys=[load_callback_key(key_file, name="sandbox")]), store)
        self.codes = LoginCodes(inbox, name="Bookshop Ąžuolas", perm=(LoginPermission.NAME, LoginPermission.EMAIL))
        self.codes.create_tables()
        path = make_webhook_path()
        self.webhook_url = origin + path
        self._webhooks = WebhookInbox(store, gateway.order)
        webhooks = CallbackMiddleware(_not_found, gate=WebhookGate(self._webhooks, path=path))
        callbacks = CallbackGate(inbox, handler=self._keep, login=self.codes.answer)
        self.app = CallbackMiddleware(webhooks, gate=callbacks)

    def _keep(self, callback: VerifiedCallback, connection: Any) -> None:
        is_login = callback.address.kind is CallbackKind.LOGIN
        about = self.codes.match(callback, connection) if is_login else callback.token
        self._received.append((callback.event, about))

    def deliver(self, *, after_s: float = 0) -> tuple[Any, str | None]:
        """Advance the sandbox's clock until a callback was delivered.

        Returns:
            Its event, and the session that it logs in or the payment that it names.
        """
        self._received.clear()
        self.control("/clock/advance", {"seconds": after_s})  # answers after the first attempt of each delivery
        expect(len(self._received) == 1, f"{len(self._received)} callbacks arrived")
        return self._received[0]

    def changed_orders(self) -> dict[str, Order]:
        """Fetch each order that a webhook names; by order id."""
        orders: dict[str, Order] = {}

        def keep(order: Order, connection: Any) -> None:
            orders[order.id] = order

        self.control("/clock/advance", {"seconds": 0})
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
    with steps.step("Log a customer in with a code on the shop's page") as lines:
        shop.control("/legacy/provider", {"callback_url": f"{shop.origin}/cb"})
        session_id = secrets.token_urlsafe()
        code = shop.codes.make(session_id, at=utc_now())
        lines.append(f"The page shows {code.text} and {code.code}.")
        asked = shop.control("/legacy/login", {"code": code.text})["asked"]
        lines.append(
            f"The customer scans it; a signed GET asks who we are: {asked['name']}, {' '.join(asked['perm'])}."
        )
        login, session = shop.deliver()
        lines.append(f"A signed POST logs in {login.name}, {login.email}, in the session of that page only.")
        expect(session == digest_session_id(session_id), "the login belongs to no session")
    with steps.step("Request access to payments, which a callback grants") as lines:
        token = client.request_access(AccessKind.PAYMENTS, _PHONE)
        lines.append("POST /pis/<access token> with an API key; the customer approves.")
        shop.control(f"/legacy/access/{token}/approve")
        grant, _ = shop.deliver()
        expect(grant.token == token, "the callback names another access")
        lines.append(f"A signed POST gives the end of the access: {grant.exp}.")
    with steps.step("Pay, and receive the outcome by callbacks") as lines:
        uuid = client.pay(token, _ORDER)
        lines.append(f"POST /pis/<access token>/TX/{uuid}; the customer approves.")
        shop.control(f"/legacy/payments/{uuid}/approve")
        for state, after_s in (("posted", 0), ("executed", _HOUR_S)):
            record, name = shop.deliver(after_s=after_s)
            found = f"{record.tlc}, version {record.ver}, {' '.join(map(str, record.amounts))}"
            lines.append(f"A signed POST to /cb/{name}: {found}.")
            as_paid = (name, record.tlc, str(record.amounts[0])) == (uuid, state, "EUR-12.50")
            expect(as_paid, f"expected {state} of {uuid}")


def show_gateway(steps: Steps, shop: Shop) -> None:
    """Run the steps of the payment gateway.

    Raises:
        DemoStopped: A step had an unexpected result.
    """
    order = _pay_order(steps, shop)
    with steps.step("Receive a webhook about the order, and fetch the order to see that it is paid") as lines:
        orders = shop.changed_orders()
        lines.append("An unsigned POST to an unguessable path names the order; it is stored and answered 200.")
        expect([*orders] == [order.id], "the webhooks name other orders")
        paid = orders[order.id]
        lines.append(f"The order is fetched and handled once: {paid.status}, {_money(paid)}.")
        expect(is_paid(paid, own_checkout=False), "the order is not paid")
    with steps.step("Capture a part when the first parcel ships") as lines:
        capture = shop.gateway.capture_amount(order.id, order.transactions[0].id, _SHIPPED, description="First parcel")
        lines.append(f"Captured {_money(capture)} of {_money(order)}; the rest is released.")
        made = shop.changed_orders().get(capture.id)
        lines.append(f"A webhook names the capture, order {capture.id}.")
        as_made = made is not None and (made.capture_of_order_id, made.amount) == (order.id, _SHIPPED)
        expect(as_made, "no webhook names the capture")
    with steps.step("Refund a book that was returned") as lines:
        refund = shop.gateway.create_refund(order.id, _SENT_BACK, description="Returned book")
        lines.append(f"Refunded {_money(refund)} of {_money(capture)}.")
        made = shop.changed_orders().get(refund.id)
        lines.append(f"A webhook names the refund, order {refund.id}.")
        as_made = made is not None and (made.refund_of_order_id, made.amount) == (order.id, _SENT_BACK)
        expect(as_made, "no webhook names the refund")
        now = shop.gateway.order(order.id)
        expect(now.refunded_amount == _SENT_BACK, f"the order's refunded amount is {now.refunded_amount}")


def _pay_order(steps: Steps, shop: Shop) -> Order:
    with steps.step("A customer pays an order by card on the hosted page") as lines:
        payment = TransactionRequest(payment_method="credit-card", capture_mode="manual")
        order = shop.gateway.create_order(OrderRequest(
            currency="EUR", amount=_PAID, merchant_order_id="4713", merchant_name="Bookshop Ąžuolas", transactions=(payment,),
            return_url=f"{shop.origin}/thanks", webhook_url=shop.webhook_url,
        ))  # fmt: skip
        lines.append(f"201 {order.status}, order {order.id}: {_money(order)}, to be captured later.")
        url = str(order.transactions[0].payment_url)
        lines.append(f"The customer pays at {url}")
        with httpx.Client(trust_env=False) as browser:
            for fields in ({"action": "pay", **CARD}, {"action": "approve"}):
                page = browser.get(url, follow_redirects=True).raise_for_status()
                answer = browser.post(page.url, data={**dict(_HIDDEN.findall(page.text)), **fields})
                expect(answer.status_code == 303, f"the answer to the form is {answer.status_code}")
                url = str(page.url.join(answer.headers["location"]))
        lines.append(f"The issuer asks, the customer confirms, and the page redirects to {url}. That proves nothing.")
        expect(url == order.return_url, "the customer does not return to the shop")
    return order


def _money(order: Order) -> str:
    return f"{order.amount / 100:.2f} {order.currency}"
