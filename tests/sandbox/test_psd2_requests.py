"""Requests outside the interface: ids, bodies, paths and methods."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from raw_provider import INSTANT, PAYMENT, PAYMENTS, SEPA, altered, assert_refused

from tppkit.protocol.psd2 import PSD2, BankRules
from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.seals import Message

pytestmark = pytest.mark.slow

ROWS = {row.name: row for row in PSD2.endpoints}
PLACE = {"product": SEPA, "payment_id": "any", "consent_id": "any", "resource_id": "any"}

ID = "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11"
STATUS = f"{PAYMENTS}/unknown/status"


@pytest.mark.parametrize(
    "ids",
    [(), ("",), ("7",), ("not-a-uuid",), (f"{{{ID}}}",), (ID.replace("-", ""),), (ID + "0",), (ID, ID[:-1] + "2")],
)
def test_a_request_needs_one_id_that_is_a_uuid_and_another_text_is_not_echoed(ids, tpp):
    response = tpp.send(Message("GET", STATUS, tuple(("X-Request-ID", text) for text in ids)))
    assert (response.status_code, response.json()["tppMessages"][0]["code"]) == (400, "FORMAT_ERROR")
    assert "x-request-id" not in response.headers


def test_an_id_is_echoed_as_it_was_sent(tpp):
    request_id = str(uuid4()).upper()
    assert tpp.initiate(request_id=request_id).headers["x-request-id"] == request_id


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"12.50", b"{", b'{"creditorName": "a",}', b"\xff\xfe{}", b'"\\ud800"', b"NaN", b'{"a": 1e999}',
        b'{"creditorName": "a", "creditorName": "b"}', b"[" * 20_000, b'{"a":' * 33 + b"1" + b"}" * 33,
        b'{"a": ' + b"9" * 5000 + b"}",
        *(json.dumps(PAYMENT).encode()[:-1] + b', "further": ' + deep + b"}"
          for deep in (b'{"a":' * 33 + b"1" + b"}" * 33, b"[" * 33 + b"]" * 33)),
    ],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
def test_a_body_that_is_not_json_of_a_payment_is_refused(body, tpp):
    assert_refused(tpp.initiate(body), 400, "FORMAT_ERROR")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1e-999", "9" * 399, "1e308"])
def test_a_further_number_of_any_size_is_refused_or_given_back_as_json(number, tpp):
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
    ("field", "value"), [("instructedAmount", {"currency": "USD", "amount": "1.00"}), ("creditorName", 5)]
)
def test_a_payment_that_does_not_fit_the_model_is_refused(field, value, tpp):
    response = tpp.initiate({**PAYMENT, field: value})
    assert_refused(response, 400, "FORMAT_ERROR")
    assert field in response.text


def test_a_refusal_contains_nothing_of_the_body(tpp):
    assert "SECRET" not in tpp.initiate({**PAYMENT, "creditorName": "SECRET" * 30}).text


@pytest.mark.parametrize(
    "further",
    [
        {"paymentId": "mine"}, {"transactionStatus": "ACSC"}, {"payment_id": 5}, {"transaction_status": {"a": 1}}, {"_links": {}},
        {"links": []}, {"model_config": 1}, {"endToEndIdentification": "4711", "nested": {"list": [1, None, True, 1.5]}},
    ],
    ids=lambda further: next(iter(further)),
)  # fmt: skip
def test_further_fields_never_replace_those_of_the_bank(further, tpp):
    payment = tpp.new_payment(body={**PAYMENT, **further})
    response = tpp.request("GET", payment["_links"]["self"]["href"])
    assert response.status_code == 200
    assert (response.json()["paymentId"], response.json()["transactionStatus"]) == (payment["paymentId"], "RCVD")


def test_a_body_of_the_highest_length_is_read_and_a_longer_one_is_not(tpp):
    body = json.dumps(PAYMENT).encode()
    assert tpp.initiate(body.ljust(MAX_BODY_BYTES)).status_code == 201
    assert_refused(tpp.initiate(body.ljust(MAX_BODY_BYTES + 1)), 413, "FORMAT_ERROR")


def test_an_unknown_product_is_not_found(tpp):
    path = "/psd2/v1/payments/target-2-payments/any"
    for answer in (tpp.initiate(product="target-2-payments"), tpp.request("GET", path), tpp.request("DELETE", path)):
        assert_refused(answer, 404, "PRODUCT_UNKNOWN")


@pytest.mark.parametrize(
    "target", ["/", "/psd2", "/psd2/v1/payments", f"{PAYMENTS}/a/b/c", f"{PAYMENTS}/", "/psd2/v2/x", "//", "/%00"]
)
def test_an_unknown_path_is_not_found(target, tpp):
    assert_refused(tpp.request("GET", target), 404, "RESOURCE_UNKNOWN")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND", "FOO"])
def test_a_refused_method_is_answered_with_those_of_the_path(method, tpp):
    for path in sorted({row.path for row in PSD2.endpoints}):
        rows = [row for row in PSD2.endpoints if row.path == path]
        accepted = {row.method for row in rows}
        if method in accepted:
            continue
        response = tpp.request(method, rows[0].target(**PLACE))
        assert (response.status_code, set(response.headers["allow"].split(", "))) == (405, accepted), path
        if method == "HEAD":
            assert response.content == b""
        else:
            assert_refused(response, 405, "SERVICE_INVALID")


def test_an_instant_payment_to_a_country_that_cannot_be_reached_is_refused(open_bank, connect):
    with open_bank(rules=BankRules(instant_unreachable=frozenset({"DE"}))) as server:
        caller = connect(server)
        assert_refused(caller.initiate(product=INSTANT), 400, "PRODUCT_INVALID")
        assert caller.initiate().status_code == 201


@pytest.mark.parametrize("uris", [("http://tpp.example/back",), ("https://tpp.example/back",) * 2])
def test_return_addresses_other_than_one_by_https_or_on_loopback_are_refused(uris, tpp):
    assert_refused(tpp.initiate(headers=[("TPP-Redirect-URI", uri) for uri in uris]), 400, "FORMAT_ERROR")
    assert tpp.initiate(headers=[("TPP-Redirect-URI", "http://localhost:8000?x=1")]).status_code == 201


def test_every_answer_forbids_its_storage(tpp):
    answers = [tpp.initiate(), tpp.request("GET", STATUS), tpp.request("GET", "/"), tpp.request("PUT", PAYMENTS)]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}


@pytest.mark.parametrize(("part", "instead"), [("/payments/", "/payments%2F"), ("/v1/", "//v1/"), ("psd2", "psd%32")])
def test_a_target_that_only_reads_like_an_endpoint_is_none_however_it_is_sealed(tpp, part, instead):
    message = tpp.message()
    sealed = tpp.sealed(altered(message, target=message.target.replace(part, instead)))
    assert_refused(tpp.send(sealed), 404, "RESOURCE_UNKNOWN")
