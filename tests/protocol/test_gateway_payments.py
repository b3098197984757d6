"""Rules for orders and cards, each with what just holds and what just does not."""

from __future__ import annotations

import traceback
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tppkit.errors import LocalProtocolError, Severity
from tppkit.protocol.gateway import (
    CardSecret,
    Customer,
    Order,
    OrderRequest,
    PaymentMethodDetails,
    TransactionRequest,
    is_paid,
)
from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest
from tppkit.protocol.gateway.orders import OrderTransaction
from tppkit.protocol.gateway.payments import (
    ani_results,
    check_card,
    check_order,
    external_authentication,
    is_name_inquiry,
    merchant_identifier,
    require_aft_enabled,
    require_one_click_card,
    require_recurring,
    require_same_card,
    require_setup_token,
    shown_details,
)
from tppkit.protocol.gateway.states import OrderStatus, SetupTokenState

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
CVC = CardSecret("123")
AFT = {"receiver_account_number": CardSecret("4111111111111111"), "receiver_account_number_type": "card-account"}
CUSTOMER = {
    "first_name": "Ada", "last_name": "Lovelace", "address_type": "billing", "address": "1 Main Street", "postal_code": "10001",
    "city": "New York", "country": "GB",
}  # fmt: skip


def request(details: dict[str, Any] | None, *, method: str = "credit-card", **customer: Any) -> OrderRequest:
    kept = None if details is None else PaymentMethodDetails(**details)
    transaction = TransactionRequest(payment_method=method, payment_method_details=kept)
    return OrderRequest(
        currency="EUR", amount=0, transactions=(transaction,), customer=Customer(**customer) if customer else None
    )


def order(status: str, *transactions: str, **fields: Any) -> Order:
    attempts = tuple(OrderTransaction(id=ID, status=one, credit_debit="credit") for one in transactions)
    return Order(id=ID, status=status, currency="EUR", amount=1, transactions=attempts, **fields)


@pytest.mark.parametrize(
    ("details", "customer"),
    [
        (None, {}), ({}, {}), ({"one_click_type": "first"}, {}), ({"one_click_type": "one-click", "vault_token": ID, "cvc": CVC}, {}),
        ({"one_click_type": "one-click", "first_transaction_id": ID, "cvc": CVC}, {}),
        ({"recurring_type": "recurring", "first_network_transaction_id": "n"}, {}), ({"recurring_type": "recurring"}, {}), (AFT, CUSTOMER),
        (AFT, CUSTOMER | {"country": "CA", "state": "ON"}), (AFT, CUSTOMER | {"country": "US", "state": "AE"}),
    ],
)  # fmt: skip
def test_orders_within_the_rules_are_accepted(details, customer):
    check_order(request(details, **customer))


def test_other_payment_methods_have_no_rules_of_cards():
    check_order(request({"cardholder_name": "Ada"}, method="bank-transfer"))


def test_an_order_without_transaction_has_no_further_rules():
    check_order(OrderRequest(currency="EUR", amount=1))


@pytest.mark.parametrize(
    ("details", "customer", "code"),
    [
        ({"one_click_type": "one-click", "vault_token": ID}, {}, "one-click.cvc"),
        ({"one_click_type": "one-click", "cvc": CVC}, {}, "one-click.card"),
        ({"one_click_type": "one-click", "vault_token": ID, "first_transaction_id": ID, "cvc": CVC}, {}, "one-click.card"),
        ({"vault_token": ID}, {}, "one-click.card"), ({"one_click_type": "first", "cvc": CVC}, {}, "one-click.card"),
        ({"one_click_type": "first", "recurring_type": "recurring", "first_network_transaction_id": "n"}, {}, "one-click.recurring"),
        ({"one_click_type": "first", "recurring_type": "recurring"}, {}, "one-click.recurring"),
        ({"first_network_transaction_id": "n"}, {}, "recurring.incomplete"),
        (AFT | {"receiver_account_number_type": "iban"}, CUSTOMER, "aft.receiver"),
        (AFT | {"receiver_account_number": None}, CUSTOMER, "aft.receiver"),
        (AFT | {"receiver_account_number_type": None}, CUSTOMER, "aft.receiver"),
        (AFT | {"receiver_account_number": CardSecret("41111111111")}, CUSTOMER, "aft.receiver"), (AFT, {}, "aft.address"),
        (AFT, CUSTOMER | {"postal_code": None}, "aft.address"), (AFT, CUSTOMER | {"city": " "}, "aft.address"),
        (AFT, CUSTOMER | {"address_type": "shipping"}, "aft.address"), (AFT, CUSTOMER | {"country": "US"}, "aft.state"),
        (AFT, CUSTOMER | {"country": "US", "state": "PR"}, "aft.state"), (AFT, CUSTOMER | {"country": "CA", "state": "NY"}, "aft.state"),
    ],
)  # fmt: skip
def test_orders_outside_of_the_rules_are_refused(details, customer, code):
    with pytest.raises(LocalProtocolError) as refused:
        check_order(request(details, **customer))
    assert refused.value.code == code
    shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    assert "411111111" not in "".join([str(refused.value), *shown.format()])


