"""The legacy interface for third-party providers. Source: PSD2 document, part B."""

from tppkit.protocol.legacy.endpoints import CALLBACKS, LEGACY, Callback
from tppkit.protocol.legacy.models import (
    AccessGranted,
    AccessRequest,
    LoginConfirmed,
    LoginPermission,
    LoginRequest,
    PaymentOrder,
    Transaction,
)
from tppkit.protocol.legacy.money import Amount
from tppkit.protocol.legacy.rules import CATEGORIES, LifeCycle, category

__all__ = [
    "CALLBACKS", "CATEGORIES", "LEGACY", "AccessGranted", "AccessRequest", "Amount", "Callback", "LifeCycle", "LoginConfirmed",
    "LoginPermission", "LoginRequest", "PaymentOrder", "Transaction", "category",
]  # fmt: skip
