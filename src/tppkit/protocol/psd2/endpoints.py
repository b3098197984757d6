"""The PSD2 interface and its endpoint rows. Source: PSD2 document, part A section 4 (rows) and section 5 rules 2 and 4."""

from __future__ import annotations

from datetime import timedelta

from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Once, Query
from tppkit.protocol.psd2.accounts import (
    AccountList,
    BalanceReport,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    TransactionReport,
)
from tppkit.protocol.psd2.errors import REFUSALS
from tppkit.protocol.psd2.models import (
    AuthorisationStart,
    AuthorisationStarted,
    PaymentDetails,
    PaymentInitiated,
    PaymentInitiation,
    PaymentStatus,
)
from tppkit.protocol.psd2.rules import parse_request_id
from tppkit.protocol.wire import MAX_ARRAY_BYTES, Json, Nothing

PREFIX = "/psd2/v1"
IDEMPOTENCY_WINDOW = timedelta(hours=1)

_PAYMENTS = PREFIX + "/payments/{product}"
_PAYMENT = _PAYMENTS + "/{payment_id}"
_CONSENT = PREFIX + "/consents/{consent_id}"
_ACCOUNT = PREFIX + "/accounts/{resource_id}"
_SOURCE = "PSD2 document A.4"

INITIATE_PAYMENT = Endpoint(
    name="initiate_payment", method="POST", path=_PAYMENTS, source=_SOURCE, auth=Auth.SEAL, role="PSP_PI",
    request=Json(PaymentInitiation), answer=Json(PaymentInitiated), success=201,
    once=Once(header="x-request-id", window=IDEMPOTENCY_WINDOW),
)  # fmt: skip
PAYMENT_STATUS = Endpoint(
    name="payment_status", method="GET", path=_PAYMENT + "/status", source=_SOURCE, auth=Auth.QWAC, role="PSP_PI",
    request=Nothing(), answer=Json(PaymentStatus), safe=True,
)  # fmt: skip
PAYMENT_DETAILS = Endpoint(
    name="payment_details", method="GET", path=_PAYMENT, source=_SOURCE, auth=Auth.QWAC, role="PSP_PI",
    request=Nothing(), answer=Json(PaymentDetails), safe=True,
)  # fmt: skip
CANCEL_PAYMENT = Endpoint(
    name="cancel_payment", method="DELETE", path=_PAYMENT, source=_SOURCE, auth=Auth.QWAC, role="PSP_PI",
    request=Nothing(), answer=Json(PaymentStatus),
)  # fmt: skip
CREATE_CONSENT = Endpoint(
    name="create_consent", method="POST", path=PREFIX + "/consents", source=_SOURCE, auth=Auth.SEAL, role="PSP_AI",
    request=Json(ConsentRequest), answer=Json(ConsentCreated), success=201,  # assumption consent-created
    once=Once(header="x-request-id", window=IDEMPOTENCY_WINDOW),  # assumption consent-repeats
)  # fmt: skip
CONSENT = Endpoint(
    name="consent", method="GET", path=_CONSENT, source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Json(Consent), safe=True,
)  # fmt: skip
CONSENT_STATUS = Endpoint(
    name="consent_status", method="GET", path=_CONSENT + "/status", source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Json(ConsentState), safe=True,
)  # fmt: skip
DELETE_CONSENT = Endpoint(
    name="delete_consent", method="DELETE", path=_CONSENT, source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Nothing(), success=204,  # assumption consent-revoked
)  # fmt: skip
ACCOUNTS = Endpoint(
    name="accounts", method="GET", path=PREFIX + "/accounts", source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Json(AccountList, MAX_ARRAY_BYTES), query=(Query("withBalance"),), safe=True,
)  # fmt: skip
BALANCES = Endpoint(
    name="balances", method="GET", path=_ACCOUNT + "/balances", source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Json(BalanceReport, MAX_ARRAY_BYTES), safe=True,
)  # fmt: skip
TRANSACTIONS = Endpoint(
    name="transactions", method="GET", path=_ACCOUNT + "/transactions", source=_SOURCE, auth=Auth.QWAC, role="PSP_AI",
    request=Nothing(), answer=Json(TransactionReport, MAX_ARRAY_BYTES), safe=True,
    query=(Query("dateFrom", required=True), Query("dateTo"), Query("bookingStatus"), Query("after")),
)  # fmt: skip

# Only of banks that answer a new payment or consent with startAuthorisation in place of scaRedirect.
_GUIDELINES = "NextGenPSD2 Implementation Guidelines 1.3.8 section 7.1"
START_PAYMENT_AUTHORISATION = Endpoint(
    name="start_payment_authorisation", method="POST", path=_PAYMENT + "/authorisations", source=_GUIDELINES, auth=Auth.QWAC,
    role="PSP_PI", request=Json(AuthorisationStart), answer=Json(AuthorisationStarted), success=201, safe=True,
)  # fmt: skip
START_CONSENT_AUTHORISATION = Endpoint(
    name="start_consent_authorisation", method="POST", path=_CONSENT + "/authorisations", source=_GUIDELINES, auth=Auth.QWAC,
    role="PSP_AI", request=Json(AuthorisationStart), answer=Json(AuthorisationStarted), success=201, safe=True,
)  # fmt: skip

AUTHORISATIONS = (START_PAYMENT_AUTHORISATION, START_CONSENT_AUTHORISATION)
PAYMENTS = (INITIATE_PAYMENT, PAYMENT_STATUS, PAYMENT_DETAILS, CANCEL_PAYMENT)
ACCOUNT_INFORMATION = (
    CREATE_CONSENT, CONSENT, CONSENT_STATUS, DELETE_CONSENT, ACCOUNTS, BALANCES, TRANSACTIONS,
)  # fmt: skip

#: The PSD2 interface as a table: its endpoints and refusals.
PSD2 = Interface(
    name="psd2",
    endpoints=(*PAYMENTS, *ACCOUNT_INFORMATION),
    refusals=REFUSALS,
    default_auth=Auth.QWAC,
    request_id="x-request-id",
    parse_request_id=parse_request_id,
)
