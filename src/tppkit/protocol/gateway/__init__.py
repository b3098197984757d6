"""The payment gateway and card vault. Source: gateway document."""

from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest, PaymentLink, PaymentLinkRequest, VaultCard
from tppkit.protocol.gateway.card_data import CardSecret
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.gateway.orders import (
    Customer,
    Order,
    OrderRequest,
    PaymentMethodDetails,
    Transaction,
    TransactionRequest,
)
from tppkit.protocol.gateway.payments import DeliveryState, is_paid
from tppkit.protocol.gateway.query import F, Query, parse_query
from tppkit.protocol.gateway.states import AUTHORISATION, ORDER, PAYMENT_LINK, SETUP_TOKEN, TRANSACTION

__all__ = [
    "AUTHORISATION", "GATEWAY", "ORDER", "PAYMENT_LINK", "SETUP_TOKEN", "TRANSACTION", "VAULT", "AuthenticateRequest", "CardRequest",
    "CardSecret", "Customer", "DeliveryState", "F", "Order", "OrderRequest", "PaymentLink", "PaymentLinkRequest", "PaymentMethodDetails",
    "Query", "Transaction", "TransactionRequest", "VaultCard", "is_paid", "parse_query",
]  # fmt: skip
