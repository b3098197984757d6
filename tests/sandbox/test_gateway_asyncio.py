"""Every endpoint of the payment gateway and its vault by asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway_shop import CREDIT, details_of
from merchant import EXPIRY, Merchant

from tppkit.client import AsyncGatewayClient, AsyncVaultClient
from tppkit.protocol.gateway import GATEWAY, VAULT, CardRequest, CardSecret, Order, OrderRequest
from tppkit.protocol.gateway.bodies import AuthenticateRequest, PaymentLinkRequest
from tppkit.testpki import Pki


def test_asyncio_calls_every_endpoint(merchant: Merchant, bank_pki: Pki) -> None:
    at, sent = merchant.bank.addresses, set[str]()
    options: dict[str, Any] = {"api_key": merchant.api_key, "server_anchors": [bank_pki.root.certificate]}

    async def run() -> None:
        async with (
            AsyncGatewayClient(at.gateway_url, **options) as client,
            AsyncVaultClient(at.vault_url, **options) as vault,
        ):

            async def call(name: str, *arguments: Any, **named: Any) -> Any:
                sent.add(name)
                return await getattr(client, name)(*arguments, **named)

            async def create(details: Any = None, mode: Any = None) -> tuple[Order, str]:
                chosen = {"payment_method": CREDIT, "capture_mode": mode, "payment_method_details": details}
                body = {"currency": "EUR", "amount": 100, "transactions": ({k: v for k, v in chosen.items() if v},)}
                order: Order = await call("create_order", OrderRequest.from_object(body))
                sent.add("store_card")
                setup_token = details_of(order).setup_token or ""
                card = CardRequest(pan=CardSecret(merchant.pan), expiry=CardSecret(EXPIRY), setup_token=setup_token)
                return order, (await vault.store_card(card)).card.vault_token

            async def paid(mode: Any = None) -> tuple[str, str]:
                order, token = await create(mode=mode)
                ids = order.id, order.transactions[0].id
                body = AuthenticateRequest(vault_token=token, cvc=CardSecret(merchant.cvc))
                assert (await call("authenticate", *ids, body)).status == "completed"
                return ids

            assert (await call("capture", *await paid("manual"))).amount == 100
            assert (await call("capture_amount", *await paid("manual"), 40, description="x")).amount == 40
            assert (await call("void", *await paid("delayed"))).amount == 100
            assert (await call("void_amount", *await paid("delayed"), 40)).amount == 40
            sale, _ = await paid()
            await call("create_refund", sale, 100)
            assert [one.amount for one in await call("refunds", sale)] == [100]
            assert (await call("order", sale)).refunded_amount == 100
            order, token = await create({"recurring_type": "recurring", "first_network_transaction_id": "x"})
            initiated = await call("initiate", order.id, order.transactions[0].id, vault_token=token)
            assert initiated.status == "completed"
            link = await call(
                "create_payment_link", PaymentLinkRequest(merchant_order_id="L", amount=1, currency="EUR")
            )
            assert (await call("payment_link", link.id)).id == link.id
            session = await call(
                "wallet_session", project_id=merchant.project_id, validation_url="https://wallet.invalid/", display_name="Shop",
                initiative_context="shop.example",
            )  # fmt: skip
            assert session.session_data
            sent.update(("search", "search_csv"))
            found = [one.id async for one in client.orders("*", size=3)]
            assert len(found) == len(set(found)) == 11
            assert len([row async for row in client.report("*")]) == len(found)

    asyncio.run(run())
    assert sent == {row.name for row in (*GATEWAY.endpoints, *VAULT.endpoints)}
