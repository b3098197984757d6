"""Requests that are built from Python values, and what a misspelt one says."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tppkit.errors import FormatError
from tppkit.protocol import gateway, legacy, psd2
from tppkit.protocol.gateway import CardRequest, CardSecret, Customer, OrderRequest, TransactionRequest
from tppkit.protocol.legacy import LoginConfirmed, LoginRequest, PaymentOrder
from tppkit.protocol.legacy.models import AccessRequest
from tppkit.protocol.psd2 import (
    ALL_ACCOUNTS,
    Access,
    AccountReference,
    ConsentRequest,
    InstructedAmount,
    PaymentDetails,
    PaymentInitiation,
)
from tppkit.protocol.wire import WireModel

IBAN, PHONE, UUID = "LT121000011101001000", "+37060000002", "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11"
ACCOUNT = AccountReference(iban=IBAN)
PAYMENT: dict[str, Any] = {
    "instructed_amount": InstructedAmount(currency="EUR", amount="12.50"), "creditor_account": ACCOUNT, "creditor_name": "Bookshop",
}  # fmt: skip
CONSENT: dict[str, Any] = {
    "access": Access(all_psd2=ALL_ACCOUNTS), "valid_until": date(2026, 12, 31), "frequency_per_day": 4,
}  # fmt: skip
ORDER: dict[str, Any] = {"currency": "EUR", "amount": 1250}
BODIES: list[tuple[type[WireModel], dict[str, Any]]] = [
    (PaymentInitiation, PAYMENT), (ConsentRequest, CONSENT), (AccessRequest, {"acc": PHONE}), (LoginRequest, {"name": "Bookshop"}),
    (PaymentOrder, {"acc": PHONE, "amts": {"EUR": "12.50"}}), (OrderRequest, ORDER),
    (CardRequest, {"pan": CardSecret("4111111111111111"), "expiry": CardSecret("122030"), "setup_token": UUID}),
]  # fmt: skip


def code_and_text(build: Any) -> tuple[str, str]:
    with pytest.raises(FormatError) as refused:
        build()
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        ("12.50", "12.50"),
        (Decimal("12.50"), "12.50"),
        (Decimal(7), "7"),
        (Decimal("1E+2"), "100"),
        (Decimal("0.1"), "0.1"),
    ],
)
def test_an_amount_is_a_text_or_a_decimal(amount, written):
    assert InstructedAmount(currency="EUR", amount=amount).amount == written
    assert json.loads(PaymentOrder(acc=PHONE, amts={"EUR": amount}).to_wire())["amts"] == {"EUR": float(written)}


@pytest.mark.parametrize(
    "amount", [12, 12.5, True, Decimal("NaN"), Decimal(-1), Decimal("0.001"), Decimal(10**9), "1e2", "1_0", " 1"]
)
def test_another_value_is_no_amount_in_the_main_unit(amount):
    assert code_and_text(lambda: InstructedAmount(currency="EUR", amount=amount))[0] == "model.invalid"
    if amount != Decimal(10**9):
        assert code_and_text(lambda: PaymentOrder(acc=PHONE, amts={"EUR": amount}))[0] == "model.invalid"


@pytest.mark.parametrize("amount", ["1250", Decimal(1250), Decimal("12.50"), 12.5, True, -1])
def test_an_amount_in_minor_units_is_an_int(amount):
    assert code_and_text(lambda: OrderRequest(currency="EUR", amount=amount))[0] == "model.invalid"


def test_an_amount_of_a_received_order_is_a_number():
    raw = json.dumps({"acc": PHONE, "amts": {"EUR": "12.50"}}).encode()
    assert code_and_text(lambda: PaymentOrder.from_wire(raw))[0] == "model.invalid"


def test_a_consent_for_named_accounts_takes_a_list():
    consent = ConsentRequest(**CONSENT | {"access": Access(balances=[ACCOUNT])})
    assert ConsentRequest.from_wire(consent.to_wire()) == consent


@pytest.mark.parametrize(
    ("build", "place", "nearest"),
    [
        (lambda: PaymentInitiation(**PAYMENT, remittance_information="x"), "PaymentInitiation", "remittance_information_unstructured"),
        (lambda: PaymentInitiation(**PAYMENT, debtorAcount=ACCOUNT), "PaymentInitiation", "debtorAccount"),
        (lambda: PaymentInitiation(**PAYMENT | {"creditor_account": AccountReference(iban=IBAN, ibn="x")}), "AccountReference", "iban"),
        (lambda: InstructedAmount(currency="EUR", amount="1", amonut="2"), "InstructedAmount", "amount"),
        (lambda: ConsentRequest(**CONSENT, recuringIndicator=True), "ConsentRequest", "recurringIndicator"),
        (lambda: PaymentOrder(acc=PHONE, amts={"EUR": "1"}, citty="Vilnius"), "PaymentOrder", "city"),
        (lambda: LoginRequest(name="Bookshop", perms=()), "LoginRequest", "perm"),
        (lambda: OrderRequest(**ORDER, customer=Customer(emial_address="a@example.com")), "Customer", "email_address"),
        (lambda: OrderRequest(**ORDER, customer=Customer(emial="a@example.com")), "Customer", "email_address"),
        (lambda: OrderRequest.model_validate(ORDER | {"merchant": "x"}), "OrderRequest", "merchant_name"),
        (lambda: OrderRequest.model_validate_json(json.dumps(ORDER | {"retrun_url": "x"})), "OrderRequest", "return_url"),
        (lambda: TransactionRequest(payment_method="credit-card", capture_mod="manual"), "TransactionRequest", "capture_mode"),
        (lambda: OrderRequest.from_wire(b'{"currency":"EUR","amount":1,"webhok_url":"x"}'), "OrderRequest", "webhook_url"),
    ],
)  # fmt: skip
def test_a_misspelt_field_names_the_nearest(build, place, nearest):
    code, text = code_and_text(build)
    assert code == "model.invalid"
    assert text.startswith(f"{place}: ")
    assert f"the nearest is {nearest};" in text


@pytest.mark.parametrize(("model", "fields"), BODIES)
def test_a_misspelt_required_field_is_named(model, fields):
    body = model(**fields).to_object()
    for name in [field.alias or name for name, field in model.model_fields.items() if field.is_required()]:
        rest = {other: value for other, value in body.items() if other != name}
        assert "did you mean" not in code_and_text(lambda rest=rest: model.from_object(rest))[1]
        for sent in (rest | {name[:-1]: 1}, rest | {name[:-1]: 1, "4111111111111111": 1}) if len(name) > 3 else ():
            text = code_and_text(lambda sent=sent: model.from_wire(json.dumps(sent).encode()))[1]
            assert f"{name}: Field required; {name[:-1]}: did you mean {name}?" in text


@pytest.mark.parametrize("body", [ORDER, json.dumps(ORDER), None])
def test_a_body_that_is_not_bytes_is_a_typed_error(body):
    code, text = code_and_text(lambda: OrderRequest.from_wire(body))
    assert (code, text.split(",")[0]) == ("json.malformed", f"the OrderRequest body is {type(body).__name__}")


@pytest.mark.parametrize(("model", "fields"), BODIES)
def test_an_unknown_field_is_sent_on_purpose(model, fields):
    sent = model(**fields, unknown_fields={"endToEndId": "4711"})
    assert sent.unknown == {"endToEndId": "4711"}
    raw = json.dumps(json.loads(sent.to_wire()) | {"endToEndId": "4711"}).encode()
    for allowed in (True, ["endToEndId"]):
        assert model.from_wire(raw, unknown_fields=allowed).unknown == {"endToEndId": "4711"}
    assert "endToEndId" in code_and_text(lambda: model.from_wire(raw))[1]
    assert "endToEndId" in code_and_text(lambda: model.from_wire(raw, unknown_fields=["endToEnd"]))[1]
    assert model.from_wire(raw, tolerant=True).unknown == {"endToEndId": "4711"}


@pytest.mark.parametrize(
    "further", [{"amount": 1}, {"description": "x"}, {1: 2}, {("x",): 1}, ["x"], [["x"]], "x", True, 5]
)
def test_an_unknown_field_repeats_no_other_and_has_a_name(further):
    assert code_and_text(lambda: OrderRequest(**ORDER, unknown_fields=further))[0] == "model.invalid"


@pytest.mark.parametrize(
    "fields",
    [{"creditorName": "B", "unknown_fields": {"creditor_name": "B"}}, {"creditor_name": "B", "creditorName": "C"}, {"cls": 1}],
)  # fmt: skip
def test_a_field_has_one_of_its_two_names_and_any_name_is_reported(fields):
    payment = {name: value for name, value in PAYMENT.items() if name != "creditor_name"}
    assert code_and_text(lambda: PaymentInitiation(**payment, **fields))[0] == "model.invalid"


def test_a_field_of_an_answer_is_given_once():
    details = PAYMENT | {"payment_id": "1", "paymentId": "2", "transaction_status": "RCVD"}
    assert "payment_id is given" in code_and_text(lambda: PaymentDetails(**details))[1]


def test_a_name_that_could_be_a_card_number_is_not_repeated():
    assert "4111111111111111" not in code_and_text(lambda: OrderRequest(**ORDER, **{"4111111111111111": 1}))[1]


def test_answers_and_callbacks_keep_unknown_fields():
    details = json.loads(PaymentInitiation(**PAYMENT).to_wire()) | {
        "paymentId": "1",
        "transactionStatus": "RCVD",
        "x": 1,
    }
    assert PaymentDetails.from_wire(json.dumps(details).encode()).unknown == {"x": 1}
    assert LoginConfirmed(id=1, nme="x").unknown == {"nme": "x"}


@pytest.mark.parametrize("package", [psd2, legacy, gateway])
def test_a_model_that_is_part_of_a_public_one_is_public_where_a_request_needs_it(package):
    requests = [
        one
        for name in package.__all__
        if isinstance(one := getattr(package, name), type) and getattr(one, "is_request", False)
    ]
    needed = {part for one in requests for field in one.model_fields.values() for part in models_in(field.annotation)}
    assert requests
    assert {one.__name__ for one in needed if one.__module__.startswith(package.__name__)} - set(package.__all__) <= {
        "AniResults", "ExternalAuthentication",  # of answers only
    }  # fmt: skip


def models_in(annotation: Any) -> set[type[WireModel]]:
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        return {annotation}.union(*(models_in(field.annotation) for field in annotation.model_fields.values()))
    return set[type[WireModel]]().union(*(models_in(one) for one in getattr(annotation, "__args__", ())))