@pytest.mark.parametrize("name", list(CUSTOMER))
def test_account_funding_needs_all_seven_fields_of_the_address(name):
    with pytest.raises(LocalProtocolError, match=name):
        check_order(request(AFT, **(CUSTOMER | {name: None})))


@pytest.mark.parametrize("details", [{"one_click_type": "first"}, AFT])
def test_only_cards_have_one_click_and_account_funding(details):
    with pytest.raises(LocalProtocolError) as refused:
        check_order(request(details, method="bank-transfer", **CUSTOMER))
    assert refused.value.code == "order.method"


def test_account_funding_must_be_enabled():
    require_aft_enabled(PaymentMethodDetails(**AFT), enabled=True)
    require_aft_enabled(PaymentMethodDetails(), enabled=False)
    with pytest.raises(LocalProtocolError):
        require_aft_enabled(PaymentMethodDetails(**AFT), enabled=False)


@pytest.mark.parametrize(
    ("status", "kind", "holds"),
    [("accepted", "first", True), ("new", "first", False), ("accepted", "one-click", False), ("accepted", None, False)],
)
def test_one_click_takes_cards_of_an_accepted_first_transaction(status, kind, holds):
    first = OrderTransaction(id=ID, status=status, payment_method_details=PaymentMethodDetails(one_click_type=kind))
    if holds:
        require_one_click_card(first)
    else:
        with pytest.raises(LocalProtocolError):
            require_one_click_card(first)


@pytest.mark.parametrize(
    ("kind", "token", "holds"),
    [
        ("one-click", ID.upper(), True),
        ("one-click", "another", False),
        ("first", "another", True),
        (None, "another", True),
    ],
)
def test_a_one_click_payment_keeps_its_card(kind, token, holds):
    with nullcontext() if holds else pytest.raises(LocalProtocolError):
        require_same_card(PaymentMethodDetails(one_click_type=kind), paid_with=ID, vault_token=token)


@pytest.mark.parametrize("details", [{"recurring_type": "recurring"}, {"first_network_transaction_id": "N-1"}])
def test_a_series_is_initiated_with_both_of_its_fields(details):
    with pytest.raises(LocalProtocolError) as refused:
        require_recurring(PaymentMethodDetails(**details))
    assert refused.value.code == "recurring.incomplete"


def test_one_click_and_initiate_refuse_what_has_no_details_and_authenticate_takes_it():
    with pytest.raises(LocalProtocolError):
        require_one_click_card(None)
    with pytest.raises(LocalProtocolError):
        require_recurring(PaymentMethodDetails())
    with pytest.raises(LocalProtocolError):
        require_recurring(None)
    require_recurring(PaymentMethodDetails(recurring_type="recurring", first_network_transaction_id="N-1"))
    require_same_card(None, paid_with=None, vault_token=ID)


@pytest.mark.parametrize(
    ("kind", "amount", "brand", "name", "runs"),
    [
        ("first", 0, "visa", "Ada", True), ("first", 1, "visa", "Ada", False), ("first", 0, "jcb", "Ada", False),
        ("first", 0, "visa", None, False), ("one-click", 0, "visa", "Ada", False),
    ],
)  # fmt: skip
def test_when_a_name_inquiry_runs(kind, amount, brand, name, runs):
    details = PaymentMethodDetails(one_click_type=kind)
    assert is_name_inquiry(details, amount=amount, brand=brand, cardholder_name=name) is runs


