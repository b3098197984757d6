"""The OpenAPI document of the gateway is valid, complete, and agrees with the models."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from openapi import document
from tppkit.errors import FormatError
from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest, PaymentLinkRequest, SearchRequest
from tppkit.protocol.gateway.card_data import Cvc, Expiry, Pan
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.gateway.orders import OrderRequest
from tppkit.protocol.gateway.values import Address, Country, Currency, Duration, Text
from tppkit.protocol.wire import WireModel

DOCUMENT = document()
ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
CARD = {"pan": "4111111111111111", "expiry": "122030", "setup_token": ID}
ORDER = {"currency": "EUR", "amount": 1}


def details(**fields: Any) -> dict[str, Any]:
    return ORDER | {"transactions": [{"payment_method_details": fields}]}


def test_the_document_is_valid():
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis, which the dev extra installs")
    import jsonschema_rs

    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for schema in DOCUMENT["components"]["schemas"].values():  # which that leaves out
        jsonschema_rs.meta.validate(schema)
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert named <= set(DOCUMENT["components"]["schemas"])


def test_every_row_is_an_operation_or_an_answer_of_one():
    operations = {
        one["operationId"]: one for path in DOCUMENT["paths"].values() for key, one in path.items() if key != "servers"
    }
    assert {*operations, "search_csv"} == {row.name for row in (*GATEWAY.endpoints, *VAULT.endpoints)}
    assert set(operations["search"]["responses"]["200"]["content"]) == {"application/json", "text/csv"}
    assert [path for path, item in DOCUMENT["paths"].items() if "servers" in item] == ["/v1/cards/"]


def test_card_data_is_written_only():
    shown = DOCUMENT["components"]["schemas"]["PaymentMethodDetails"]["properties"]
    assert {name for name, schema in shown.items() if schema.get("writeOnly")} == {"cvc", "receiver_account_number"}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CardRequest, CARD), (CardRequest, CARD | {"pan": "1" * 19, "name": "A" * 120}), (OrderRequest, ORDER | {"amount": 0}),
        (OrderRequest, ORDER | {"expiration_period": "P1DT2H", "payment_methods": ["credit-card"], "extra": {"a": [None]}, "more": 1}),
        (OrderRequest, ORDER | {"return_url": "https://a.example:18443/a?b", "customer": {"country": "LV", "city": None}}),
        (OrderRequest, details(cvc="1234", one_click_type="first", vault_token=ID)), (SearchRequest, {"query": "*", "size": 1}),
        (AuthenticateRequest, {"vault_token": ID, "cvc": "123", "3ds_method_used": True}),
        (PaymentLinkRequest, ORDER | {"merchant_order_id": "4711\n"}),
    ],
)  # fmt: skip
def test_what_a_model_takes_is_in_its_schema(model, body):
    assert judge(model, body) == (True, True)


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CardRequest, CARD | change) for change in (
            {"pan": "1" * 11}, {"pan": "4111 1111 1111 1111"}, {"pan": 4111111111111111}, {"pan": "4" * 16 + "\n"}, {"expiry": "132030"},
            {"setup_token": "x"}, {"name": ""}, {"name": "a\0"}, {"name": "A" * 121}, {"pan": None})
    ] + [
        (OrderRequest, ORDER | change) for change in (
            {"amount": -1}, {"amount": 2**63}, {"amount": "1"}, {"currency": "XAU"}, {"expiration_period": "1H"}, {"payment_methods": []},
            {"payment_methods": [{}]}, {"return_url": "/a"}, {"return_url": "https://a.example/" + "a" * 2048}, {"description": ""},
            {"description": "a\0"}, {"description": "a" * 1001}, {"customer": {"country": "LVA"}}, {"transactions": [{}, {}]},
            {"transactions": [{"capture_mode": "later"}]}, {"extra": []})
    ] + [
        (OrderRequest, details(cvc="12")), (OrderRequest, details(one_click_type="second")), (SearchRequest, {}),
        (SearchRequest, {"query": ""}),
        (AuthenticateRequest, {"vault_token": ID, "cvc": "123", "3ds_method_used": "Y"}), (PaymentLinkRequest, ORDER),
    ],
)  # fmt: skip
def test_what_a_model_refuses_is_not_in_its_schema(model, body):
    assert judge(model, body) == (False, False)


def judge(model: type[WireModel], body: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the model and its schema take a body."""
    jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="needs schemathesis, which the dev extra installs")
    schema = {"$ref": f"#/components/schemas/{model.__name__}", "components": DOCUMENT["components"]}
    try:
        model.from_wire(json.dumps(body).encode(), unknown_fields=True)  # as the service reads it
        taken = True
    except FormatError:
        taken = False
    return taken, jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid(body)


@pytest.mark.parametrize("kind", [Duration, Address, Currency, Country, Text, Pan, Cvc, Expiry])
@given(data=st.data())
def test_what_fits_a_published_pattern_is_accepted(kind, data):
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    text = data.draw(st.from_regex(re.compile(schema["pattern"], re.ASCII), fullmatch=True))
    if len(text) <= schema.get("maxLength", 100) and len(text) >= schema.get("minLength", 0):
        adapter.validate_python(text)
