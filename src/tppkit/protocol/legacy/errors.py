"""Errors of the legacy interface: HTTP status and code.

Source: PSD2 document, part B section 7, which names 401, and 400 for an unknown account; the others are assumptions (legacy-errors,
access-refused, access-repeated, tx-repeats).
"""

from __future__ import annotations

from tppkit.protocol.refusals import COMMON_ROWS, RefusalRow, Refusals, find_error, write_error

_ROWS = (
    ("credentials.missing", 401, "UNAUTHORIZED"),
    ("credentials.unknown", 401, "UNAUTHORIZED"),
    ("token.refused", 401, "UNAUTHORIZED"),
    ("token.malformed", 400, "FORMAT_ERROR"),
    ("token.reuse", 409, "TOKEN_REUSE"),
    ("account.unknown", 400, "ACCOUNT_NOT_FOUND"),
    ("order.currency", 400, "CURRENCY_INVALID"),
    ("order.receiver", 400, "RECEIVER_INCOMPLETE"),
    ("order.", 400, "FORMAT_ERROR"),
    ("request-id.reuse", 409, "UUID_REUSE"),
    *COMMON_ROWS,
    ("endpoint.unknown", 404, "NOT_FOUND"),
    ("endpoint.method", 405, "METHOD_NOT_ALLOWED"),
    ("replay.unavailable", 503, "SERVICE_UNAVAILABLE"),
    ("transport.busy", 503, "SERVICE_UNAVAILABLE"),
)

REFUSALS = Refusals(rows=tuple(RefusalRow(*row) for row in _ROWS), write=write_error, find=find_error)
