"""The OpenAPI documents are valid, complete, and agree with rows and models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tppkit.errors import FormatError
from tppkit.protocol.browser_addresses import BROWSER_PATTERN, browser_address_fault
from tppkit.protocol.endpoint import Endpoint, Interface
from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest, PaymentLinkRequest, SearchRequest
from tppkit.protocol.gateway.card_data import Cvc, Expiry, Pan
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.gateway.orders import OrderRequest
from tppkit.protocol.gateway.values import Address, Country, Currency, Duration, Text
from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.protocol.legacy.models import AccessRequest, PaymentOrder, Token
from tppkit.protocol.psd2 import ConsentRequest, PaymentInitiation, Persona, load_persona
from tppkit.protocol.psd2.accounts import SignedAmount
from tppkit.protocol.psd2.models import Euro, SepaAmount
from tppkit.protocol.psd2.persona import parse_persona
from tppkit.protocol.wire import WireModel
from tppkit.sandbox import Sandbox
from tppkit.sandbox.openapi import openapi_documents
from tppkit.seals import ANSWER_PROFILES, PROFILES

ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
CARD = {"pan": "4111111111111111", "expiry": "122030", "setup_token": ID}
ORDER = {"currency": "EUR", "amount": 1}
IBAN = "LT029999900000000001"
PAYMENT = {
    "instructedAmount": {"currency": "EUR", "amount": "12.50"}, "creditorAccount": {"iban": IBAN}, "creditorName": "Bookshop",
}  # fmt: skip
CONSENT = {"access": {"allPsd2": "allAccounts"}, "validUntil": "2030-12-31", "frequencyPerDay": 4}
PAY = {"acc": "+37060000002", "amts": {"EUR": 12.5}}
STREAMED = "search_csv"  # the other answer of an operation
ALL = [
    ("document", "psd2"),
    ("document", "legacy"),
    ("document", "gateway"),
    ("berlin-group", "psd2"),
    ("other-link", "psd2"),
]


OTHER_LINK = b"""
based_on = "document"
name = "other-link"
source = "no bank"
profile = "berlin-group"
prefix = ""
approval_link = "startAuthorisation"

