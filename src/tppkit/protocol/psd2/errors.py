"""How a failure is told to the peer: HTTP status and code, in the Berlin Group's body.

Source: PSD2 document, part A section 7; NextGenPSD2 Implementation Guidelines 1.3.8 section 14.11 for what it leaves open
(assumptions signature-status, certificate-codes, role-status, unknown-payment, cancel-code, request-in-progress, not-now,
error-body).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tppkit._encoding import parse_json
from tppkit.errors import ConfigurationError, FormatError, TppkitError

MAX_TEXT = 500
MAX_ERROR_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the peer is told.

    Attributes:
        status: HTTP status.
        code: the message code.
        text: an explanation without secrets, at most 500 characters.
    """

    status: int
    code: str
    text: str

    def body(self) -> bytes:
        """The JSON body."""
        message = {"category": "ERROR", "code": self.code, "text": self.text[:MAX_TEXT]}
        return json.dumps({"tppMessages": [message]}, ensure_ascii=False, separators=(",", ":")).encode()


# Our code, or its beginning with a dot, to (status, peer code); the longest fit counts.
REFUSALS: tuple[tuple[str, int, str], ...] = (
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
    ("base64.", 401, "SIGNATURE_INVALID"),
    ("header.", 400, "FORMAT_ERROR"),
    ("message.too-large", 413, "FORMAT_ERROR"),
    ("message.no-length", 411, "FORMAT_ERROR"),
    ("message.", 400, "FORMAT_ERROR"),
    ("transport.disconnected", 400, "FORMAT_ERROR"),  # half of the connection may still stand
    ("json.", 400, "FORMAT_ERROR"),
    ("model.", 400, "FORMAT_ERROR"),
    ("request-id.reuse", 409, "REQUEST_ID_REUSE"),
    ("request-id.in-progress", 409, "STATUS_INVALID"),
    ("request-id.answered", 409, "STATUS_INVALID"),
    ("request-id.", 400, "FORMAT_ERROR"),
    ("product.invalid", 400, "PRODUCT_INVALID"),
    ("product.unknown", 404, "PRODUCT_UNKNOWN"),
    ("payment.unknown", 403, "RESOURCE_UNKNOWN"),
    ("payment.not-cancellable", 409, "CANCELLATION_INVALID"),
    ("endpoint.unknown", 404, "RESOURCE_UNKNOWN"),
    ("endpoint.method", 405, "SERVICE_INVALID"),
    ("role.missing", 403, "ROLE_INVALID"),
    ("archive.unusable", 503, "SERVICE_UNAVAILABLE"),
    ("database.unavailable", 503, "SERVICE_UNAVAILABLE"),
    ("evidence.not-kept", 503, "SERVICE_UNAVAILABLE"),
    ("replay.unavailable", 503, "SERVICE_UNAVAILABLE"),
)


def refusal_for(error: TppkitError) -> Refusal:
    """What to tell the peer about a failure; a code without a row is ours to mend and gives 500 without details.

    So does every `ConfigurationError`: that a key or an anchor of ours cannot be read has a code that looks like the peer's fault.
    """
    fits = [row for row in REFUSALS if error.code == row[0] or (row[0].endswith(".") and error.code.startswith(row[0]))]
    if not fits or isinstance(error, ConfigurationError):
        return Refusal(500, "INTERNAL_SERVER_ERROR", "the request could not be handled")
    _, status, code = max(fits, key=lambda row: len(row[0]))
    if status >= 500:
        return Refusal(status, code, "the request cannot be handled now")
    return Refusal(status, code, f"{error.message} ({error.code})")


def parse_refusal(status: int, raw: bytes) -> tuple[str | None, str | None]:
    """Code and text of the first message in an error body; None for each that is not there, whatever the bytes."""
    try:
        body = parse_json(raw, what=f"the body of the {status} answer", max_bytes=MAX_ERROR_BYTES)
        message = body["tppMessages"][0]
        code, text = message.get("code"), message.get("text")
    except (FormatError, LookupError, TypeError, AttributeError):
        return None, None
    return (code[:64] if isinstance(code, str) else None), (text[:MAX_TEXT] if isinstance(text, str) else None)