def test_the_results_of_a_name_inquiry_have_the_words_of_the_document():
    assert ani_results("00", "50").to_object() == {
        "status": "00", "status_description": "performed", "match": "50", "match_description": "partial match",
    }  # fmt: skip
    assert ani_results("02").match_description is None


@pytest.mark.parametrize("status", OrderStatus)
def test_a_first_transaction_shows_its_card_on_the_completed_order(status):
    details = PaymentMethodDetails(one_click_type="first", cardholder_name="Ada")
    shown = shown_details(details, vault_token=ID, order_status=status)
    assert shown.vault_token == (ID if status == "completed" else None)
    assert shown.cardholder_name == "Ada"


@pytest.mark.parametrize("kind", [None, "one-click"])
def test_other_transactions_show_the_card_that_the_merchant_sent(kind):
    details = PaymentMethodDetails(one_click_type=kind, vault_token=ID)
    assert shown_details(details, vault_token="other", order_status=OrderStatus.NEW) == details


EXTERNAL = {"cavv": "PROOF", "three_ds_version": "2.2.0", "three_ds_method_used": False, "ds_transaction_id": "d"}


def authenticate(**values: str) -> AuthenticateRequest:
    return AuthenticateRequest(vault_token=ID, cvc=CVC, **values)


def test_external_values_are_all_four_or_none():
    found = external_authentication(authenticate(**EXTERNAL), own_checkout=True)
    assert found is not None
    assert found.ds_transaction_id == "d"
    assert external_authentication(authenticate(), own_checkout=False) is None
    for name in EXTERNAL:
        with pytest.raises(LocalProtocolError) as refused:
            external_authentication(authenticate(**{n: v for n, v in EXTERNAL.items() if n != name}), own_checkout=True)
        assert refused.value.code == "external-authentication.incomplete"
        shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
        assert "PROOF" not in "".join(shown.format()).partition(", in external_authentication")[2]


def test_external_values_are_for_an_own_checkout():
    with pytest.raises(LocalProtocolError) as refused:
        external_authentication(authenticate(**EXTERNAL), own_checkout=False)
    assert refused.value.code == "external-authentication.hosted"


@pytest.mark.parametrize(
    ("state", "seconds", "code"),
    [
        ("unused", 299, None), ("unused", 300, None), ("unused", 301, "setup-token.expired"), ("used", 1, "setup-token.used"),
    ],
)  # fmt: skip
def test_a_setup_token_works_once_within_300_seconds(state, seconds, code):
    at, kept = NOW + timedelta(seconds=seconds), SetupTokenState(state)
    if code is None:
        require_setup_token(kept, order_created=NOW, at=at)
    else:
        with pytest.raises(LocalProtocolError) as refused:
            require_setup_token(kept, order_created=NOW, at=at)
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("paid", "hosted", "own"),
    [
        (order("completed", "accepted"), True, True), (order("processing", "accepted"), False, True),
        (order("processing", "new"), False, False), (order("completed", "declined", "accepted"), True, False),
        (order("see-transactions", "accepted", "declined"), False, False), (order("cancelled", "declined"), False, False),
        (order("completed"), True, False), (order("completed", "accepted", refund_of_order_id=ID), False, False),
        (order("completed", "accepted", void_of_order_id=ID), False, False),
    ],
)  # fmt: skip
def test_an_order_is_paid_by_its_own_status_or_by_that_of_its_one_transaction(paid, hosted, own):
    assert (is_paid(paid, own_checkout=False), is_paid(paid, own_checkout=True)) == (hosted, own)


def test_a_debit_is_not_a_payment():
    debit = OrderTransaction(id=ID, status="accepted", credit_debit="debit")
    assert not is_paid(
        Order(id=ID, status="completed", currency="EUR", amount=1, transactions=(debit,)), own_checkout=True
    )


def test_a_wrong_check_digit_is_a_warning():
    card = CardRequest(pan=CardSecret("4111111111111112"), expiry=CardSecret("122031"), setup_token=ID)
    (finding,) = check_card(card)
    assert (finding.code, finding.severity) == ("card.luhn", Severity.WARNING)
    assert check_card(card.model_copy(update={"pan": CardSecret("4111111111111111")})) == ()


def test_wallet_sessions_have_the_project_id_without_hyphens():
    assert merchant_identifier(ID) == "3f0c6b1e7d5a4c559a3e1f8f5f0f3a01"
