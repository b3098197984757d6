"""Errors of the PSD2 interface: HTTP status and code for each prefix of our codes (the longest match counts), and the body.

Source: PSD2 document, part A section 7; NextGenPSD2 Implementation Guidelines 1.3.8 section 14.11 for what it leaves open
(assumptions signature-status, certificate-codes, role-status, unknown-payment, cancel-code, request-in-progress, not-now,
error-body, consent-codes, access-exceeded, account-unknown).
"""

from __future__ import annotations

import json
from typing import Any

from tppkit.protocol.refusals import COMMON_ROWS, MAX_TEXT, Refusal, RefusalRow, Refusals


def _write(refusal: Refusal) -> bytes:
    message = {"category": "ERROR", "code": refusal.code, "text": refusal.text[:MAX_TEXT]}
    return json.dumps({"tppMessages": [message]}, ensure_ascii=False, separators=(",", ":")).encode()


def _find(body: Any) -> tuple[object, object]:
    message = body["tppMessages"][0]
    return message.get("code"), message.get("text")


_ROWS = (
    ("certificate.missing", 401, "CERTIFICATE_MISSING"),
    ("certificate.expired", 401, "CERTIFICATE_EXPIRED"),
    ("certificate.", 401, "CERTIFICATE_INVALID"),
    ("der.", 401, "CERTIFICATE_INVALID"),
    ("pem.", 401, "CERTIFICATE_INVALID"),
    ("trusted-list.", 401, "CERTIFICATE_INVALID"),
    ("trust.", 401, "CERTIFICATE_INVALID"),
    ("revocation.revoked", 401, "CERTIFICATE_REVOKED"),
    ("revocation.", 401, "CERTIFICATE_INVALID"),
    ("path.", 401, "CERTIFICATE_INVALID"),
    ("qcstatements.", 401, "CERTIFICATE_INVALID"),
    ("organization-identifier.", 401, "CERTIFICATE_INVALID"),
    ("signature.missing", 401, "SIGNATURE_MISSING"),
    ("signature.", 401, "SIGNATURE_INVALID"),
    ("digest.", 401, "SIGNATURE_INVALID"),
    ("key-id.", 401, "SIGNATURE_INVALID"),
    ("key.", 401, "SIGNATURE_INVALID"),
    ("profile.key", 401, "SIGNATURE_INVALID"),
    ("seal.other-organisation", 401, "SIGNATURE_INVALID"),
    ("seal.unknown-certificate", 401, "SIGNATURE_INVALID"),
    ("jws.", 401, "SIGNATURE_INVALID"),
    ("structured.", 401, "SIGNATURE_INVALID"),
    ("form-data.", 400, "FORMAT_ERROR"),
    ("base64.", 401, "SIGNATURE_INVALID"),
    *COMMON_ROWS,
    ("transport.timeout", 408, "FORMAT_ERROR"),
    ("transport.busy", 503, "SERVICE_UNAVAILABLE"),
    ("request-id.reuse", 409, "REQUEST_ID_REUSE"),
    ("request-id.in-progress", 409, "STATUS_INVALID"),
    ("request-id.answered", 409, "STATUS_INVALID"),
    ("request-id.", 400, "FORMAT_ERROR"),
    ("product.invalid", 400, "PRODUCT_INVALID"),
    ("product.unknown", 404, "PRODUCT_UNKNOWN"),
    ("payment.unknown", 403, "RESOURCE_UNKNOWN"),
    ("payment.decided", 409, "STATUS_INVALID"),
    ("consent.decided", 409, "STATUS_INVALID"),
    ("payment.not-cancellable", 409, "CANCELLATION_INVALID"),
    ("consent.unknown", 403, "CONSENT_UNKNOWN"),
    ("consent.invalid", 401, "CONSENT_INVALID"),
    ("consent.expired", 401, "CONSENT_EXPIRED"),
    ("consent.access", 401, "CONSENT_INVALID"),
    ("account.unknown", 403, "RESOURCE_UNKNOWN"),
    ("access.exceeded", 429, "ACCESS_EXCEEDED"),
    ("endpoint.unknown", 404, "RESOURCE_UNKNOWN"),
    ("endpoint.method", 405, "SERVICE_INVALID"),
    ("role.missing", 403, "ROLE_INVALID"),
    ("archive.unusable", 503, "SERVICE_UNAVAILABLE"),
    ("replay.unavailable", 503, "SERVICE_UNAVAILABLE"),
)

REFUSALS = Refusals(rows=tuple(RefusalRow(*row) for row in _ROWS), write=_write, find=_find)
