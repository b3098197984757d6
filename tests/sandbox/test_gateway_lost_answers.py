"""Our client against our sandbox over HTTPS, with a proxy between them that cuts answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from merchant import Merchant

from tppkit.client import GatewayClient
from tppkit.errors import OrderOutcomeUnknown, OutcomeUnknown, TransportError
from tppkit.protocol.gateway import OrderRequest
from tppkit.testpki import Pki


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


@contextmanager
def proxy_to(url: str) -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Proxy(url, listening)


@pytest.fixture
def cut(merchant: Merchant, bank_pki: Pki) -> Iterator[tuple[GatewayClient, Proxy]]:
    """A client with an open connection through a proxy."""
    with (
        proxy_to(merchant.bank.addresses.gateway_url) as proxy,
        GatewayClient(proxy.url, api_key=merchant.api_key, server_anchors=[bank_pki.root.certificate]) as client,
    ):
        assert client.search("*").orders == ()
        yield client, proxy


def stored(merchant: Merchant) -> list[Any]:
    found: list[Any] = merchant.post("/v1/search/orders/", {"query": "*", "sort": "created asc"})["orders"]
    return found


def test_an_order_whose_answer_is_cut_is_found_by_its_reference(
    cut: tuple[GatewayClient, Proxy], merchant: Merchant
) -> None:
    client, proxy = cut
    proxy.cut()
    with pytest.raises(OrderOutcomeUnknown) as lost:
        client.create_order(OrderRequest(currency="EUR", amount=1000, merchant_order_id='A "1" \\ OR *'))
    (made,) = stored(merchant)
    assert lost.value.code == "order-lost.found"
    assert [(one.id, one.merchant_order_id) for one in lost.value.found] == [(made["id"], 'A "1" \\ OR *')]
    assert made["id"] in str(lost.value)


def test_an_order_without_a_reference_is_not_looked_up(cut: tuple[GatewayClient, Proxy], merchant: Merchant) -> None:
    client, proxy = cut
    proxy.cut()
    with pytest.raises(OrderOutcomeUnknown) as lost:
        client.create_order(OrderRequest(currency="EUR", amount=1000))
    assert (lost.value.code, lost.value.found) == ("order-lost.not-looked-up", ())
    assert len(stored(merchant)) == 1


def test_a_capture_whose_answer_is_cut_is_not_repeated(cut: tuple[GatewayClient, Proxy], merchant: Merchant) -> None:
    client, proxy = cut
    held = merchant.own_checkout(transaction={"capture_mode": "manual"})
    proxy.cut()
    with pytest.raises((OutcomeUnknown, TransportError)) as lost:
        client.capture_amount(held["id"], held["transactions"][0]["id"], 400, description="x")
    assert held["id"] in str(lost.value)
    assert [one["amount"] for one in stored(merchant)] == [1000, 400]


def test_a_read_whose_answer_is_cut_is_repeated(cut: tuple[GatewayClient, Proxy], merchant: Merchant) -> None:
    client, proxy = cut
    order = merchant.order()
    proxy.cut()
    assert client.order(order["id"]).id == order["id"]
