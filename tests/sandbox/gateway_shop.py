"""A merchant's backend that uses both clients of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from merchant import EXPIRY, Merchant

from tppkit.client import GatewayClient, VaultClient
from tppkit.errors import RequestRefused
from tppkit.protocol.gateway import (
    CardRequest,
    CardSecret,
    Order,
    OrderRequest,
    PaymentMethodDetails,
    TransactionRequest,
)
from tppkit.protocol.gateway.bodies import AuthenticateRequest
from tppkit.testpki import Pki

CREDIT = "credit-card"


class Shop:
    """A merchant's backend: both clients, and the control calls of its developer.

    Attributes:
        merchant: control calls, and the cards of the test.
    """

    def __init__(self, merchant: Merchant, pki: Pki, opened: ExitStack) -> None:
        self.merchant, at = merchant, merchant.bank.addresses
        options: dict[str, Any] = {"api_key": merchant.api_key, "server_anchors": [pki.root.certificate]}
        self.client = opened.enter_context(GatewayClient(at.gateway_url, **options))
        self.vault = opened.enter_context(VaultClient(at.vault_url, **options))

    def create(self, amount: int = 1000, *, details: Any = None, method: str | None = CREDIT, **fields: Any) -> Order:
        """An order for an own checkout, on the hosted page with `method=None`."""
        mode, period = fields.pop("capture_mode", None), fields.pop("period", None)
        if details is not None:
            details = PaymentMethodDetails.from_object(details)
        transaction = TransactionRequest(
            payment_method=method, capture_mode=mode, expiration_period=period, payment_method_details=details
        )
        chosen = {} if method is None else {"transactions": (transaction,)}
        return self.client.create_order(OrderRequest(**{"currency": "EUR", "amount": amount, **chosen, **fields}))

    def card(self, order: Order, pan: str | None = None, name: str | None = None) -> CardRequest:
        """A card for an order."""
        (transaction,) = order.transactions
        assert transaction.payment_method_details is not None
        assert transaction.payment_method_details.setup_token is not None
        number = self.merchant.pan if pan is None else self.merchant.cards.pan(pan)
        token = transaction.payment_method_details.setup_token
        return CardRequest(pan=CardSecret(number), expiry=CardSecret(EXPIRY), setup_token=token, name=name)

    def authenticate(self, order: Order, vault_token: str, **external: Any) -> Order:
        body = {"vault_token": vault_token, "cvc": self.merchant.cvc, **external}
        return self.client.authenticate(order.id, order.transactions[0].id, AuthenticateRequest.from_object(body))

    def own_checkout(
        self, amount: int = 1000, *, pan: str | None = None, name: str | None = None, **fields: Any
    ) -> Order:
        """An order after the three steps of section 4.6, as it is retrieved."""
        order = self.create(amount, **fields)
        self.authenticate(order, self.vault.store_card(self.card(order, pan, name)).card.vault_token)
        return self.client.order(order.id)

    def capture(self, order: Order, amount: int, description: str = "part") -> Order:
        return self.client.capture_amount(order.id, order.transactions[0].id, amount, description=description)

    def void(self, order: Order, amount: int) -> Order:
        return self.client.void_amount(order.id, order.transactions[0].id, amount)


Open = Callable[[Merchant], Shop]


def refusal(call: Callable[[], object]) -> tuple[int, str | None]:
    """Status and code of the answer to a call that must be refused."""
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value.status, refused.value.peer_code


def details_of(order: Order) -> PaymentMethodDetails:
    (transaction,) = order.transactions
    assert transaction.payment_method_details is not None
    return transaction.payment_method_details
