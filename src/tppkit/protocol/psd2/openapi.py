"""The PSD2 interface as an OpenAPI document: what its rows do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Any

from tppkit.protocol.browser_addresses import BROWSER_PATTERN, BROWSER_RULE, MAX_BROWSER_ADDRESS
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.openapi import Description, HeaderField, Schema
from tppkit.protocol.psd2 import endpoints
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
    ConsentLinks,
    ConsentRequest,
    ConsentState,
    Money,
    PageLinks,
    TransactionPage,
    TransactionReport,
)
from tppkit.protocol.psd2.consent import ConsentStatus
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
)
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.psd2.rules import BookingStatus

_UUID: Schema = {"type": "string", "format": "uuid"}
_DAY: Schema = {"type": "string", "format": "date"}
_PSU_IP_ADDRESS = HeaderField(
    "PSU-IP-Address",
    "The customer's address. An account-data request without it counts against frequencyPerDay.",
    {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
)
_REDIRECT_URI = HeaderField(
    "TPP-Redirect-URI",
    f"The customer is sent here after the decision: {BROWSER_RULE}.",
    {"type": "string", "maxLength": MAX_BROWSER_ADDRESS, "pattern": BROWSER_PATTERN},
)
_CONSENT_ID = HeaderField("Consent-ID", "The consent that the request uses.", {"type": "string", "minLength": 1}, True)


def _names(*rows: Endpoint[Any, Any]) -> frozenset[str]:
    return frozenset(row.name for row in rows)


_CREATING = _names(endpoints.INITIATE_PAYMENT, endpoints.CREATE_CONSENT)
_ACCOUNT_DATA = _names(endpoints.ACCOUNTS, endpoints.BALANCES, endpoints.TRANSACTIONS)
_PAYMENTS = _names(*endpoints.PAYMENTS, endpoints.START_PAYMENT_AUTHORISATION)
_CONSENTS = _names(
    endpoints.CONSENT, endpoints.CONSENT_STATUS, endpoints.DELETE_CONSENT, endpoints.START_CONSENT_AUTHORISATION
)
_NO_ENDPOINT = frozenset[str]()
_SCOPES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "product.invalid": _names(endpoints.INITIATE_PAYMENT),
        "product.unknown": _PAYMENTS,
        "payment.unknown": _PAYMENTS - _CREATING,
        "payment.decided": _names(endpoints.START_PAYMENT_AUTHORISATION),
        "payment.not-cancellable": _names(endpoints.CANCEL_PAYMENT),
        "consent.decided": _names(endpoints.START_CONSENT_AUTHORISATION),
        "consent.unknown": _CONSENTS | _ACCOUNT_DATA,
        "consent.": _ACCOUNT_DATA,
        "account.unknown": _ACCOUNT_DATA,
        "access.exceeded": _ACCOUNT_DATA,
        "request-id.reuse": _CREATING,
        "request-id.in-progress": _CREATING,
        "request-id.answered": _CREATING,
        "form-data.": _NO_ENDPOINT,
    }
)

_IBAN = "LT121000011101001000"
_PAYMENT = PaymentInitiation(
    instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
    creditor_account=AccountReference(iban=_IBAN),
    creditor_name="Bookshop",
    remittance_information_unstructured="Order 4711",
)
_PAYMENT_ID, _CONSENT_VALUE, _RESOURCE = "7f3c2a10", "c41d9e55", "9b0e6f72"
_APPROVAL = "https://bank.example/approve/5e1f"
_LINKS = ApprovalLinks(sca_redirect=Href(href=_APPROVAL), status=Href(href="/status"), self_=Href(href="/self"))
_CONSENT_REQUEST = ConsentRequest(
    access=Access(all_psd2=ALL_ACCOUNTS), valid_until=date(2030, 12, 31), frequency_per_day=4
)
_BALANCE = Balance(balance_type="interimAvailable", balance_amount=Money(currency="EUR", amount="1024.05"))
_EXAMPLES: Mapping[type[Any], Any] = MappingProxyType(
    {
        PaymentInitiation: _PAYMENT,
        PaymentInitiated: PaymentInitiated(
            transaction_status=TransactionStatus.RCVD, payment_id=_PAYMENT_ID, links=_LINKS
        ),
        PaymentStatus: PaymentStatus(transaction_status=TransactionStatus.ACSC),
        PaymentDetails: PaymentDetails.from_object(
            {**_PAYMENT.to_object(), "paymentId": _PAYMENT_ID, "transactionStatus": TransactionStatus.ACSC.value}
        ),
        AuthorisationStart: AuthorisationStart(),
        AuthorisationStarted: AuthorisationStarted(
            sca_status="received", authorisation_id=_PAYMENT_ID, links=ApprovalLinks(sca_redirect=_LINKS.sca_redirect)
        ),
        ConsentRequest: _CONSENT_REQUEST,
        ConsentCreated: ConsentCreated(status=ConsentStatus.RECEIVED, consent_id=_CONSENT_VALUE, links=_LINKS),
        ConsentState: ConsentState(status=ConsentStatus.VALID),
        Consent: Consent(
            consent_id=_CONSENT_VALUE, status=ConsentStatus.VALID, access=_CONSENT_REQUEST.access,
            valid_until=_CONSENT_REQUEST.valid_until, frequency_per_day=_CONSENT_REQUEST.frequency_per_day,
            links=ConsentLinks(self_=_LINKS.self_, status=_LINKS.status),
        ),
        AccountList: AccountList(
            accounts=(Account(resource_id=_RESOURCE, iban=_IBAN, currency="EUR", name="Main", owner_name="Ona"),)
        ),
        BalanceReport: BalanceReport(account=AccountReference(iban=_IBAN), balances=(_BALANCE,)),
        TransactionReport: TransactionReport(
            account=AccountReference(iban=_IBAN),
            transactions=TransactionPage(
                booked=(
                    AccountEntry(
                        transaction_id="a1", booking_date=date(2030, 6, 1), value_date=date(2030, 6, 1),
                        transaction_amount=Money(currency="EUR", amount="-12.50"), creditor_name="Bookshop",
                        remittance_information_unstructured="Order 4711",
                    ),
                ),
                links=PageLinks(next=Href(href="/next")),
            ),
        ),
    }
)  # fmt: skip


def psd2_description(
    *, request_id: str, seal: Iterable[HeaderField], authorization: str | None, answer_seal: Iterable[HeaderField] = ()
) -> Description:
    """Return the description of the interface at one bank.

    Args:
        request_id: the header with the request id.
        seal: the headers of a sealed request.
        authorization: what Authorization contains, if it has the seal, because OpenAPI has no such header.
        answer_seal: the headers of sealed answers.

    Source: PSD2 document, part A sections 4 and 5.
    """
    sealed = tuple(seal)
    id_text = "Identifies the request."
    schemes: dict[str, Schema] = {
        "qwac": {"type": "mutualTLS", "description": "A QWAC with the PSD2 role that the operation names."}
    }
    if authorization is not None:
        schemes["seal"] = {"type": "apiKey", "in": "header", "name": "Authorization", "description": authorization}

    def headers(row: Endpoint[Any, Any]) -> Iterable[HeaderField]:
        yield HeaderField(request_id, id_text, _UUID, required=True)
        if row.name in _CREATING | _ACCOUNT_DATA:
            yield _PSU_IP_ADDRESS._replace(required=any(one.name == _PSU_IP_ADDRESS.name for one in row.headers))
        if row.name in _CREATING:
            yield _REDIRECT_URI
        if row.name in _ACCOUNT_DATA:
            yield _CONSENT_ID
        if row.auth is Auth.SEAL:
            yield from sealed

    def security(row: Endpoint[Any, Any]) -> Mapping[str, list[str]]:
        needed = {"qwac": [row.role] if row.role else []}
        return {**needed, "seal": []} if authorization is not None and row.auth is Auth.SEAL else needed

    return Description(
        title="PSD2 payment initiation and account information",
        text="Every request needs mutual TLS with a QWAC. The bodies of payments and consents are sealed with a QSealC.",
        schemes=schemes,
        security=security,
        parameters={
            "product": {"type": "string", "enum": [*PaymentProduct]},
            "dateFrom": _DAY,
            "dateTo": _DAY,
            "bookingStatus": {"type": "string", "enum": [*BookingStatus]},
            "withBalance": {"type": "boolean"},
        },
        headers=headers,
        answer_headers=(HeaderField(request_id, "That of the request.", _UUID), *answer_seal),
        scopes=_SCOPES,
        examples=_EXAMPLES,
        facts={"approval": _APPROVAL, "self": "/self", "last_action": "2030-06-01"},
    )
