"""The shop in `tppkit demo`: its server on loopback receives callbacks and webhooks over HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tppkit._clock import utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.callbacks.login_codes import LoginCodes
from tppkit.client import GatewayClient
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order
from tppkit.protocol.legacy import LoginPermission
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.tls import TlsMode, make_http_protocol
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve, stop
from tppkit.testpki import Pki, certificate_pem, key_pem
from tppkit.web import CallbackGate, CallbackMiddleware, WebhookGate, WebhookInbox, make_webhook_path
from tppkit.web.sources import Send

Control = Callable[..., Any]  # calls the sandbox's control host with a path and a body


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

    def deliver(self, *, after_s: float = 0) -> list[tuple[Any, str | None]]:
        """Advance the sandbox's clock, and return what the callbacks delivered.

        Returns:
            Of each its event, and the session that it logs in or the payment that it names.
        """
        self._received.clear()
        self.control("/clock/advance", {"seconds": after_s})  # answers after the first attempt of each delivery
        return [*self._received]

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
