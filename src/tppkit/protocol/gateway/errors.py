"""Errors of the gateway and its vault: HTTP status and code.

Source: gateway document, section 7, which shows neither codes nor bodies, so all are assumptions (gateway-errors).
"""

from __future__ import annotations

from tppkit.protocol.refusals import COMMON_ROWS, RefusalRow, Refusals, find_error, write_error

_ROWS = (
    ("credentials.malformed", 401, "UNAUTHORIZED"),
    ("credentials.missing", 401, "UNAUTHORIZED"),
    ("credentials.unknown", 401, "UNAUTHORIZED"),
    ("order.unknown", 404, "NOT_FOUND"),
    ("transaction.unknown", 404, "NOT_FOUND"),
    ("payment-link.unknown", 404, "NOT_FOUND"),
    ("vault-token.unknown", 404, "NOT_FOUND"),
    ("setup-token.unknown", 404, "NOT_FOUND"),
    ("setup-token.", 400, "SETUP_TOKEN_INVALID"),
    ("card.", 400, "CARD_INVALID"),
    ("order.too-many", 409, "STATUS_INVALID"),
    ("order.method", 400, "FORMAT_ERROR"),
    ("gateway.webhook-url", 400, "WEBHOOK_URL_INVALID"),
    ("one-click.", 400, "ONE_CLICK_INVALID"),
    ("recurring.", 400, "RECURRING_INVALID"),
    ("aft.", 400, "AFT_INVALID"),
    ("aft.not-enabled", 403, "AFT_NOT_ENABLED"),
    ("external-authentication.", 400, "AUTHENTICATION_INVALID"),
    ("authorisation.", 409, "AUTHORISATION_CLOSED"),
    ("authorisation.amount", 400, "AMOUNT_INVALID"),
    ("refund.amount", 400, "AMOUNT_INVALID"),
    ("machine.", 409, "STATUS_INVALID"),
    ("wallet.merchant", 400, "FORMAT_ERROR"),
    ("search.", 400, "SEARCH_INVALID"),
    *COMMON_ROWS,
    ("endpoint.unknown", 404, "NOT_FOUND"),
    ("endpoint.method", 405, "METHOD_NOT_ALLOWED"),
)

REFUSALS = Refusals(rows=tuple(RefusalRow(*row) for row in _ROWS), write=write_error, find=find_error)
