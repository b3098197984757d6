"""The PSD2 interface: payment initiation and account information. Source: PSD2 document, part A."""

from tppkit.protocol.psd2.accounts import (
    ALL_ACCOUNTS,
    Access,
    Account,
    AccountEntry,
    AccountList,
    Balance,
    BalanceReport,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    Money,
    TransactionPage,
    TransactionReport,
)
from tppkit.protocol.psd2.consent import ConsentStatus
from tppkit.protocol.psd2.endpoints import PSD2
from tppkit.protocol.psd2.models import (
    AccountReference,
    ApprovalLinks,
    AuthorisationStart,
    AuthorisationStarted,
    Href,
    InstructedAmount,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    Psd2Model,
)
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.psd2.persona import PERSONAS, Persona, check_persona, load_persona, parse_persona
from tppkit.protocol.psd2.persona_file import PersonaFault
from tppkit.protocol.psd2.rules import BankRules, BookingStatus

__all__ = [
    "ALL_ACCOUNTS", "PERSONAS", "PSD2", "Access", "Account", "AccountEntry", "AccountList", "AccountReference", "ApprovalLinks",
    "AuthorisationStart", "AuthorisationStarted", "Balance",
    "BalanceReport", "BankRules", "BookingStatus", "Consent", "ConsentCreated", "ConsentRequest", "ConsentState", "ConsentStatus",
    "Href", "InstructedAmount", "Money", "PaymentDetails", "PaymentInitiated", "PaymentInitiation", "PaymentProduct", "PaymentStatus",
    "Persona", "PersonaFault", "Psd2Model", "TransactionPage", "TransactionReport", "TransactionStatus", "check_persona",
    "load_persona", "parse_persona",
]  # fmt: skip
