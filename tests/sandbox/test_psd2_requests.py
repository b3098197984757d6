"""Requests outside the interface: ids, bodies, paths and methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from raw_provider import INSTANT, PAYMENT, PAYMENTS, SEPA, RawProvider, altered, assert_refused, checked_sandbox

from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox import SandboxSettings
from tppkit.sandbox.psd2.settings import BankRules
from tppkit.seals import Message

ROWS = {row.name: row for row in PSD2.endpoints}
PLACE = {"product": SEPA, "payment_id": "any", "consent_id": "any", "resource_id": "any"}

ID = "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11"
STATUS = f"{PAYMENTS}/unknown/status"


def refused_without_echo(tpp: RawProvider, message: Message) -> None:
    response = tpp.send(message)
    assert (response.status_code, response.json()["tppMessages"][0]["code"]) == (400, "FORMAT_ERROR")
    assert "x-request-id" not in response.headers


def test_a_request_without_an_id_is_refused(tpp: RawProvider) -> None:
    refused_without_echo(tpp, Message("GET", STATUS))


@pytest.mark.parametrize("text", ["", "7", "not-a-uuid", f"{{{ID}}}", ID.replace("-", ""), ID + "0"])
def test_an_id_that_is_not_a_uuid_is_refused_and_not_echoed(text: str, tpp: RawProvider) -> None:
    refused_without_echo(tpp, Message("GET", STATUS, (("X-Request-ID", text),)))


def test_two_ids_are_refused(tpp: RawProvider) -> None:
    refused_without_echo(tpp, Message("GET", STATUS, (("X-Request-ID", str(uuid4())), ("X-Request-ID", str(uuid4())))))


def test_an_id_is_echoed_as_it_was_sent(tpp: RawProvider) -> None:
    request_id = str(uuid4()).upper()
    assert tpp.initiate(request_id=request_id).headers["x-request-id"] == request_id


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"12.50", b"{", b'{"creditorName": "a",}', b"\xff\xfe{}", b'"\\ud800"', b"NaN", b'{"a": 1e999}',
        b'{"creditorName": "a", "creditorName": "b"}', b"[" * 20_000, b'{"a":' * 33 + b"1" + b"}" * 33,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
def test_a_body_that_is_not_json_of_a_payment_is_refused(body: bytes, tpp: RawProvider) -> None:
    assert_refused(tpp.initiate(body), 400, "FORMAT_ERROR")


@pytest.mark.parametrize("deep", [b'{"a":' * 33 + b"1" + b"}" * 33, b"[" * 33 + b"]" * 33])
def test_deep_json_is_refused_even_in_a_further_field(deep: bytes, tpp: RawProvider) -> None:
    body = json.dumps(PAYMENT).encode()[:-1] + b', "further": ' + deep + b"}"
    assert_refused(tpp.initiate(body), 400, "FORMAT_ERROR")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1e-999", "9" * 399, "1e308"])
def test_a_further_number_of_any_size_is_refused_or_given_back_as_json(number: str, tpp: RawProvider) -> None:
    response = tpp.initiate(json.dumps(PAYMENT).encode()[:-1] + b', "further": ' + number.encode() + b"}")
    if response.status_code == 201:
        details = tpp.request("GET", response.json()["_links"]["self"]["href"])
        assert details.status_code == 200

        def no_constant(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        json.loads(details.content, parse_constant=no_constant)
    else:
        assert_refused(response, 400, "FORMAT_ERROR")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instructedAmount", {"currency": "USD", "amount": "1.00"}),
        ("instructedAmount", {"currency": "EUR", "amount": "0.00"}),
        ("instructedAmount", {"currency": "EUR", "amount": "-1.00"}),
        ("instructedAmount", {"currency": "EUR", "amount": "1.001"}),
        ("instructedAmount", {"currency": "EUR", "amount": 1}),
        ("instructedAmount", None),
        ("creditorAccount", {"iban": "DE00370400440532013000"}),
        ("creditorAccount", {}),
        ("creditorName", ""),
        ("creditorName", "x" * 71),
        ("creditorName", "line\nbreak"),
        ("remittanceInformationUnstructured", "x" * 141),
        ("debtorAccount", {"iban": "nothing"}),
    ],
)
def test_a_payment_that_does_not_fit_the_model_is_refused(field: str, value: object, tpp: RawProvider) -> None:
    assert_refused(tpp.initiate({**PAYMENT, field: value}), 400, "FORMAT_ERROR")


@pytest.mark.parametrize("field", ["instructedAmount", "creditorAccount", "creditorName"])
def test_a_payment_without_a_required_field_is_refused(field: str, tpp: RawProvider) -> None:
    response = tpp.initiate({name: value for name, value in PAYMENT.items() if name != field})
    assert_refused(response, 400, "FORMAT_ERROR")
    assert field in response.text


def test_a_refusal_contains_nothing_of_the_body(tpp: RawProvider) -> None:
    assert "SECRET" not in tpp.initiate({**PAYMENT, "creditorName": "SECRET" * 30}).text


@pytest.mark.parametrize(
    "further",
    [
        {"paymentId": "mine"}, {"transactionStatus": "ACSC"}, {"payment_id": 5}, {"transaction_status": {"a": 1}}, {"_links": {}},
        {"links": []}, {"model_config": 1}, {"endToEndIdentification": "4711", "nested": {"list": [1, None, True, 1.5]}},
    ],
    ids=lambda further: next(iter(further)),
)  # fmt: skip
def test_further_fields_never_replace_those_of_the_bank(further: dict[str, object], tpp: RawProvider) -> None:
    payment = tpp.new_payment(body={**PAYMENT, **further})
    response = tpp.request("GET", payment["_links"]["self"]["href"])
    assert response.status_code == 200
    assert (response.json()["paymentId"], response.json()["transactionStatus"]) == (payment["paymentId"], "RCVD")


def test_a_body_of_the_highest_length_is_read_and_a_longer_one_is_not(tpp: RawProvider) -> None:
    body = json.dumps(PAYMENT).encode()
    assert tpp.initiate(body.ljust(MAX_BODY_BYTES)).status_code == 201
    assert_refused(tpp.initiate(body.ljust(MAX_BODY_BYTES + 1)), 413, "FORMAT_ERROR")


def test_an_unknown_product_is_not_found(tpp: RawProvider) -> None:
    assert_refused(tpp.initiate(product="target-2-payments"), 404, "PRODUCT_UNKNOWN")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_payment_of_an_unknown_product_is_not_found(method: str, tpp: RawProvider) -> None:
    assert_refused(tpp.request(method, "/psd2/v1/payments/target-2-payments/any"), 404, "PRODUCT_UNKNOWN")


@pytest.mark.parametrize(
    "target", ["/", "/psd2", "/psd2/v1/payments", f"{PAYMENTS}/a/b/c", f"{PAYMENTS}/", "/psd2/v2/x", "//", "/%00"]
)
def test_an_unknown_path_is_not_found(target: str, tpp: RawProvider) -> None:
    assert_refused(tpp.request("GET", target), 404, "RESOURCE_UNKNOWN")


@pytest.mark.parametrize("name", sorted(ROWS))
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "FOO"])
def test_another_method_than_the_rows_is_refused(method: str, name: str, tpp: RawProvider) -> None:
    path = ROWS[name].path
    if method in {row.method for row in PSD2.endpoints if row.path == path}:
        return
    target = ROWS[name].target(**PLACE)
    assert_refused(tpp.request(method, target), 405, "SERVICE_INVALID")


@pytest.mark.parametrize("name", sorted(ROWS))
def test_head_is_refused(name: str, tpp: RawProvider) -> None:
    response = tpp.request("HEAD", ROWS[name].target(**PLACE))
    assert (response.status_code, response.content) == (405, b"")


def test_a_method_that_is_refused_names_those_that_are_accepted(tpp: RawProvider) -> None:
    assert set(tpp.request("PUT", f"{PAYMENTS}/any").headers["allow"].split(", ")) == {"GET", "DELETE"}
    assert tpp.request("HEAD", f"{PAYMENTS}/any/status").headers["allow"] == "GET"
    assert tpp.request("PUT", PAYMENTS).headers["allow"] == "POST"


def test_an_instant_payment_to_a_country_that_cannot_be_reached_is_refused(
    tmp_path: Path, bank_pki_folder: Path, connect: Callable[..., RawProvider]
) -> None:
    rules = BankRules(instant_cap=Decimal("10.00"), instant_unreachable=frozenset({"DE"}))
    with checked_sandbox(SandboxSettings(tmp_path / "sandbox", pki=bank_pki_folder, rules=rules)) as server:
        caller = connect(server)
        small = {**PAYMENT, "instructedAmount": {"currency": "EUR", "amount": "1.00"}}
        assert_refused(caller.initiate(small, product=INSTANT), 400, "PRODUCT_INVALID")
        assert caller.initiate(small).status_code == 201


@pytest.mark.parametrize(
    "uri",
    [
        "http://tpp.example/back", "javascript:alert(1)", "https://" + "x" * 2048, "back", "https://tpp.example/\xe9",
        "http://localhost.tpp.example/", "http://127.0.0.1.tpp.example/", "http://localhost@tpp.example/",
        "http://localhost:80@tpp.example/", "http://localhost\\@tpp.example/", "http://127.0.0.1:0x50/", "http://0.0.0.0/",
        "http://127.9.9.256/", "http://[127.0.0.1]/", "http://[::2]/", "http://128.0.0.1/",
    ],
)  # fmt: skip
def test_a_return_address_that_is_neither_https_nor_on_loopback_is_refused(uri: str, tpp: RawProvider) -> None:
    assert_refused(tpp.initiate(headers=[("TPP-Redirect-URI", uri)]), 400, "FORMAT_ERROR")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:5000", "127.0.0.1:8000", "127.9.9.9", "[::1]", "[0:0::1]:3000"]
)
@pytest.mark.parametrize("rest", ["", "/back?x=1", "?x=1"])
def test_a_return_address_on_loopback_may_be_http(host: str, rest: str, tpp: RawProvider) -> None:
    assert tpp.initiate(headers=[("TPP-Redirect-URI", f"http://{host}{rest}")]).status_code == 201


def test_two_return_addresses_are_refused(tpp: RawProvider) -> None:
    uri = ("TPP-Redirect-URI", "https://tpp.example/back")
    assert_refused(tpp.initiate(headers=[uri, uri]), 400, "FORMAT_ERROR")


def test_every_answer_forbids_its_storage(tpp: RawProvider) -> None:
    answers = [tpp.initiate(), tpp.request("GET", STATUS), tpp.request("GET", "/"), tpp.request("PUT", PAYMENTS)]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize(("part", "instead"), [("/payments/", "/payments%2F"), ("/v1/", "//v1/"), ("psd2", "psd%32")])
def test_a_target_that_only_reads_like_an_endpoint_is_none_however_it_is_sealed(
    tpp: RawProvider, part: str, instead: str
) -> None:
    message = tpp.message()
    sealed = tpp.sealed(altered(message, target=message.target.replace(part, instead)))
    assert_refused(tpp.send(sealed), 404, "RESOURCE_UNKNOWN")
