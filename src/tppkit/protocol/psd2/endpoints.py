"""Endpoint rows of the PSD2 interface. Source: PSD2 document, part A section 4 (rows) and section 5 rules 2 and 4."""

from __future__ import annotations

from datetime import timedelta

from tppkit.protocol.endpoint import Auth, Endpoint, Once
from tppkit.protocol.psd2.models import PaymentDetails, PaymentInitiated, PaymentInitiation, PaymentStatus
from tppkit.protocol.wire import Json, Nothing

PREFIX = "/psd2/v1"
IDEMPOTENCY_WINDOW = timedelta(hours=1)

_PAYMENTS = PREFIX + "/payments/{product}"
_PAYMENT = _PAYMENTS + "/{payment_id}"
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
