"""Bodies of the gateway: strict in requests, tolerant in answers, unknown fields kept."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reported import reported
from tppkit.errors import FormatError
from tppkit.protocol.gateway import CardSecret, Customer, Order, OrderRequest, PaymentLink, TransactionRequest
from tppkit.protocol.gateway.bodies import (
    AuthenticateRequest,
    CaptureRequest,
    CardRequest,
    SearchResult,
    VaultCard,
    VoidRequest,
    WalletSession,
    WalletSessionRequest,
)
from tppkit.protocol.gateway.endpoints import GATEWAY, REFUNDS, VAULT
from tppkit.protocol.gateway.orders import (
    CaptureMode,
    ExternalAuthentication,
    OneClickType,
    OrderTransaction,
    PaymentMethodDetails,
    Refund,
)
from tppkit.protocol.gateway.states import OrderStatus
from tppkit.protocol.gateway.values import (
    MAX_AMOUNT,
    amount_with_decimals,
    read_duration,
    read_timestamp,
    require_uuid,
    write_timestamp,
)
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.protocol.wire import MAX_BODY_BYTES, Json, JsonArray
from tppkit.testing import assert_no_pan

ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
PAN, CVC = "4929123456785676", "0739"
REQUEST = {"currency": "EUR", "amount": 1250}
ANSWER = {**REQUEST, "id": ID, "status": "completed"}


def raw(fields: object) -> bytes:
    return json.dumps(fields).encode()


ADDRESS = ("first_name", "last_name", "address_type", "address", "postal_code", "city", "country", "state")
VALID: Mapping[str, Mapping[str, Any]] = {
    "create_order": {
        "currency": "EUR", "amount": 1000, "customer": dict.fromkeys(ADDRESS, "GB"), "payment_methods": ["credit-card"],
    },
    "capture_amount": {"amount": 1, "description": "x"}, "void_amount": {"amount": 1}, "initiate": {"vault_token": ID},
    "authenticate": {"vault_token": ID, "cvc": CVC}, "search": {"query": "*"},
    "wallet_session": {
        "validationUrl": "HTTPS://wallet.example/start", "merchantIdentifier": "0" * 32, "displayName": "Shop",
        "initiativeContext": "xn--shp-0na.Shop-1.example",
    },
    "create_refund": {"amount": 1}, "create_payment_link": REQUEST | {"merchant_order_id": "L-1"},
    "store_card": {"pan": PAN, "expiry": "122030", "setup_token": ID},
}  # fmt: skip
NO_AMOUNTS = (None, -1, 0.5, 1.0, True, "1", [1], {}, MAX_AMOUNT + 1, 10**40)
NO_CURRENCIES = (None, "", "eur", "EU", "EURO", "XXX", "XAU", "XTS", "ABC", "EUR\n", 978, ["EUR"])
NO_TEXTS = ("", "x" * 1001, "a\u0000b", "a\u001bb", 7, True, [], {})
NO_ADDRESSES = (
    "", "x", "/x", "ftp://x/", "javascript:alert(1)", "https://", "https://u:p@x/", "https://x/ y", "https://x:0/", "https://x:99999/",
    "https://ą/", "https://x/ą", "https://x/\x7f", "https://x/" + "y" * 2100, 7,
)  # fmt: skip
NO_PAGES = (
    *NO_ADDRESSES, "data:text/html,x", "file:///etc/passwd", "blob:https://shop.example/1", "about:blank", "http://shop.example/",
    "http://localhost.shop.example/", "http://127.0.0.1@shop.example/", "http://10.0.0.1/", "//shop.example/", "/back", "ftp://localhost/",
    "intent://shop#Intent;end",
)  # fmt: skip
NO_PERIODS = (
    "", "P", "PT", "1H", "P1Y", "P1M", "PT0S", "-PT1H", "P3651D", "PT1.5H", "P1W1D", "pt1h", "P" + "9" * 5000 + "D", "P1",
    "P1DT", "P999999999W", "PT1H\n", 60,
)  # fmt: skip
NO_METHODS = ([], "credit-card", [7], ["Credit"], [""], [None], {}, ["x" * 41])
NO_UUIDS = ("", "x", ID + "0", "0" * 36, 7, [ID])
WRONG: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "create_order": {
        "currency": NO_CURRENCIES, "amount": NO_AMOUNTS, "merchant_order_id": ("x" * 256, *NO_TEXTS), "merchant_name": NO_TEXTS,
        "description": NO_TEXTS,
        "expiration_period": NO_PERIODS, "payment_methods": NO_METHODS, "return_url": NO_PAGES, "failure_url": NO_PAGES,
        "webhook_url": NO_ADDRESSES, "client": ("x", [], 7), "extra": ("x", [], 7),
        "customer": ("x", [], 7, *({name: 7} for name in ADDRESS), {"country": "us"}, {"country": "USA"}, {"phone_numbers": "1"}),
        "transactions": (
            {}, "x", [7], [{}, {}], [{"payment_method": 7}], *([{"capture_mode": mode}] for mode in ("", "MANUAL", "later", 1)),
            [{"expiration_period": "P1Y"}], *([{"payment_method_details": details}] for details in (
                [], {"one_click_type": "second"}, {"vault_token": "x"}, {"cvc": "12"}, {"cvc": 123}, {"first_transaction_id": "x"},
                {"cardholder_name": "4111 1111 1111 1111"},
            )),
        ),
    },
    "capture_amount": {"amount": NO_AMOUNTS, "description": (None, *NO_TEXTS)},
    "void_amount": {"amount": NO_AMOUNTS, "description": NO_TEXTS},
    "initiate": {"vault_token": (None, *NO_UUIDS)},
    "authenticate": {
        "vault_token": (None, *NO_UUIDS), "cvc": (None, "", "12", "12345", "12x", "１２３", "123\n", 739, ["123"]),
        "3ds_method_used": ("true", 1, []), "3ds_version": NO_TEXTS, "cavv": NO_TEXTS, "ds_transaction_id": NO_TEXTS,
    },
    "search": {
        "query": (None, "", 7, [], "x" * 4097), "size": (0, -1, 1.5, "1", True), "start": (-1, "0", 0.5), "sort": NO_TEXTS,
        "search_after": ("", -1, []),
    },
    "wallet_session": {
        "validationUrl": (None, "http://wallet.example/", "ftp://wallet.example", *NO_ADDRESSES), "merchantIdentifier": (None, *NO_TEXTS),
        "displayName": (None, *NO_TEXTS),
        "initiativeContext": (None, "https://shop.example", "shop.example:8443", "shop.example/pay", "127.0.0.1", "shop.example\n",
            "-shop.example", "shop_1.example", "\u015b.example", "shop..example", ".".join(["a" * 50] * 6), *NO_TEXTS),
    },
    "create_refund": {"amount": NO_AMOUNTS, "description": NO_TEXTS},
    "create_payment_link": {
        "merchant_order_id": (None, *NO_TEXTS), "amount": NO_AMOUNTS, "currency": NO_CURRENCIES, "description": NO_TEXTS,
        "payment_methods": NO_METHODS, "expiration_period": NO_PERIODS, "return_url": NO_PAGES, "webhook_url": NO_ADDRESSES,
    },
    "store_card": {
        "pan": (None, "", "4" * 11, "4" * 20, PAN + "\n", " " + PAN, "4111-1111-1111-1111", "４" * 16, 7, [PAN]),
        "expiry": (None, "", "132030", "002030", "1230", "12/2030", "122030\n", "1220300", 122030),
        "name": ("", "x" * 121, "4111 1111-1111", "a\u0000b", 7), "setup_token": (None, *NO_UUIDS),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "row", [row for row in (*GATEWAY.endpoints, *VAULT.endpoints) if row.name in VALID], ids=lambda row: row.name
)
def test_a_request_with_a_wrong_value_is_refused(row):
    row.request.read(raw(VALID[row.name]), tolerant=False)
    for field, values in WRONG[row.name].items():
        for value in values:
            with pytest.raises(FormatError, match=f": {field}") as refused:
                pytest.fail(
                    f"{value!r} is read: {row.request.read(raw(VALID[row.name] | {field: value}), tolerant=False)}"
                )
            assert refused.value.code == "model.invalid"


@pytest.mark.parametrize("field", ["return_url", "failure_url", "webhook_url"])
def test_an_address_that_is_too_long_is_refused_by_its_length(field):
    with pytest.raises(FormatError, match="longer than 2048 characters"):
        OrderRequest.from_wire(raw(REQUEST | {field: "https://shop.example/?state=" + "a" * 2050}))


def test_a_refusal_does_not_repeat_the_value():
    with pytest.raises(FormatError) as refused:
        OrderRequest.from_wire(raw(REQUEST | {"currency": "sesame", "transactions": [{"capture_mode": "sesame"}]}))
    assert "capture_mode" in refused.value.message
    assert "sesame" not in refused.value.message


def test_the_largest_amount_is_named_without_digits_like_a_card_number():
    with pytest.raises(FormatError, match=r"less than or equal to 2\^63 - 1"):
        OrderRequest.from_wire(raw(REQUEST | {"amount": 2**63}))


@pytest.mark.parametrize("address", [
    "myapp://paid", "com.example.app:/done", "https://shop.example/a?b#c", "http://localhost:8000/", "http://127.0.0.1/",
    "http://[::1]:80/x",
])  # fmt: skip
def test_customers_return_to_a_web_page_an_application_or_this_machine(address):
    sent = OrderRequest.from_wire(raw(REQUEST | {"return_url": address, "failure_url": address}))
    assert (sent.return_url, sent.failure_url) == (address, address)


@pytest.mark.parametrize("text", ["", "../orders", ID + "/", ID[:-1], ID.replace("-", "")])
def test_an_id_that_is_no_uuid_is_not_sent(text):
    with pytest.raises(FormatError) as refused:
        require_uuid(text, "order_id")
    assert refused.value.code == "id.malformed"


def test_an_order_of_zero_is_possible():
    methods = ("credit-card", "bank-transfer")
    assert OrderRequest(currency="EUR", amount=0, payment_methods=methods).payment_methods == methods
    assert OrderRequest.from_wire(raw(REQUEST | {"amount": 0})).amount == 0


def test_an_order_without_transaction_does_not_name_them():
    order = OrderRequest(currency="JPY", amount=500, merchant_order_id="4711")
    assert json.loads(order.to_wire()) == {"currency": "JPY", "amount": 500, "merchant_order_id": "4711"}
    assert order.transaction is None


def test_the_modes_of_a_request_are_members():
    details = PaymentMethodDetails(one_click_type=OneClickType.FIRST)
    request = OrderRequest(
        currency="EUR", amount=1,
        transactions=(TransactionRequest(payment_method="credit-card", capture_mode=CaptureMode.DELAYED, payment_method_details=details),),
    )  # fmt: skip
    read = OrderRequest.from_wire(request.to_wire()).transaction
    assert read is not None
    assert read.capture_mode is CaptureMode.DELAYED
    assert read.payment_method_details == details


def test_an_answer_is_kept_as_it_came():
    strange = ANSWER | {
        "status": "paused", "currency": "XBT", "created": "yesterday", "expiration_period": "P1M", "payment_methods": [{"name": "x"}],
        "extra": {"a": [1, None]}, "new_field": {"b": None}, "customer": {"country": "Latvia", "vat": 1},
        "transactions": [{"id": "t", "status": "pending", "fee": 1, "outcomes": {"refund": {}}}],
    }  # fmt: skip
    order = Order.from_wire(raw(strange), tolerant=True)
    assert (order.status, order.unknown) == ("paused", {"new_field": {"b": None}})
    assert json.loads(order.to_wire()) == {
        "flags": [],
        **strange,
        "transactions": [{**strange["transactions"][0], "events": []}],
    }
    assert Order.from_wire(raw(ANSWER), tolerant=True).status is OrderStatus.COMPLETED


EMPTIES = [
    (Order, ANSWER, {"flags": None, "transactions": None}), (Order, ANSWER, {"extra": [], "client": []}),
    (OrderTransaction, {"id": ID, "status": "new"}, {"events": None}), (Refund, ANSWER, {"flags": None}),
    (VaultCard, {"vault_token": ID, "truncated_pan": "4"}, {"brands": None}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "required", "fields"), EMPTIES)
def test_null_for_a_list_and_a_list_for_an_empty_map_are_read_in_answers_only(model, required, fields):
    read = model.from_wire(raw(required | fields), tolerant=True)
    assert read.to_object().items() >= {name: {} if value == [] else [] for name, value in fields.items()}.items()
    for name in fields:
        with pytest.raises(FormatError):
            model.from_wire(raw(required | {name: fields[name]}))


@pytest.mark.parametrize("model", [Order, OrderTransaction, Refund, VaultCard, PaymentLink, SearchResult])
def test_null_counts_as_absent_for_every_optional_field_of_an_answer(model):
    required = {**ANSWER, "vault_token": ID, "truncated_pan": "4", "orders": [], "merchant_order_id": "4711"}
    kept = {
        name: value
        for name, value in required.items()
        if name in model.model_fields and model.model_fields[name].is_required()
    }
    absent = {name: None for name, field in model.model_fields.items() if not field.is_required()}
    assert model.from_wire(raw(kept | absent), tolerant=True) == model.from_wire(raw(kept), tolerant=True)


def test_an_order_does_not_show_persons_addresses_and_tokens():
    secret = {
        "customer": {"first_name": "sesame", "email_address": "sesame", "phone_numbers": ["sesame"], "password": "sesame"},
        "extra": {"a": "sesame"}, "order_url": "https://sesame.example/", "note": "sesame", "webhook_url": "https://x.example/sesame",
        "transactions": [{"id": ID, "status": "new", "payment_url": "sesame", "payment_method_details": {"vault_token": "sesame"}}],
    }  # fmt: skip
    order = Order.from_wire(raw(ANSWER | secret), tolerant=True)
    assert "sesame" not in f"{order} {order!r}"
    assert "completed" in repr(order)


def test_names_of_external_values_differ_between_request_and_answer():
    values = {"cavv": "a", "three_ds_version": "2.2.0", "three_ds_method_used": True, "ds_transaction_id": "d"}
    request = {
        "vault_token": ID,
        "cvc": "123",
        "cavv": "a",
        "3ds_version": "2.2.0",
        "3ds_method_used": True,
        "ds_transaction_id": "d",
    }
    read = AuthenticateRequest.from_wire(raw(request))
    assert {name: getattr(read, name) for name in values} == values
    assert json.loads(read.to_wire()) == request
    answer = {"authenticationValue": "a", "protocolVersion": "2.2.0", "methodUsed": True, "dsTransID": "d"}
    assert json.loads(ExternalAuthentication(**values).to_wire()) == answer
    assert ExternalAuthentication.from_wire(raw(answer)) == ExternalAuthentication(**values)


@pytest.mark.parametrize("value", ["Y", 1, [], {}])
def test_the_3ds_method_is_a_boolean_in_requests_and_anything_in_answers(value):
    with pytest.raises(FormatError):
        AuthenticateRequest.from_wire(raw({"vault_token": ID, "cvc": "123", "3ds_method_used": value}))
    with pytest.raises(FormatError):
        ExternalAuthentication.from_wire(raw({"methodUsed": value}))
    answer = ExternalAuthentication.from_wire(raw({"methodUsed": value}), tolerant=True)
    assert json.loads(answer.to_wire()) == {"methodUsed": value}


def test_only_a_capture_needs_a_description():
    assert VoidRequest.from_wire(b'{"amount":1}').description is None
    with pytest.raises(FormatError):
        CaptureRequest.from_wire(b'{"amount":1}')


def test_wallet_sessions_have_names_in_camel_case():
    fields = {
        "validationUrl": "https://wallet.example/start", "merchantIdentifier": "0" * 32, "displayName": "Shop",
        "initiativeContext": "shop.example",
    }  # fmt: skip
    assert json.loads(WalletSessionRequest.from_wire(raw(fields)).to_wire()) == fields
    assert WalletSession.from_wire(b'{"sessionData":[1,"a"]}').session_data == [1, "a"]


def test_a_payment_link_groups_its_orders_by_status():
    fields = {
        **REQUEST, "id": ID, "merchant_order_id": "4711", "status": "all_unsuccessful", "orders": {"error": [ID], "cancelled": []},
    }  # fmt: skip
    link = PaymentLink.from_wire(raw(fields), tolerant=True)
    assert link.orders == {"error": (ID,), "cancelled": ()}
    assert json.loads(link.to_wire()) == fields


def test_refunds_are_a_bare_array():
    (refund,) = REFUNDS.whole.read(
        raw([{**REQUEST, "id": ID, "status": "completed", "flags": ["is-refund"]}]), tolerant=True
    )
    assert (refund.amount, refund.flags) == (1250, ("is-refund",))


@pytest.mark.parametrize("row", GATEWAY.endpoints, ids=lambda row: row.name)
@given(body=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["amount", "currency", "transactions", "customer", "query", "id"]), inner, max_size=4)))  # fmt: skip
def test_only_format_error_escapes(row, body):
    for form in (row.request, row.answer):
        if isinstance(form, Json):
            for tolerant in (False, True):
                with suppress(FormatError):
                    form.read(raw(body), tolerant=tolerant)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT1H", timedelta(hours=1)), ("P7D", timedelta(days=7)), ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("P2W", timedelta(weeks=2)), ("PT90M", timedelta(minutes=90)),
    ],
)  # fmt: skip
def test_durations_are_weeks_or_days_and_time(text, duration):
    assert read_duration(text) == duration


@given(st.datetimes(timezones=st.timezones()))
def test_time_stamps_come_back(at):
    try:
        utc = at.astimezone(UTC)
    except OverflowError:
        return
    assert read_timestamp(write_timestamp(utc)) == utc


def test_a_time_stamp_without_an_offset_is_utc():
    assert read_timestamp("2026-01-02T03:04:05") == read_timestamp("2026-01-02T05:04:05+02:00")
    with pytest.raises(ValueError, match="date-time"):
        read_timestamp("0001-01-01T00:00:00+14:00")


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (500, "JPY", "500"),
        (1234, "EUR", "12.34"),
        (5, "EUR", "0.05"),
        (1500, "BHD", "1.500"),
        (0, "EUR", "0.00"),
        (1, "XAU", None),
    ],
)
def test_amounts_have_the_decimals_of_their_currency(amount, currency, text):
    assert amount_with_decimals(amount, currency) == text


@pytest.mark.parametrize("other", [{"event": "order_paid"}, {"event": None}, {"order_id": "4711"}, {"project_id": 1}])
def test_a_webhook_of_another_form_is_refused_and_further_fields_are_not(other):
    webhook = {"event": "status_changed", "order_id": ID, "project_id": ID}
    assert StatusChanged.from_wire(raw({**webhook, "status": "completed"})).order_id == ID
    with pytest.raises(FormatError, match=r"model\.invalid"):
        StatusChanged.from_wire(raw(webhook | other))


def test_lists_are_accepted_as_arrays():
    card = TransactionRequest(payment_method="credit-card")
    fields: dict[str, Any] = {
        "transactions": [card],
        "payment_methods": ["credit-card"],
        "customer": Customer(phone_numbers=["1"]),
    }
    order = OrderRequest(**REQUEST, **fields)
    assert order.transactions == (card,)
    assert OrderRequest.from_wire(order.to_wire()) == order


def test_a_cardholder_name_with_as_many_digits_as_a_card_number_is_refused():
    for model, name in ((CardRequest, "name"), (PaymentMethodDetails, "cardholder_name")):
        with pytest.raises(
            FormatError, match=f"{name}: Value error, not 1 to 120 characters with fewer than 12 digits"
        ):
            model.from_wire(raw({name: "Ona 4111-1111/1111"}))
    assert PaymentMethodDetails.from_wire(raw({"cardholder_name": "Ona 2"})).cardholder_name == "Ona 2"


def test_a_body_that_could_not_be_made_has_a_representation():
    with pytest.raises(FormatError) as refused:
        AuthenticateRequest(vault_token="x", cvc=CardSecret("1"))
    shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    assert "pydantic" not in "".join(shown.format())
    assert repr(AuthenticateRequest.__new__(AuthenticateRequest)) == "AuthenticateRequest()"


CARD = {"pan": PAN, "expiry": "122030", "setup_token": ID}
CARD_ORDER = REQUEST | {"transactions": [{"payment_method_details": {"cvc": CVC, "receiver_account_number": PAN}}]}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CardRequest, raw(CARD)[:-1]), (CardRequest, raw(CARD)[:-1] + b',"pan":"1"}'), (CardRequest, raw(CARD) + b"\xff"),
        (CardRequest, raw(CARD | {"name": "a" * MAX_BODY_BYTES})), (CardRequest, raw([[CARD] * 2] * 33)), (CardRequest, raw(PAN)),
        (CardRequest, raw(CARD | {"expiry": PAN})), (CardRequest, raw(CARD | {"pan": int(PAN)})), (CardRequest, raw(CARD | {"name": PAN})),
        (CardRequest, raw({"pan": PAN, PAN: CVC})), (AuthenticateRequest, raw({"cvc": CVC, "vault_token": PAN})),
        (AuthenticateRequest, raw({"cvc": f"{CVC} {CVC}"})), (OrderRequest, raw(CARD_ORDER | {"amount": PAN})),
        (OrderRequest, raw(CARD_ORDER | {"transactions": [CARD] * 2})),
    ],
)  # fmt: skip
def test_errors_of_reading_have_no_card_among_the_variables_of_their_frames(model, body):
    readers = [lambda: model.from_wire(body), lambda: Json(model).read(body, tolerant=False)]
    readers += [
        lambda: CardRequest.from_object(CARD | {"expiry": PAN}),
        lambda: JsonArray(model).read(body, tolerant=True),
    ]
    for read in readers:
        with pytest.raises(FormatError) as refused:
            read()
        assert refused.value.__context__ is None
        assert_no_pan([*reported(refused.value)], cards=[PAN, CVC])
