"""The PSD2 interface: payment initiation and account information. Source: PSD2 document, part A."""

from tppkit.protocol.psd2.accounts import (
    ALL_ACCOUNTS,
    Access,
    Account,
    AccountList,
    Balance,
    BalanceReport,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    Money,
    Transaction,
    TransactionPage,
    TransactionReport,
)
from tppkit.protocol.psd2.consent import CONSENT, ConsentStatus
from tppkit.protocol.psd2.endpoints import PSD2
from tppkit.protocol.psd2.models import (
    AccountReference,
    ApprovalLinks,
    Href,
    InstructedAmount,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
)
from tppkit.protocol.psd2.payment import PAYMENT, TransactionStatus
from tppkit.protocol.psd2.rules import BankRules, BookingStatus

__all__ = [
    "ALL_ACCOUNTS", "CONSENT", "PAYMENT", "PSD2", "Access", "Account", "AccountList", "AccountReference", "ApprovalLinks",
    "Balance", "BalanceReport", "BankRules", "BookingStatus", "Consent", "ConsentCreated", "ConsentRequest", "ConsentState",
    "ConsentStatus", "Href", "InstructedAmount", "Money", "PaymentDetails", "PaymentInitiated", "PaymentInitiation",
    "PaymentProduct", "PaymentStatus", "Transaction", "TransactionPage", "TransactionReport", "TransactionStatus",
]  # fmt: skip
