"""Results of the clients' methods, for type checkers: `test_driver_types.py` runs them on this file, which is never imported."""

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, assert_type

from tppkit.client import (
    AsyncGatewayClient,
    AsyncLegacyClient,
    AsyncPsd2Client,
    AsyncVaultClient,
    GatewayClient,
    LegacyClient,
    Psd2Client,
    StoreResult,
    VaultClient,
)
from tppkit.protocol.gateway import CardRequest, Order, OrderRequest
from tppkit.protocol.psd2 import PaymentInitiated, PaymentInitiation, PaymentStatus
from tppkit.protocol.psd2.accounts import AccountEntry


def threads(
    psd2: Psd2Client, legacy: LegacyClient, gateway: GatewayClient, vault: VaultClient, payment: PaymentInitiation, card: CardRequest
) -> None:  # fmt: skip
    assert_type(psd2.initiate_payment(payment), PaymentInitiated)
    assert_type(psd2.payment_status("id"), PaymentStatus)
    assert_type(
        psd2.iter_transactions("consent", "account", date_from=date(2026, 1, 1)), Generator[AccountEntry, None, None]
    )
    assert_type(legacy.balance("token"), Mapping[str, Decimal])
    assert_type(gateway.create_order(OrderRequest(currency="EUR", amount=1)), Order)
    assert_type(gateway.orders("status:new"), Generator[Order, None, None])
    assert_type(vault.store_card(card), StoreResult)
    assert_type(GatewayClient.order(gateway, "id"), Order)


async def tasks(
    psd2: AsyncPsd2Client, legacy: AsyncLegacyClient, gateway: AsyncGatewayClient, vault: AsyncVaultClient, payment: PaymentInitiation,
    card: CardRequest,
) -> None:  # fmt: skip
    assert_type(await psd2.initiate_payment(payment), PaymentInitiated)
    await assert_type(psd2.payment_status("id"), Coroutine[Any, Any, PaymentStatus])
    assert_type(
        psd2.iter_transactions("consent", "account", date_from=date(2026, 1, 1)), AsyncGenerator[AccountEntry, None]
    )
    assert_type(await legacy.balance("token"), Mapping[str, Decimal])
    assert_type(await gateway.create_order(OrderRequest(currency="EUR", amount=1)), Order)
    assert_type(gateway.orders("status:new"), AsyncGenerator[Order, None])
    assert_type(await vault.store_card(card), StoreResult)
    assert_type(await AsyncGatewayClient.order(gateway, "id"), Order)


def mistakes(gateway: GatewayClient, tasks: AsyncGatewayClient) -> None:
    gateway.order()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gateway.order(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(gateway.order("id").state)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(tasks.order("id").status)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
