"""Errors of the legacy interface: HTTP status and code.

Source: PSD2 document, part B section 7, which names 401, and 400 for an unknown account; the others are assumptions (legacy-errors,
access-refused, access-repeated, tx-repeats).
"""

from __future__ import annotations

from tppkit.protocol.refusals import RefusalRow, Refusals, find_error, write_error

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
    ("header.", 400, "FORMAT_ERROR"),
    ("body.unexpected", 400, "FORMAT_ERROR"),
    ("query.", 400, "FORMAT_ERROR"),
    ("message.too-large", 413, "FORMAT_ERROR"),
    ("message.no-length", 411, "FORMAT_ERROR"),
    ("message.", 400, "FORMAT_ERROR"),
    ("transport.disconnected", 400, "FORMAT_ERROR"),  # the client may have closed its sending half only
    ("json.", 400, "FORMAT_ERROR"),
    ("model.", 400, "FORMAT_ERROR"),
    ("endpoint.unknown", 404, "NOT_FOUND"),
    ("endpoint.method", 405, "METHOD_NOT_ALLOWED"),
    ("replay.unavailable", 503, "SERVICE_UNAVAILABLE"),
    ("transport.busy", 503, "SERVICE_UNAVAILABLE"),
    ("database.unavailable", 503, "SERVICE_UNAVAILABLE"),
)

REFUSALS = Refusals(rows=tuple(RefusalRow(*row) for row in _ROWS), write=write_error, find=find_error)
