"""The payment gateway as a merchant writes it: mypy and pyright read this file, nothing imports or runs it."""

from collections.abc import AsyncGenerator, Coroutine, Generator
from datetime import UTC, datetime
from typing import Any, assert_type

from tppkit.client import (
    AsyncGatewayClient,
    AsyncVaultClient,
    GatewayClient,
    OrderOutcomeUnknown,
    StoreResult,
    VaultClient,
    is_paid,
)
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import CardRequest, F, Order, OrderRequest
from tppkit.web import CallbackMiddleware, WebhookGate, WebhookInbox


def merchant(client: GatewayClient, vault: VaultClient, card: CardRequest) -> bool:
    try:
        order: Order = client.create_order(OrderRequest(currency="EUR", amount=1))
    except OrderOutcomeUnknown as e:
        found: tuple[Order, ...] = tuple(e.found)
        return any(is_paid(one, own_checkout=False) for one in found)
    assert_type(client.orders(F("status") == "new"), Generator[Order, None, None])
    assert_type(GatewayClient.order(client, "id"), Order)
    assert_type(vault.store_card(card), StoreResult)
    return is_paid(order, own_checkout=True)


async def merchant_of_tasks(client: AsyncGatewayClient, vault: AsyncVaultClient, card: CardRequest) -> None:
    order: Order = await client.create_order(OrderRequest(currency="EUR", amount=1))
    await assert_type(client.order(str(order.id)), Coroutine[Any, Any, Order])
    assert_type(client.orders("status:new"), AsyncGenerator[Order, None])
    assert_type(await AsyncGatewayClient.order(client, "id"), Order)
    assert_type(await vault.store_card(card), StoreResult)


def ship(order: Order, connection: Any) -> None:
    print(order.id, order.status)


def server(app: Any, client: GatewayClient, path: str) -> CallbackMiddleware:
    inbox = WebhookInbox(InboxStore("sqlite:///shop.sqlite"), client.order)
    inbox.work(ship, at=datetime.now(UTC))
    return CallbackMiddleware(app, gate=WebhookGate(inbox, path=path))


def mistakes(client: GatewayClient, tasks: AsyncGatewayClient) -> None:
    client.order()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.order(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(client.order("id").state)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(tasks.order("id").status)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
