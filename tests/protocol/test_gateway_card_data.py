"""Card data: what is accepted, and that nothing but the body of a request shows it."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from datetime import UTC, datetime

import pytest

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.gateway import CardRequest, CardSecret, Order, OrderRequest, PaymentMethodDetails
from tppkit.protocol.gateway.bodies import AuthenticateRequest
from tppkit.protocol.gateway.card_data import detect_brands, is_luhn_number, require_unexpired, truncate_pan
from tppkit.protocol.gateway.orders import OrderTransaction, TransactionRequest

PAN, CVC, EXPIRY = "4111111111111111", "9876", "122031"
ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
DETAILS = PaymentMethodDetails(
    cvc=CardSecret(CVC), card_expiry=CardSecret(EXPIRY), receiver_account_number=CardSecret(PAN), vault_token=ID
)
CARD = CardRequest(pan=CardSecret(PAN), expiry=CardSecret(EXPIRY), setup_token=ID, name="Ada Lovelace")
AUTHENTICATE = AuthenticateRequest(vault_token=ID, cvc=CardSecret(CVC))
CREATE = OrderRequest(
    currency="EUR", amount=100, transactions=(TransactionRequest(payment_method="credit-card", payment_method_details=DETAILS),)
)  # fmt: skip
ORDER = Order(
    id=ID, status="new", currency="EUR", amount=100,
    transactions=(OrderTransaction(id=ID, status="new", payment_method_details=DETAILS),),
)  # fmt: skip


@pytest.mark.parametrize("model", [CARD, AUTHENTICATE, CREATE, ORDER, DETAILS], ids=lambda model: type(model).__name__)
def test_no_accident_shows_card_data(model, caplog):
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("x").debug("%s %r", model, model)
    dumped = [
        model.model_dump(),
        model.model_dump(by_alias=True),
        model.to_object(),
        model.model_dump(mode="json"),
        vars(model),
        json.dumps(model, default=vars),
    ]
    shown = [
        str(model), repr(model), f"{model}", caplog.text, *map(repr, dumped), model.model_dump_json(), repr(copy.deepcopy(model)),
    ]  # fmt: skip
    assert [text for text in shown if any(secret in text for secret in (PAN, CVC, EXPIRY))] == []
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(model)


def test_a_secret_has_no_attributes_to_list_and_is_formatted_as_asterisks():
    pan = CardSecret(PAN)
    assert (vars(pan), copy.copy(pan), f"{pan:>12}") == ({}, CardSecret(PAN), "  **********")
    with pytest.raises(TypeError, match="not pickled"):
        pan.__getstate__()


def test_the_body_of_a_request_has_card_data():
    assert json.loads(CARD.to_wire()) == {"name": "Ada Lovelace", "pan": PAN, "expiry": EXPIRY, "setup_token": ID}
    assert json.loads(AUTHENTICATE.to_wire()) == {"vault_token": ID, "cvc": CVC}
    (transaction,) = json.loads(CREATE.to_wire())["transactions"]
    assert transaction["payment_method_details"]["cvc"] == CVC
    assert [CardRequest.from_wire(CARD.to_wire()), OrderRequest.from_wire(CREATE.to_wire())] == [CARD, CREATE]


def test_the_body_of_an_answer_has_the_expiry_date_only():
    (transaction,) = json.loads(ORDER.to_wire())["transactions"]
    assert transaction["payment_method_details"] == {"card_expiry": EXPIRY, "vault_token": ID}


def wire(**fields: str) -> bytes:
    return json.dumps({"pan": PAN, "expiry": EXPIRY, "setup_token": ID, **fields}).encode()


@pytest.mark.parametrize("pan", ["123456789012", "1234567890123456789", "4111111111111112"])
def test_12_to_19_digits_are_a_card_number_whatever_its_check_digit(pan):
    assert CardRequest.from_wire(wire(pan=pan)).pan == CardSecret(pan)


@pytest.mark.parametrize(
    "fields",
    [
        {"pan": "41111111111"}, {"pan": "41111111111111111111"}, {"pan": "4111 1111 1111 1111"}, {"pan": PAN + "\n"}, {"pan": "٤" * 16},
        {"expiry": "132031"}, {"expiry": "1231"}, {"expiry": EXPIRY + "\n"}, {"name": ""}, {"name": "a" * 121}, {"name": "a\0"},
        {"name": "Ada 4111-1111-1111"}, {"name": "\u0661" * 12},
        {"setup_token": "x"}, {"setup_token": ID + "\n"},
    ],
)  # fmt: skip
def test_other_cards_are_refused_without_showing_them(fields):
    with pytest.raises(FormatError) as refused:
        CardRequest.from_wire(wire(**fields))
    assert refused.value.code == "model.invalid"
    assert PAN not in str(refused.value)
    assert CardRequest.from_wire(wire(**fields), tolerant=True)


def test_an_error_of_a_constructor_does_not_show_the_value():
    with pytest.raises(FormatError, match="CardRequest: pan:") as refused:
        CardRequest(pan=CardSecret(PAN + "00000"), expiry=CardSecret(EXPIRY), setup_token=ID)
    assert PAN not in repr(refused.value)
    assert (refused.value.__context__, refused.value.__cause__) == (None, None)


@pytest.mark.parametrize(
    ("pan", "brands"),
    [
        (PAN, ("visa",)), ("5555555555554444", ("mastercard",)), ("2720990000000000", ("mastercard",)), ("2721000000000000", ()),
        ("378282246310005", ("american-express",)), ("3530111333300000", ("jcb",)), ("6011000990139424", ("discover", "maestro")),
        ("36227206271667", ("diners-club",)), ("6200000000000005", ("union-pay", "maestro")), ("999999999999", ()),
    ],
)  # fmt: skip
def test_brands_are_detected_by_the_first_digits(pan, brands):
    assert detect_brands(CardSecret(pan)) == brands


def test_a_truncated_number_has_the_first_six_and_last_four_digits():
    assert truncate_pan(CardSecret(PAN)) == "411111******1111"
    assert truncate_pan(CardSecret("123456789012")) == "123456**9012"


@pytest.mark.parametrize(("pan", "holds"), [(PAN, True), ("378282246310005", True), ("4111111111111112", False)])
def test_the_check_digit_is_known(pan, holds):
    assert is_luhn_number(CardSecret(pan)) is holds


def test_a_card_counts_until_the_end_of_its_month():
    require_unexpired(CardSecret("022028"), at=datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC))
    with pytest.raises(LocalProtocolError) as refused:
        require_unexpired(CardSecret("022028"), at=datetime(2028, 3, 1, tzinfo=UTC))
    assert refused.value.code == "card.expired"
    with pytest.raises(FormatError):
        require_unexpired(CardSecret("002028"), at=datetime(2028, 3, 1, tzinfo=UTC))


def test_the_error_about_an_expiry_date_shows_one():
    with pytest.raises(FormatError, match="not MMYYYY, such as 122030"):
        CardRequest(pan=CardSecret(PAN), expiry=CardSecret("12/30"), setup_token=ID)