[payment_status]
ACSC = "SETTLED"
"""


def persona_of(name: str) -> Persona:
    return parse_persona(OTHER_LINK) if name == "other-link" else load_persona(name)


@cache
def document(persona: str, name: str) -> dict[str, Any]:
    bank = persona_of(persona)
    return openapi_documents(bank, PROFILES[bank.profile], {})[name]()


def interfaces(persona: str, name: str) -> tuple[Interface, ...]:
    return {"psd2": (persona_of(persona).interface,), "legacy": (LEGACY,), "gateway": (GATEWAY, VAULT)}[name]


def rows(persona: str, name: str) -> dict[str, Endpoint[Any, Any]]:
    return {row.name: row for one in interfaces(persona, name) for row in one.endpoints}


def operations(persona: str, name: str) -> dict[str, dict[str, Any]]:
    items = document(persona, name)["paths"].values()
    return {one["operationId"]: one for path in items for key, one in path.items() if key != "servers"}


def response(found: dict[str, Any], persona: str, name: str) -> dict[str, Any]:
    parts: dict[str, Any] = document(persona, name)["components"]["responses"]
    return parts[found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def fits(value: Any, schema: dict[str, Any], persona: str, name: str) -> bool:
    whole = {**schema, "components": document(persona, name)["components"]}
    found: bool = jsonschema_rs.Draft202012Validator(whole, validate_formats=True).is_valid(value)
    return found


def details(**fields: Any) -> dict[str, Any]:
    return ORDER | {"transactions": [{"payment_method_details": fields}]}


@pytest.mark.parametrize("which", ALL)
def test_the_document_is_valid(which):
    found = document(*which)
    schemathesis.openapi.from_dict(found).validate()
    bodies = [part["schema"] for part in parts(found, "schema")]
    for schema in (*found["components"]["schemas"].values(), *bodies):  # which that leaves out
        jsonschema_rs.meta.validate(schema)
    named = set(re.findall(r'"#/components/(\w+)/([\w-]+)"', json.dumps(found)))
    assert named <= {(kind, name) for kind, ones in found["components"].items() for name in ones}


def parts(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects at any depth that have a key."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict) and key in value else []
    return own + [one for part in inner for one in parts(part, key)]


@pytest.mark.parametrize("which", ALL)
def test_every_row_is_an_operation_with_its_status_parameters_and_roles(which):
    found = operations(*which)
    for name, row in rows(*which).items():
        if name == STREAMED:
            continue
        operation = found.pop(name)
        assert str(row.success) in operation["responses"]
        given = {(one["in"], one["name"]): one for one in operation["parameters"]}
        for wanted in row.query:
            assert given["query", wanted.name]["required"] is wanted.required
        assert {name for place, name in given if place == "path"} == set(re.findall(r"\{(\w+)\}", row.path))
        assert all(given["header", one.name]["required"] for one in row.headers)
        roles = [role for needed in operation["security"] for one in needed.values() for role in one]
        assert roles == [row.role] * (row.role is not None)
        assert ("requestBody" in operation) is (row.request.media_type is not None)
    assert not found


def test_the_vault_has_its_own_address_and_a_search_two_answers():
    found = document("document", "gateway")["paths"]
    assert set(found["/v1/search/orders/"]["post"]["responses"]["200"]["content"]) == {"application/json", "text/csv"}
    assert [path for path, item in found.items() if "servers" in item] == ["/v1/cards/"]


@pytest.mark.parametrize("which", ALL)
def test_every_example_is_accepted_by_its_model_and_its_schema(which):
    count = 0
    for name, operation in operations(*which).items():
        row = rows(*which)[name]
        answers = [response(one, *which) for one in operation["responses"].values()]
        contents = [part["content"] for part in (operation.get("requestBody", {}), *answers) if "content" in part]
        for one in (media for content in contents for media in content.values() if "example" in media):
            count += 1
            assert fits(one["example"], one["schema"], *which), (name, one["example"])
        sent = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        answer = operation["responses"][str(row.success)].get("content", {}).get("application/json", {})
        if "example" in sent:
            row.request.read(json.dumps(sent["example"]).encode(), tolerant=False)
        if "example" in answer:  # an answer of another bank has other links
            row.whole.read(json.dumps(answer["example"]).encode(), tolerant=which[0] != "document")
    assert count > 20


@pytest.mark.parametrize("which", ALL)
def test_every_code_of_the_error_table_is_in_an_answer_with_its_status(which):
    found = set()
    for operation in operations(*which).values():
        for status, one in operation["responses"].items():
            content = response(one, *which).get("content", {}).get("application/json", {})
            if status[0] > "3":
                found |= {(int(status), code) for part in parts(content["schema"], "enum") for code in part["enum"]}
    table = {
        (row.status, row.peer_code) for row in interfaces(*which)[0].refusals.rows if row.code != "endpoint.method"
    }
    assert found == table | {(500, "INTERNAL_SERVER_ERROR")}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_the_headers_of_a_seal_are_those_of_the_dialect(profile):
    bank = replace(load_persona("document"), answers="rfc9421")
    found = openapi_documents(bank, profile, {})["psd2"]()
    operation = found["paths"]["/psd2/v1/consents"]["post"]
    required = {one["name"].lower() for one in operation["parameters"] if one["required"]}
    if profile.carrier == "Authorization":
        assert operation["security"] == [{"qwac": ["PSP_AI"], "seal": []}]
        assert found["components"]["securitySchemes"]["seal"]["name"] == "Authorization"
    else:
        assert profile.carriers <= required
    headers = {profile.digest_name} if not profile.covers_body else set()
    if profile.certificate_header is not None:
        headers.add(profile.certificate_header.lower())
    assert headers <= required
    assert found["components"]["securitySchemes"]["qwac"]["type"] == "mutualTLS"
    answer = ANSWER_PROFILES["rfc9421"]
    shown = {name.lower() for name in operation["responses"]["201"]["headers"]}
    assert answer.carriers | {answer.digest_name} <= shown


def test_a_sandbox_shows_the_document_of_its_persona():
    with Sandbox(persona="berlin-group", profile="stet", sign_answers=True) as bank:
        found = bank.control("GET", "/openapi/psd2.json")
        persona = replace(load_persona("berlin-group"), answers="rfc9421")
        shown = openapi_documents(persona, PROFILES["stet"], {"psd2": bank.addresses.psd2_url})
        assert found == json.loads(json.dumps(shown["psd2"]()))
        assert found["servers"] == [{"url": bank.addresses.psd2_url}]
        assert "/v1/payments/{product}" in found["paths"]


def test_card_data_is_written_only():
    shown = document("document", "gateway")["components"]["schemas"]["PaymentMethodDetails"]["properties"]
    assert {name for name, schema in shown.items() if schema.get("writeOnly")} == {"cvc", "receiver_account_number"}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CardRequest, CARD), (CardRequest, CARD | {"pan": "1" * 19, "name": "A" * 120}), (OrderRequest, ORDER | {"amount": 0}),
        (OrderRequest, ORDER | {"expiration_period": "P1DT2H", "payment_methods": ["credit-card"], "extra": {"a": [None]}, "more": 1}),
        (OrderRequest, ORDER | {"return_url": "https://a.example:18443/a?b", "customer": {"country": "LV", "city": None}}),
        (OrderRequest, details(cvc="1234", one_click_type="first", vault_token=ID)), (SearchRequest, {"query": "*", "size": 1}),
        (AuthenticateRequest, {"vault_token": ID, "cvc": "123", "3ds_method_used": True}),
        (PaymentLinkRequest, ORDER | {"merchant_order_id": "4711\n"}), (PaymentInitiation, PAYMENT), (ConsentRequest, CONSENT),
        (PaymentInitiation, PAYMENT | {"debtorAccount": {"iban": IBAN}, "remittanceInformationUnstructured": "", "more": 1}),
        (ConsentRequest, CONSENT | {"access": {"balances": [{"iban": IBAN}]}, "recurringIndicator": None}),
        (PaymentOrder, PAY), (PaymentOrder, PAY | {"acc": IBAN, "time": "2026-11-29 10:00:00", "tcc": "SHOP", "country": "LTU"}),
        (AccessRequest, {"acc": IBAN}),
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
    ] + [
        (PaymentInitiation, PAYMENT | change) for change in (
            {"instructedAmount": {"currency": "USD", "amount": "1"}}, {"instructedAmount": {"currency": "EUR", "amount": "0.00"}},
            {"instructedAmount": {"currency": "EUR", "amount": 1}}, {"creditorAccount": {"iban": "LT02 9999"}}, {"creditorName": " "},
            {"creditorName": "A" * 71}, {"creditorName": "a\n"}, {"creditorName": None})
    ] + [
        (ConsentRequest, CONSENT | change) for change in (
            {"access": {"allPsd2": "all"}}, {"validUntil": "2030-13-01"}, {"frequencyPerDay": 0}, {"frequencyPerDay": "4"})
    ] + [
        (PaymentOrder, PAY | change) for change in (
            {"acc": "12"}, {"amts": {}}, {"amts": {"EUR": 0}}, {"amts": {"EUR": "1"}}, {"amts": {"EUR": 1, "USD": 1}}, {"amts": {"XAU": 1}},
            {"time": "10:00"}, {"country": "LT"}, {"msg": ""}, {"name": "a\0"})
    ],
)  # fmt: skip
def test_what_a_model_refuses_is_not_in_its_schema(model, body):
    assert judge(model, body) == (False, False)


def judge(model: type[WireModel], body: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the model and its schema take a body."""
    (which,) = [one for one in ALL[:3] if model.__name__ in document(*one)["components"]["schemas"]]
    try:
        model.from_wire(json.dumps(body).encode(), unknown_fields=True)  # as the service reads it
        taken = True
    except FormatError:
        taken = False
    return taken, fits(body, {"$ref": f"#/components/schemas/{model.__name__}"}, *which)


