"""What travels in PSD2 bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from tppkit.errors import FormatError
from tppkit.protocol.psd2 import (
    AccountReference,
    InstructedAmount,
    PaymentInitiated,
    PaymentInitiation,
    PaymentProduct,
    PaymentStatus,
    TransactionStatus,
)
from tppkit.protocol.wire import MAX_BODY_BYTES, WireModel

PAYMENT: dict[str, Any] = {
    "instructedAmount": {"currency": "EUR", "amount": "12.50"},
    "creditorAccount": {"iban": "LT601010012345678901"},
    "creditorName": "Example Merchant",
}
LINKS = {name: {"href": f"/{name}"} for name in ("status", "self")} | {
    "scaRedirect": {"href": "https://bank.example/sca"}
}
INITIATED = {"transactionStatus": "RCVD", "paymentId": "p-1", "_links": LINKS}


def wire(value: object) -> bytes:
    return json.dumps(value).encode()


def with_field(name: str, value: object) -> bytes:
    """The payment with another value in a field; `a.b` is a field inside a field."""
    outer, _, inner = name.partition(".")
    return wire(PAYMENT | {outer: PAYMENT.get(outer, {}) | {inner: value} if inner else value})


def fault(raw: bytes, model: type[WireModel] = PaymentInitiation) -> FormatError:
    with pytest.raises(FormatError) as caught:
        model.from_wire(raw)
    return caught.value


def test_a_payment_is_read():
    payment = PaymentInitiation.from_wire(with_field("debtorAccount", {"iban": "DE89370400440532013000"}))
    assert (payment.instructed_amount.currency, payment.instructed_amount.amount) == ("EUR", "12.50")
    assert payment.creditor_account.iban == "LT601010012345678901"
    assert payment.creditor_name == "Example Merchant"
    assert payment.remittance_information_unstructured is None
    assert payment.debtor_account == AccountReference(iban="DE89370400440532013000")


def test_an_initiated_payment_is_read():
    initiated = PaymentInitiated.from_wire(wire(INITIATED))
    assert (initiated.transaction_status, initiated.payment_id) == (TransactionStatus.RCVD, "p-1")
    assert (initiated.links.sca_redirect.href, initiated.links.self_.href) == ("https://bank.example/sca", "/self")


def test_the_id_of_an_initiated_payment_is_read_without_the_links_that_other_banks_leave_out():
    links = {"scaRedirect": LINKS["scaRedirect"]}
    assert PaymentInitiated.from_wire(wire(INITIATED | {"_links": links}), tolerant=True).payment_id == "p-1"


@pytest.mark.parametrize("href", ["http://localhost:8081/a?b=c#d", "HTTPS://bank.example", "https://[::1]/a"])
def test_an_approval_link_is_a_web_address(href):
    links = LINKS | {"scaRedirect": {"href": href}}
    assert PaymentInitiated.from_wire(wire(INITIATED | {"_links": links})).links.sca_redirect.href == href


@pytest.mark.parametrize(
    "href",
    [
        "", "/approve", "//bank.example/a", "javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "file:///etc/passwd",
        "intent://pay#Intent;end", "https:bank.example", "https:///a", "https://bank.example/ a", "https://bank.example/\r\nX: y",
        "https://bank.example@evil.example/", "https://[::1/a", " https://bank.example", "https://bank.example:x/",
    ],
)  # fmt: skip
def test_an_approval_link_that_a_browser_must_not_open_is_refused(href):
    error = fault(wire(INITIATED | {"_links": LINKS | {"scaRedirect": {"href": href}}}), PaymentInitiated)
    assert (error.code, "_links.scaRedirect" in error.message) == ("model.invalid", True)


def test_a_payment_is_written_with_the_names_of_the_document_and_without_what_is_absent():
    payment = PaymentInitiation(
        instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
        creditor_account=AccountReference(iban="LT601010012345678901"),
        creditor_name="Example Merchant",
        remittance_information_unstructured=None,
    )
    assert json.loads(payment.to_wire()) == PAYMENT
    assert b" " not in payment.to_wire().replace(b"Example Merchant", b"")


READ: Mapping[str, tuple[Any, ...]] = {
    "instructedAmount.amount": ("0.01", "0.1", "0.10", "1", "1.0", "12.5", "12.50", "999999999", "999999999.99"),
    "creditorAccount.iban": ("LT601010012345678901", "NO9386011117947", "MT31MALT01100000000000000000123"),
    "creditorName": ("A", "ž" * 70, "O'Neill & Söhne 株式会社"), "remittanceInformationUnstructured": ("", "x" * 140),
}  # fmt: skip
NO_IBANS = (
    "LT601010012345678902", "LT061010012345678901", "lt601010012345678901", "LT60 1010 0123 4567 8901", "LT60", "",
    "LT601010012345678901\n", "LT６01010012345678901", "LT60" + "1" * 40, None, 60, "LT1410100123456789012", "ZZ591234567890123456",
)  # fmt: skip
REFUSED: Mapping[str, tuple[Any, ...]] = {
    "instructedAmount": (None, []), "creditorAccount": (None, {}, []), "creditorAccount.iban": NO_IBANS, "debtorAccount.iban": NO_IBANS,
    "instructedAmount.amount": (
        "0", "0.0", "0.00", "00.01", "01", "-1", "+1", "1.", ".5", "1.005", "1,50", "1 000", "1000000000", "1e3", "１", "12.50\n",
        " 1", "", "NaN", "Infinity", 12.5, 12, None, True, ["1"],
    ),
    "instructedAmount.currency": ("USD", "eur", "EURO", "EUR\n", "", None, 978),
    "creditorName": ("   ", "", "A" * 71, "A\nB", "A\x00", "A\u202eB", "A\x85", None, 5),
    "remittanceInformationUnstructured": ("x" * 141, "a\nb", 5, ["x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_value_within_the_rules_is_read(name):
    for value in READ[name]:
        raw = with_field(name, value)
        assert json.loads(PaymentInitiation.from_wire(raw).to_wire()) == json.loads(raw)


@pytest.mark.parametrize("name", REFUSED)
def test_another_value_is_refused(name):
    for value in REFUSED[name]:
        with pytest.raises(FormatError, match=name.partition(".")[0]) as refused:
            pytest.fail(f"{value!r} is read: {PaymentInitiation.from_wire(with_field(name, value))}")
        assert refused.value.code == "model.invalid"


@pytest.mark.parametrize("name", PAYMENT)
def test_each_required_field_is_required_and_named_when_it_is_absent(name):
    assert name in fault(wire({key: value for key, value in PAYMENT.items() if key != name})).message


def test_a_field_under_its_python_name_is_not_the_field():
    spelt = {("creditor_name" if key == "creditorName" else key): value for key, value in PAYMENT.items()}
    assert fault(wire(spelt)).code == "model.invalid"


def test_a_python_name_beside_the_field_is_an_unknown_field():
    payment = PaymentInitiation.from_wire(with_field("creditor_name", "Somebody Else"), unknown_fields=True)
    assert payment.creditor_name == "Example Merchant"
    assert json.loads(payment.to_wire()) == PAYMENT | {"creditor_name": "Somebody Else"}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "json.malformed"),
        (b"{", "json.malformed"),
        (b"\xff\xfe{}", "json.malformed"),
        (wire(PAYMENT) + b"x", "json.malformed"),
        (wire(PAYMENT)[:-1] + b',"x":NaN}', "json.malformed"),
        (wire(PAYMENT)[:-1] + b',"x":1e999}', "json.malformed"),
        (wire(PAYMENT)[:-1] + b',"x":"\\ud800"}', "json.malformed"),
        (wire(PAYMENT)[:-1] + b',"creditorName":"B"}', "json.duplicate-name"),
        (b"[" * 200, "json.too-deep"),
        (b" " * (MAX_BODY_BYTES + 1), "json.too-large"),
        (b"[]", "model.invalid"),
        (b"null", "model.invalid"),
        (b'"text"', "model.invalid"),
    ],
)
def test_a_body_that_is_not_an_object_of_the_interface_is_refused(raw, code):
    assert fault(raw).code == code


@pytest.mark.parametrize("status", ["XXXX", "rcvd", "", None, 1])
def test_a_status_that_the_document_does_not_list_is_not_written(status):
    assert fault(wire({"transactionStatus": status}), PaymentStatus).code == "model.invalid"


def test_an_empty_payment_id_is_refused():
    assert fault(wire(INITIATED | {"paymentId": ""}), PaymentInitiated).code == "model.invalid"


SECRET = "swordfish-4711"


@pytest.mark.parametrize(
    "name",
    [
        "instructedAmount",
        "instructedAmount.amount",
        "instructedAmount.currency",
        "creditorAccount.iban",
        "creditorName",
    ],
)
@pytest.mark.parametrize("value", [SECRET + "\n" * 80, [SECRET], {SECRET: SECRET}, {"iban": SECRET}])
def test_a_refusal_names_the_field_and_never_shows_its_value(name, value):
    error = fault(with_field(name, value))
    assert SECRET not in str(error)
    assert name.partition(".")[0] in error.message
    assert error.__cause__ is None


def test_a_refusal_in_python_does_not_show_the_value_either():
    with pytest.raises(FormatError) as caught:
        AccountReference(iban=SECRET)
    assert SECRET not in str(caught.value)


def test_a_model_cannot_be_changed():
    payment = PaymentInitiation.from_wire(wire(PAYMENT))
    with pytest.raises(ValidationError):
        payment.creditor_name = "B"  # type: ignore[misc]


@pytest.mark.parametrize(("name", "value"), [("creditorName", "A" * 200), ("instructedAmount.currency", "USD"),
                                             ("creditorAccount.iban", "GB-no-iban"), ("instructedAmount.amount", "0.001")])  # fmt: skip
def test_a_value_beyond_the_rules_is_kept_in_an_answer_and_rejected_in_a_request(name, value):
    raw = with_field(name, value)
    assert json.loads(PaymentInitiation.from_wire(raw, tolerant=True).to_wire()) == json.loads(raw)
    assert fault(raw).code == "model.invalid"


def test_the_products_are_those_of_the_document():
    assert {product.value for product in PaymentProduct} == {"sepa-credit-transfers", "instant-sepa-credit-transfers"}
