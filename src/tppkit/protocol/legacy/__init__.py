"""The legacy interface for third-party providers. Source: PSD2 document, part B."""

from tppkit.protocol.legacy.models import (
    AccessGranted,
    LoginConfirmed,
    LoginPermission,
    LoginRequest,
    PaymentOrder,
    Transaction,
)
from tppkit.protocol.legacy.money import Amount

__all__ = [
    "AccessGranted",
    "Amount",
    "LoginConfirmed",
    "LoginPermission",
    "LoginRequest",
    "PaymentOrder",
    "Transaction",
]
