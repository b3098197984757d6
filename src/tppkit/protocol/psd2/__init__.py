"""The PSD2 interface: payment initiation. Source: PSD2 document, part A."""

from tppkit.protocol.psd2.interface import PSD2
from tppkit.protocol.psd2.models import (
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
)
from tppkit.protocol.psd2.payment import PAYMENT, TransactionStatus

__all__ = [
    "PAYMENT", "PSD2", "PaymentDetails", "PaymentInitiated", "PaymentInitiation", "PaymentProduct", "PaymentStatus",
    "TransactionStatus",
]  # fmt: skip