ADDRESSES = {  # whether a browser's address, and whether one of a web server
    "https://shop.example:65535/a?b#c": (True, True), "https://[2001:db8::7]:60000/": (True, True), "HTTPS://shop.example": (True, True),
    "com.example.app:/done": (True, False), "myApp://done?order=1": (True, False), "http://[::1]:8080/": (True, True),
    "http://127.0.0.1:61234/a": (True, True), "http://localhost": (True, True), "http://shop.example/": (False, True),
    "https://shop.example:65536/": (False, False), "https://shop.example:0/": (False, False), "https://shop.example/a b": (False, False),
    "//shop.example/": (False, False), "/done": (False, False), "https://": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_that_the_service_accepts_is_in_the_schema_and_no_other(text):
    address: TypeAdapter[Any] = TypeAdapter(Address)
    web = address.json_schema()["pattern"]
    shown = (re.search(BROWSER_PATTERN, text) is not None, re.search(web, text) is not None)
    assert shown == ADDRESSES[text]
    try:
        address.validate_python(text)
        is_web = True
    except ValueError:
        is_web = False
    assert (browser_address_fault(text) is None, is_web) == ADDRESSES[text]


KINDS = [Duration, Address, Currency, Country, Text, Pan, Cvc, Expiry, Euro, SepaAmount, SignedAmount, Token]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_fits_a_published_form_is_accepted(kind, data):
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    pattern = schema.get("pattern") or f"^({'|'.join(schema['enum'])})$"
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True))
    is_sized = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 100)
    if is_sized and "[" not in text.partition("?")[0]:  # the form of an address in brackets is not exact
        adapter.validate_python(text)
