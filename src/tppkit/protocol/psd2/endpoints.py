"""Endpoint rows of the PSD2 interface. Source: PSD2 document, part A section 4 (rows) and section 5 rules 2 and 4."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tppkit.protocol.endpoint import Endpoint

PREFIX = "/psd2/v1"
_PAYMENTS = PREFIX + "/payments/{product}"
_PAYMENT = _PAYMENTS + "/{payment_id}"
_SOURCE = "PSD2 document A.4"

INITIATE_PAYMENT = Endpoint("initiate_payment", "POST", _PAYMENTS, True, "PSP_PI", 201, _SOURCE)
PAYMENT_STATUS = Endpoint("payment_status", "GET", _PAYMENT + "/status", False, "PSP_PI", 200, _SOURCE)
PAYMENT_DETAILS = Endpoint("payment_details", "GET", _PAYMENT, False, "PSP_PI", 200, _SOURCE)
CANCEL_PAYMENT = Endpoint("cancel_payment", "DELETE", _PAYMENT, False, "PSP_PI", 200, _SOURCE)

ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType(
    {row.name: row for row in (INITIATE_PAYMENT, PAYMENT_STATUS, PAYMENT_DETAILS, CANCEL_PAYMENT)}
)
