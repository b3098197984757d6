"""Our client against our sandbox over HTTPS: for asyncio, and with a proxy between them that cuts answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from merchant import EXPIRY

from tppkit.client import AsyncGatewayClient, AsyncVaultClient, GatewayClient, OrderOutcomeUnknown
from tppkit.protocol.gateway import AuthenticateRequest, CardRequest, CardSecret, OrderRequest, TransactionRequest


class Proxy:
    """Passes bytes on, on a port of its own.

    Attributes:
        url: its address.
    """

    def __init__(self, url: str, listening: socket.socket) -> None:
        self.url = f"https://localhost:{listening.getsockname()[1]}"
        self._target = ("127.0.0.1", urlsplit(url).port or 0)
        self._listening, self._open, self._cut = listening, list[socket.socket](), list[socket.socket]()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close each open connection in the place of its next answer."""
        self._cut += self._open

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self._listening.accept()[0], socket.create_connection(self._target)
                self._open.append(near)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError), source, sink:
            while (data := source.recv(65536)) and sink not in self._cut:
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def test_an_order_whose_answer_is_cut_is_found_by_its_reference(merchant, bank_pki):
    reference, anchors = 'A "1" \\ OR *', [bank_pki.root.certificate]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = Proxy(merchant.bank.addresses.gateway_url, listening)
        with GatewayClient(proxy.url, api_key=merchant.api_key, server_anchors=anchors) as client:
            assert client.search("*").orders == ()
            proxy.cut()
            with pytest.raises(OrderOutcomeUnknown) as lost:
                client.create_order(OrderRequest(currency="EUR", amount=1000, merchant_order_id=reference))
    (made,) = merchant.post("/v1/search/orders/", {"query": "*"})["orders"]
    assert lost.value.code == "order-lost.found"
    assert [(one.id, one.merchant_order_id) for one in lost.value.found] == [(made["id"], reference)]
    assert made["id"] in str(lost.value)


def test_an_order_is_paid_captured_and_reported_with_asyncio(merchant, bank_pki):
    options = {"api_key": merchant.api_key, "server_anchors": [bank_pki.root.certificate]}
    payment = TransactionRequest(payment_method="credit-card", capture_mode="manual")
    addresses = merchant.bank.addresses

    async def main():
        async with (
            AsyncGatewayClient(addresses.gateway_url, **options) as gateway,
            AsyncVaultClient(addresses.vault_url, **options) as vault,
        ):
            order = await gateway.create_order(OrderRequest(currency="EUR", amount=1000, transactions=(payment,)))
            (hold,) = order.transactions
            pan, token = CardSecret(merchant.pan), hold.payment_method_details.setup_token
            stored = await vault.store_card(CardRequest(pan=pan, expiry=CardSecret(EXPIRY), setup_token=token))
            cvc = CardSecret(merchant.cvc)
            card = AuthenticateRequest(vault_token=stored.card.vault_token, cvc=cvc)
            await gateway.authenticate(order.id, hold.id, card)
            await gateway.capture_amount(order.id, hold.id, 400, description="sent")
            return [one.amount async for one in gateway.orders("*")], [row async for row in gateway.report("*")]

    amounts, rows = asyncio.run(main())
    assert (sorted(amounts), len(rows)) == ([400, 1000], 2)
