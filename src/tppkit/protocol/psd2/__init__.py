"""The PSD2 interface: payment initiation. Source: PSD2 document, part A."""

from tppkit.protocol.psd2.endpoints import ENDPOINTS
from tppkit.protocol.psd2.models import (
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
)
from tppkit.protocol.psd2.payment import PAYMENT, TransactionStatus

__all__ = [
    "ENDPOINTS", "PAYMENT", "PaymentDetails", "PaymentInitiated", "PaymentInitiation", "PaymentProduct", "PaymentStatus",
    "TransactionStatus",
]  # fmt: skip
