"""The rows of the gateway and its vault: what each says, and that requests find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppkit.codes import CODES
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.gateway.endpoints import ENDPOINTS, EXTENSIONS, GATEWAY, SEARCH_CSV, VAULT, VAULT_ENDPOINTS
from tppkit.protocol.gateway.errors import REFUSALS

ORDER = "/v1/orders/3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01/"
TRANSACTION = ORDER + "transactions/8c2d0a44-2a55-4f0e-8d3b-0a3b5a1c9d02/"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "gateway.md"
IDS = {"order_id": ORDER[11:-1], "transaction_id": TRANSACTION[-37:-1], "payment_link_id": ORDER[11:-1]}

# Gateway document, section 4, table: method and path of each row.
DOCUMENT = {
    ("POST", "/v1/orders/"): "create_order", ("GET", ORDER): "order", ("POST", TRANSACTION + "captures/"): "capture",
    ("POST", TRANSACTION + "captures/amount/"): "capture_amount", ("POST", TRANSACTION + "voids/"): "void",
    ("POST", TRANSACTION + "voids/amount/"): "void_amount", ("POST", TRANSACTION + "initiate/"): "initiate",
    ("POST", TRANSACTION + "authenticate/"): "authenticate", ("GET", ORDER + "refunds/"): "refunds",
    ("GET", f"/v1/paymentlinks/{IDS['payment_link_id']}/"): "payment_link", ("POST", "/v1/search/orders/"): "search",
    ("POST", "/v1/search/orders/?format=csv"): "search_csv", ("POST", "/v1/wallet-pay/sessions/"): "wallet_session",
}  # fmt: skip


def test_the_rows_are_those_of_the_document():
    assert {(method, path): GATEWAY.find(method, path).row.name for method, path in DOCUMENT} == DOCUMENT
    assert {row.name for row in ENDPOINTS} == set(DOCUMENT.values())
    assert VAULT.find("POST", "/v1/cards/").row.name == "store_card"


@pytest.mark.parametrize("row", [*ENDPOINTS, *VAULT_ENDPOINTS, *EXTENSIONS], ids=lambda row: row.name)
def test_every_row_is_found_by_its_target_only_with_the_last_slash(row):
    interface = VAULT if row in VAULT_ENDPOINTS else GATEWAY
    path, mark, query = row.target(**IDS).partition("?")
    assert interface.find(row.method, path + mark + query).row == row
    assert row.auth is Auth.BASIC
    with pytest.raises(LocalProtocolError) as refused:
        interface.find(row.method, path.removesuffix("/") + mark + query)
    assert refused.value.code == "endpoint.unknown"


def test_only_what_reads_is_repeated():
    safe = {row.name for row in (*GATEWAY.endpoints, *VAULT.endpoints) if row.safe}
    assert safe == {"order", "refunds", "payment_link", "search", "search_csv"}
    assert all(row.once is None for row in (*GATEWAY.endpoints, *VAULT.endpoints))


def test_what_the_document_does_not_show_has_a_prefix_of_its_own():
    assert {row.path.startswith("/sandbox/") for row in EXTENSIONS} == {True}
    assert not any(row.path.startswith("/sandbox/") for row in (*ENDPOINTS, *VAULT_ENDPOINTS))


def test_another_format_is_refused():
    with pytest.raises(FormatError) as refused:
        GATEWAY.find("POST", "/v1/search/orders/?format=xml")
    assert refused.value.code == "query.value"
    assert SEARCH_CSV.target() == "/v1/search/orders/?format=csv"


def test_the_reference_lists_every_row():
    text = REFERENCE.read_text("utf-8")
    assert all(f"| `{row.name}` |" in text for row in (*GATEWAY.endpoints, *VAULT.endpoints))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("credentials.unknown", 401), ("order.unknown", 404), ("setup-token.used", 400), ("setup-token.unknown", 404),
        ("authorisation.closed", 409), ("authorisation.amount", 400), ("aft.state", 400), ("aft.not-enabled", 403), ("model.invalid", 400),
    ],
)  # fmt: skip
def test_failures_are_reported_and_read_again(code, status):
    refusal = REFUSALS.refusal_for(LocalProtocolError(code, "what is wrong"))
    assert refusal.status == status
    assert REFUSALS.read(REFUSALS.write(refusal)) == (refusal.code, f"what is wrong ({code})")


def test_every_refusal_is_of_a_code_that_exists():
    assert [row for row in REFUSALS.rows if not any(row.fits(code) for code in CODES)] == []
