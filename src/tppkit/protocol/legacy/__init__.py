"""The earlier third-party-provider interface: what its callbacks carry. Source: PSD2 document, part B."""

from tppkit.protocol.legacy.models import (
    AccessGranted,
    Amount,
    LoginConfirmed,
    LoginPermission,
    LoginRequest,
    Transaction,
)

__all__ = ["AccessGranted", "Amount", "LoginConfirmed", "LoginPermission", "LoginRequest", "Transaction"]
