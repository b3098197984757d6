"""The rows of a persona: those of the PSD2 document, with what the bank does in another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tppkit.protocol.adapted import AdaptedAnswer, RequiredFields, States
from tppkit.protocol.endpoint import Endpoint, Interface, Query, RequiredHeader
from tppkit.protocol.psd2.endpoints import AUTHORISATIONS, PREFIX, PSD2
from tppkit.protocol.psd2.persona_file import PersonaFile, RowChanges
from tppkit.protocol.refusals import RefusalRow, Refusals
from tppkit.protocol.wire import Json

# The rows whose answers have a state: its field, and whether it is a consent's.
_PAYMENT_ROWS = frozenset({"initiate_payment", "payment_status", "payment_details", "cancel_payment"})
_CONSENT_ROWS = frozenset({"create_consent", "consent", "consent_status"})
_LINKED_ROWS = frozenset({"initiate_payment", "create_consent"})
_OTHER_LINKS = {"scaOAuth": "{approval}", "startAuthorisation": "{self}/authorisations"}


def adapted_interface(file: PersonaFile) -> Interface:
    """Return the interface of a persona; the object `PSD2` itself where nothing differs."""
    further = AUTHORISATIONS if file.approval_link == "startAuthorisation" else ()
    rows = tuple(_row(row, file) for row in (*PSD2.endpoints, *further))
    refusals = _refusals(PSD2.refusals, file.refusals)
    if rows == PSD2.endpoints and refusals == PSD2.refusals:
        return PSD2
    return replace(PSD2, endpoints=rows, refusals=refusals)


def _row(row: Endpoint[Any, Any], file: PersonaFile) -> Endpoint[Any, Any]:
    everywhere, own = file.endpoints.get("all", RowChanges()), file.endpoints.get(row.name, RowChanges())
    headers = {**everywhere.headers, **own.headers}
    answer_headers = {**everywhere.answer_headers, **own.answer_headers}
    return replace(
        row,
        path=file.prefix + row.path.removeprefix(PREFIX),
        success=own.success or row.success,
        query=_query(row.query, own.query, own.optional_query),
        headers=tuple(RequiredHeader(*one) for one in headers.items()),
        answer_headers=tuple(answer_headers.items()),
        request=_request(row.request, own),
        answer=_answer(row, file, own.answer_fields),
    )


def _request(request: Any, own: RowChanges) -> Any:
    is_adapted = bool(own.fields or own.optional_fields) and isinstance(request, Json)
    return RequiredFields(request, own.fields, own.optional_fields) if is_adapted else request


def _query(rows: tuple[Query, ...], required: Mapping[str, str | None], optional: tuple[str, ...]) -> tuple[Query, ...]:
    found = [one._replace(required=True, default=required[one.name]) if one.name in required else one for one in rows]
    known = {one.name for one in rows}
    further = (Query(name, required=True, default=one) for name, one in required.items() if name not in known)
    return (*found, *further, *(Query(name) for name in optional if name not in known and name not in required))


def _answer(row: Endpoint[Any, Any], file: PersonaFile, further: Mapping[str, Any]) -> Any:
    states: dict[str, States] = {}
    names: dict[str, str] = {}
    without: tuple[str, ...] = ()
    if row.name in _PAYMENT_ROWS and file.payment_states != States({}, {}):
        states["transactionStatus"] = file.payment_states
    if row.name in _CONSENT_ROWS:
        if file.consent_states != States({}, {}):
            states["status"] = file.consent_states
        if file.consent_field != "status":
            names["status"] = file.consent_field
    if row.name in _LINKED_ROWS and file.approval_link in _OTHER_LINKS:
        without = ("_links.scaRedirect",)
        link = {file.approval_link: {"href": _OTHER_LINKS[file.approval_link]}}
        further = {**further, "_links": {**further.get("_links", {}), **link}}
    if not (states or names or further) or not isinstance(row.answer, Json):
        return row.answer
    return AdaptedAnswer(inner=row.answer, states=states, names=names, further=further, without=without)


def _refusals(refusals: Refusals, changes: Mapping[str, tuple[int, str]]) -> Refusals:
    rows = {row.code: row for row in refusals.rows} | {code: RefusalRow(code, *one) for code, one in changes.items()}
    return replace(refusals, rows=tuple(rows.values()))
