"""A project at the payment gateway of a sandbox in this process, with its clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from tppkit.client.connections import DEFAULT_TIMEOUT_S, client_options
from tppkit.client.gateway import AsyncGatewayClient, GatewayClient
from tppkit.client.tls_context import NoCertificate
from tppkit.client.vault import AsyncVaultClient, VaultClient
from tppkit.protocol.gateway import Order

if TYPE_CHECKING:
    from tppkit.sandbox.in_process import Sandbox


class Gateway:
    """A project at the payment gateway of a sandbox, with actions of its customers and issuers. `Sandbox.gateway` is the first one.

    Args:
        sandbox: the sandbox of the gateway.
        project_id: id of the project.
        api_key: its key.

    Attributes:
        sandbox: the sandbox, with the clock, the control host, and the transport for a browser on the hosted pages.
        project_id: id of the project.
        api_key: its key, also for the vault.

    Example:
        with Sandbox() as sandbox:
            order = sandbox.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250))
            sandbox.gateway.pay(order.id, card="4111111111111111")
    """

    def __init__(self, sandbox: Sandbox, *, project_id: str, api_key: str) -> None:
        self.sandbox, self.project_id, self.api_key = sandbox, project_id, api_key

    def project(self, **settings: Any) -> Gateway:
        """Make another project.

        Args:
            settings: fields of `POST /gateway/projects` of the control host, for example `webhook_url` and `payment_methods`.

        Raises:
            RequestRefused: a setting is unknown or wrong.
        """
        made = self.sandbox.control("POST", "/gateway/projects", settings)
        return Gateway(self.sandbox, project_id=made["project_id"], api_key=made["api_key"])

    def client(self) -> GatewayClient:
        """Make a client of the gateway, for threads."""
        url, http = self.sandbox.addresses.gateway_url, httpx.Client(**self._options())
        return GatewayClient(url, api_key=self.api_key, http=http)

    def async_client(self) -> AsyncGatewayClient:
        """Make a client of the gateway, for asyncio, in any event loop."""
        url, http = self.sandbox.addresses.gateway_url, httpx.AsyncClient(**self._options())
        return AsyncGatewayClient(url, api_key=self.api_key, http=http)

    def vault(self) -> VaultClient:
        """Make a client of the card vault, for threads."""
        url, http = self.sandbox.addresses.vault_url, httpx.Client(**self._options())
        return VaultClient(url, api_key=self.api_key, http=http)

    def async_vault(self) -> AsyncVaultClient:
        """Make a client of the card vault, for asyncio, in any event loop."""
        url, http = self.sandbox.addresses.vault_url, httpx.AsyncClient(**self._options())
        return AsyncVaultClient(url, api_key=self.api_key, http=http)

    def pay(self, order_id: str, *, card: str | None = None, outcome: str | None = None) -> Order:
        """Pay an order as its customer does on the hosted page, and return it.

        Args:
            order_id: id of an order of any project.
            card: number of a test card, which decides the outcome.
            outcome: instead of a card: `approved`, `declined` or `cancelled`.

        Raises:
            RequestRefused: `order.unknown`, `machine.no-such-move`, the order is final, `model.invalid` as `peer_code`.
        """
        choice = {"card": card, "outcome": outcome}
        return self._change(order_id, "pay", **{name: value for name, value in choice.items() if value is not None})

    def refund(self, order_id: str, amount: int, *, description: str | None = None) -> Order:
        """Refund captured money as the merchant does, in minor units, and return the refund order. Errors are those of `pay`."""
        return self._change(
            order_id, "refund", amount=amount, **({} if description is None else {"description": description})
        )

    def charge_back(self, order_id: str) -> Order:
        """Charge back the order as the issuer does, and return the chargeback order. Errors are those of `pay`."""
        return self._change(order_id, "chargeback")

    def reverse(self, order_id: str) -> Order:
        """Reverse the chargeback as the issuer does, and return the reversal order. Errors are those of `pay`."""
        return self._change(order_id, "reverse")

    def _change(self, order_id: str, change: str, **body: Any) -> Order:
        order = self.sandbox.control("POST", f"/gateway/orders/{order_id}/{change}", body)
        return Order.from_wire(json.dumps(order).encode())

    def _options(self) -> dict[str, Any]:
        tls = NoCertificate(server_anchors=[self.sandbox.pki.root.certificate])
        return {"transport": self.sandbox.transport(), **client_options(tls, timeout_s=DEFAULT_TIMEOUT_S)}
