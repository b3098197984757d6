"""The payment gateway and card vault. Source: gateway document."""

from tppkit.protocol.gateway.bodies import (
    AuthenticateRequest,
    CardRequest,
    PaymentLink,
    PaymentLinkRequest,
    ReportRow,
    SearchResult,
    VaultCard,
    WalletSession,
)
from tppkit.protocol.gateway.card_data import CardSecret
from tppkit.protocol.gateway.orders import (
    CaptureMode,
    CreditDebit,
    Customer,
    OneClickType,
    Order,
    OrderRequest,
    OrderTransaction,
    PaymentMethodDetails,
    Refund,
    TransactionRequest,
)
from tppkit.protocol.gateway.payments import DeliveryState, is_paid
from tppkit.protocol.gateway.query import F, Query
from tppkit.protocol.gateway.states import LinkStatus, OrderStatus

__all__ = [
    "AuthenticateRequest", "CaptureMode", "CardRequest", "CardSecret", "CreditDebit", "Customer", "DeliveryState", "F", "LinkStatus",
    "OneClickType", "Order", "OrderRequest", "OrderStatus", "OrderTransaction", "PaymentLink", "PaymentLinkRequest",
    "PaymentMethodDetails", "Query", "Refund", "ReportRow", "SearchResult", "TransactionRequest", "VaultCard", "WalletSession",
    "is_paid",
]  # fmt: skip
