"""The rows of the legacy interface: what each says, and that requests find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppkit.callbacks import CallbackKind
from tppkit.codes import CODES
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.legacy.endpoints import CALLBACKS, LEGACY
from tppkit.protocol.refusals import Refusal

TOKEN, UUID = "0123456789abcdef" * 2, "fedcba9876543210" * 2
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "legacy.md"

# PSD2 document, part B section 4, table: method and path of each row.
DOCUMENT = {
    ("POST", f"/ais/{TOKEN}"): "request_account_access", ("GET", f"/ais/{TOKEN}/BALANCE"): "balance",
    ("GET", f"/ais/{TOKEN}/LIST"): "transactions", ("POST", f"/pis/{TOKEN}"): "request_payment_access",
    ("POST", f"/pis/{TOKEN}/TX/{UUID}"): "pay",
}  # fmt: skip


def test_the_rows_are_those_of_the_document():
    found = {(method, path): LEGACY.find(method, path).row.name for method, path in DOCUMENT}
    assert found == DOCUMENT
    assert {row.name for row in LEGACY.endpoints} == set(DOCUMENT.values())


@pytest.mark.parametrize("row", LEGACY.endpoints, ids=lambda row: row.name)
def test_every_row_makes_the_target_that_finds_it(row):
    parameters = {"access_token": TOKEN} | ({"uuid": UUID} if row.name == "pay" else {})
    route = LEGACY.find(row.method, row.target(**parameters))
    assert (route.row, route.parameters) == (row, parameters)
    assert (row.auth, row.success, row.safe) == (Auth.API_KEY, 200, row.method == "GET")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"/ais/{TOKEN}/balance", "endpoint.unknown"), ("POST", "/ais/", "endpoint.unknown"),
        ("GET", f"/pis/{TOKEN}/BALANCE", "endpoint.unknown"), ("GET", f"/ais/{TOKEN}", "endpoint.method"),
        ("PUT", f"/pis/{TOKEN}/TX/{UUID}", "endpoint.method"), ("GET", "/scan", "endpoint.unknown"),
    ],
)  # fmt: skip
def test_other_paths_and_methods_are_refused(method, path, code):
    with pytest.raises(LocalProtocolError) as refused:
        LEGACY.find(method, path)
    assert refused.value.code == code


def test_callbacks_are_what_receivers_have_addresses_for():
    by_kind = {kind: {row.method for row in CALLBACKS if row.kind == kind} for kind in CallbackKind}
    assert by_kind == {CallbackKind.OTHER: set()} | {kind: set(kind.methods) for kind in list(CallbackKind)[:3]}


def test_the_reference_lists_every_row():
    text = REFERENCE.read_text("utf-8")
    assert all(f"| `{row.name}` | {row.method} | `{row.path}` |" in text for row in LEGACY.endpoints)
    assert all(f"| {row.kind} | {row.method} | {row.address} |" in text for row in CALLBACKS)


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("credentials.unknown", 401, "UNAUTHORIZED"), ("token.refused", 401, "UNAUTHORIZED"), ("account.unknown", 400, "ACCOUNT_NOT_FOUND"),
        ("model.invalid", 400, "FORMAT_ERROR"), ("request-id.reuse", 409, "UUID_REUSE"),
        ("endpoint.method", 405, "METHOD_NOT_ALLOWED"),
    ],
)  # fmt: skip
def test_failures_are_reported_and_read_again(code, status, told):
    refusal = LEGACY.refusals.refusal_for(LocalProtocolError(code, "what is wrong"))
    assert (refusal.status, refusal.code) == (status, told)
    assert LEGACY.refusals.read(LEGACY.refusals.write(refusal)) == (told, f"what is wrong ({code})")


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"error":1}', b'{"error":{"code":1}}', b"\xff"])
def test_whatever_an_error_body_is_it_can_be_read(raw):
    assert LEGACY.refusals.read(raw) == (None, None)


def test_every_refusal_is_of_a_code_that_exists():
    assert LEGACY.refusals.write(Refusal(400, "X", "é")) == '{"error":{"code":"X","message":"é"}}'.encode()
    for row in LEGACY.refusals.rows:
        assert any(row.fits(code) for code in CODES)


def test_requests_without_a_body_are_held_to_it():
    row = LEGACY.find("GET", f"/ais/{TOKEN}/LIST").row
    with pytest.raises(FormatError):
        row.request.read(b"{}", tolerant=False)
    assert row.whole.read(b"[]", tolerant=True) == ()
