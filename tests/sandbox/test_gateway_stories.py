"""The stories of the payment gateway by number, with our client against our sandbox over HTTPS."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_shop import Shop, details_of, refusal
from merchant import ASKED, BILLING, DECLINED, EXPIRY, EXTERNAL

from tppkit.client import After, is_paid
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.gateway import CardRequest, F, Order
from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.protocol.gateway.orders import Customer

MINUTE, HOUR, DAY = 60, 3600, 86400
CLOSED, AMOUNT, UNKNOWN = (409, "AUTHORISATION_CLOSED"), (400, "AMOUNT_INVALID"), (404, "NOT_FOUND")


def test_3_a_setup_token_stores_one_card_within_300_seconds(timed):
    used, late = timed.create(), timed.create()
    timed.merchant.advance(270)  # virtual time runs on with real time
    with pytest.raises(FormatError):
        CardRequest.from_object({"pan": "4111", "expiry": EXPIRY, "setup_token": details_of(used).setup_token})
    assert timed.vault.store_card(timed.card(used)).card.brand == "visa"
    assert refusal(lambda: timed.vault.store_card(timed.card(used))) == (400, "SETUP_TOKEN_INVALID")
    timed.merchant.advance(30)
    assert refusal(lambda: timed.vault.store_card(timed.card(late))) == (400, "SETUP_TOKEN_INVALID")


def test_4_a_card_number_needs_no_check_digit(shop):
    for pan in ("123456789012", "1234567890123456789"):
        stored = shop.vault.store_card(shop.card(shop.create(), pan))
        assert stored.card.truncated_pan.endswith(pan[-4:])
        assert [finding.code for finding in stored.warnings] == ["card.luhn"]


def test_5_an_own_checkout_is_paid_by_its_transaction_while_the_order_lags(fresh_bank, make_merchant, open_shop):
    shop = open_shop(make_merchant(fresh_bank, lag_seconds=45 * MINUTE))
    order = shop.own_checkout()
    assert (order.status, order.transactions[0].status) == ("processing", "accepted")
    assert is_paid(order, own_checkout=True)
    assert not is_paid(order, own_checkout=False)
    shop.merchant.advance(45 * MINUTE)
    assert shop.client.order(order.id).status == "completed"


def test_6_a_manual_amount_is_captured_once(shop):
    order = shop.own_checkout(capture_mode="manual")
    transaction = order.transactions[0]
    assert transaction.is_capturable
    made = shop.capture(order, 400, "first parcel")
    assert (made.status, made.amount, made.description) == ("completed", 400, "first parcel")
    assert (made.capture_of_order_id, made.related_order_id) == (order.id, order.id)
    assert made.transactions[0].capture_of_transaction_id == transaction.id
    assert not is_paid(made, own_checkout=False)
    after = shop.client.order(order.id)
    assert (after.status, after.related_orders, after.transactions[0].is_capturable) == ("completed", (made.id,), False)
    for call in (shop.client.capture, shop.client.void):
        assert refusal(lambda call=call: call(order.id, transaction.id)) == CLOSED
    assert refusal(lambda: shop.capture(order, 1)) == CLOSED
    assert refusal(lambda: shop.void(order, 1)) == CLOSED
    assert shop.client.order(order.id) == after


def test_7_a_partial_void_leaves_the_rest_to_be_captured(shop):
    order = shop.own_checkout(capture_mode="manual")
    voided = shop.void(order, 300)
    assert (voided.void_of_order_id, voided.amount) == (order.id, 300)
    assert refusal(lambda: shop.capture(order, 701)) == AMOUNT
    assert shop.capture(order, 700).amount == 700


def test_7_a_void_of_everything_leaves_nothing(shop):
    order = shop.own_checkout(capture_mode="manual")
    assert shop.client.void(order.id, order.transactions[0].id).amount == 1000
    assert refusal(lambda: shop.client.capture(order.id, order.transactions[0].id)) == CLOSED


def test_8_a_delayed_amount_is_captured_by_itself_without_what_was_voided(timed):
    order = timed.own_checkout(capture_mode="delayed", period="PT2H")
    assert refusal(lambda: timed.client.capture(order.id, order.transactions[0].id)) == CLOSED
    timed.merchant.advance(HOUR)
    voided = timed.void(order, 250)
    timed.merchant.advance(2 * HOUR)
    void_id, capture_id = timed.client.order(order.id).related_orders or ()
    made = timed.client.order(capture_id)
    assert void_id == voided.id
    assert (made.amount, made.capture_of_order_id, made.status) == (750, order.id, "completed")
    assert refusal(lambda: timed.void(order, 1)) == CLOSED


def test_8_a_delayed_amount_that_was_voided_is_not_captured(timed):
    order = timed.own_checkout(capture_mode="delayed", period="PT2H")
    voided = timed.client.void(order.id, order.transactions[0].id)
    timed.merchant.advance(3 * HOUR)
    assert timed.client.order(order.id).related_orders == (voided.id,)


def test_9_what_cannot_be_captured_is_refused_and_nothing_is_made(timed, make_merchant, open_shop):
    client, other = timed.client, open_shop(make_merchant(timed.merchant.bank))
    sale, held = timed.own_checkout(), timed.own_checkout(capture_mode="manual")
    foreign = other.own_checkout(capture_mode="manual")
    assert refusal(lambda: client.capture(sale.id, sale.transactions[0].id)) == CLOSED
    assert refusal(lambda: client.capture(held.id, sale.transactions[0].id)) == UNKNOWN
    assert refusal(lambda: client.capture(foreign.id, foreign.transactions[0].id)) == UNKNOWN
    timed.merchant.advance(5 * DAY)
    assert refusal(lambda: client.capture(held.id, held.transactions[0].id)) == CLOSED
    assert {one.related_orders for one in client.orders("*")} == {None}


def test_10_a_first_one_click_payment_of_nothing_stores_the_card_and_inquires_the_name(shop):
    first = {"one_click_type": "first"}
    order = shop.create(0, details=first)
    token = shop.vault.store_card(shop.card(order, name="Ona Onaite")).card.vault_token
    assert details_of(shop.client.order(order.id)).vault_token is None
    shop.authenticate(order, token)
    done = shop.client.order(order.id)
    assert (done.status, details_of(done).vault_token) == ("completed", token)
    found = details_of(done).ani_results
    assert found is not None
    assert (found.status, found.match) == ("00", "01")
    assert details_of(shop.own_checkout(0, details=first)).ani_results is None
    assert details_of(shop.own_checkout(1, details=first, name="Ona Onaite")).ani_results is None
    mastercard = shop.own_checkout(0, details=first, name="Ona Onaite", pan="5555555555554444")
    assert details_of(mastercard).ani_results is None


@pytest.mark.parametrize("by", ["vault_token", "first_transaction_id"])
def test_11_a_later_one_click_payment_needs_the_cvc(shop, by):
    first = shop.own_checkout(0, details={"one_click_type": "first"}, pan="4000002760003184")
    shop.merchant.pay({"id": first.id}, outcome="approved")
    first = shop.client.order(first.id)
    known = {"vault_token": details_of(first).vault_token, "first_transaction_id": first.transactions[0].id}[by]
    details = {"one_click_type": "one-click", by: known}
    with pytest.raises(LocalProtocolError) as refused:
        shop.create(details=details)
    assert refused.value.code == "one-click.cvc"
    order = shop.create(details={**details, "cvc": shop.merchant.cvc})
    assert (order.status, order.transactions[0].status) == ("processing", "new")
    assert order.transactions[0].payment_url
    shop.merchant.pay({"id": order.id}, outcome="approved")
    assert is_paid(shop.client.order(order.id), own_checkout=False)


def test_11_one_click_takes_only_cards_that_an_accepted_first_payment_stored(shop):
    declined = shop.own_checkout(0, details={"one_click_type": "first"}, pan=DECLINED)
    details = {
        "one_click_type": "one-click",
        "cvc": shop.merchant.cvc,
        "first_transaction_id": declined.transactions[0].id,
    }
    assert refusal(lambda: shop.create(details=details)) == (400, "ONE_CLICK_INVALID")


def test_12_account_funding_needs_a_whole_address_and_an_enabled_account(bank, make_merchant, open_shop, shop):
    funding = open_shop(make_merchant(bank, aft=True))
    receiver = shop.merchant.cards.pan()
    details = {"receiver_account_number": receiver, "receiver_account_number_type": "card-account"}

    def fund(at: Shop, **changed: Any) -> Order:
        customer = {name: value for name, value in {**BILLING, **changed}.items() if value is not None}
        return at.create(details=details, customer=Customer.from_object(customer))

    for changed, code in (
        ({"state": None}, "aft.state"), ({"state": "PR"}, "aft.state"), ({"country": "CA", "state": "NY"}, "aft.state"),
        ({"postal_code": None}, "aft.address"), ({"address_type": "shipping"}, "aft.address"),
    ):  # fmt: skip
        with pytest.raises(LocalProtocolError) as refused:
            fund(funding, **changed)
        assert refused.value.code == code
    order = fund(funding, country="CA", state="ON")
    assert order.transactions[0].transaction_type == "aft"
    assert details_of(order).receiver_account_number is None
    assert fund(funding, country="LT", state=None).transactions[0].transaction_type == "aft"
    assert refusal(lambda: fund(shop)) == (403, "AFT_NOT_ENABLED")


def test_12_account_funding_is_captured_and_voided_as_other_payments(bank, make_merchant, open_shop):
    shop = open_shop(make_merchant(bank, aft=True))
    details = {"receiver_account_number": shop.merchant.cards.pan(), "receiver_account_number_type": "card-account"}
    order = shop.own_checkout(capture_mode="manual", details=details, customer=Customer.from_object(dict(BILLING)))
    assert shop.void(order, 400).amount == 400
    assert shop.client.capture(order.id, order.transactions[0].id).amount == 600


def test_13_external_3d_secure_values_are_all_four_in_an_own_checkout(shop):
    order = shop.create()
    token = shop.vault.store_card(shop.card(order, ASKED)).card.vault_token
    with pytest.raises(LocalProtocolError) as refused:
        shop.authenticate(order, token, **{name: EXTERNAL[name] for name in list(EXTERNAL)[:3]})
    assert refused.value.code == "external-authentication.incomplete"
    paid = shop.authenticate(order, token, **EXTERNAL)
    assert (paid.transactions[0].status, paid.redirect_url) == ("accepted", None)
    read = details_of(shop.client.order(order.id)).external_authentication_details
    assert read is not None
    assert read.to_object() == {
        "authenticationValue": EXTERNAL["cavv"], "protocolVersion": "2.2.0", "methodUsed": True, "dsTransID": "f25084f0",
    }  # fmt: skip
    hosted = shop.create(method=None)
    shop.merchant.pay({"id": hosted.id}, outcome="declined")
    hosted = shop.client.order(hosted.id)
    assert refusal(lambda: shop.authenticate(hosted, token, **EXTERNAL)) == (400, "AUTHENTICATION_INVALID")


def test_16_a_payment_link_takes_attempts_until_one_succeeds_or_it_expires(timed):
    terms = {"merchant_order_id": "L-1", "amount": 500, "currency": "EUR"}
    link, unpaid = (timed.client.create_payment_link(PaymentLinkRequest.from_object(terms)) for _ in range(2))
    assert link.status == "new"
    assert link.payment_url
    pay = f"/gateway/paymentlinks/{link.id}/pay"
    for _ in range(2):
        timed.merchant.control(pay, {"outcome": "declined"})
        assert timed.client.payment_link(link.id).status == "all_unsuccessful"
    timed.merchant.control(pay, {"outcome": "approved"})
    done = timed.client.payment_link(link.id)
    assert done.status == "completed"
    assert done.reason
    assert done.orders is not None
    assert {status: len(ids) for status, ids in done.orders.items()} == {"error": 2, "completed": 1}
    assert done.orders["completed"] == (done.completed_order_id,)
    order = timed.client.order(done.orders["completed"][0])
    assert (order.related_payment_link_id, order.amount, order.description) == (link.id, 500, None)
    assert is_paid(order, own_checkout=False)
    timed.merchant.advance(30 * DAY - MINUTE)
    assert timed.client.payment_link(unpaid.id).status == "new"
    timed.merchant.advance(MINUTE)
    assert timed.client.payment_link(unpaid.id).status == "expired"
    assert timed.client.payment_link(link.id) == done


def test_17_pages_have_the_same_size_and_the_position_or_a_cursor(shop):
    made = [shop.create(merchant_order_id=f"A {number}", method=None).id for number in range(5)]
    first = shop.client.search("*", page=After(), size=2, sort="created asc")
    assert first.search_after is not None
    second = shop.client.search("*", page=After(first.search_after), size=2, sort="created asc")
    assert [one.id for one in (*first.orders, *second.orders)] == made[:4]
    cursor = first.search_after
    for size, sort in ((3, "created asc"), (2, "created desc")):
        found = refusal(lambda size=size, sort=sort: shop.client.search("*", page=After(cursor), size=size, sort=sort))
        assert found == (400, "SEARCH_INVALID")
    assert [one.id for one in shop.client.orders("*", size=2)] == made
    assert [one.id for one in shop.client.orders(str(F("merchant_order_id") == "A 3"))] == [made[3]]


def test_18_a_report_has_a_row_for_each_transaction_and_amounts_by_minor_units(shop):
    for currency, amount in (("JPY", 500), ("EUR", 1234), ("BHD", 1500)):
        shop.own_checkout(amount, currency=currency, merchant_order_id="=cmd")
    retried = shop.create(method=None)
    for outcome in ("declined", "approved"):
        shop.merchant.pay({"id": retried.id}, outcome=outcome)
    rows = [*shop.client.report("*", sort="created asc")]
    assert [row.transaction_amount_with_decimals for row in rows] == ["500", "12.34", "1.500", "10.00", "10.00"]
    assert [row.id for row in rows[3:]] == [retried.id] * 2
    assert {row.merchant_order_id for row in rows[:3]} == {"=cmd"}


def test_19_refunds_return_at_most_what_was_captured(shop):
    order = shop.own_checkout()
    made = shop.client.create_refund(order.id, 600, description="returned")
    assert (made.refund_of_order_id, made.amount) == (order.id, 600)
    assert "is-refund" in made.flags
    assert (made.transactions[0].credit_debit, made.transactions[0].refund_of_transaction_id) == (
        "debit", order.transactions[0].id,
    )  # fmt: skip
    assert refusal(lambda: shop.client.create_refund(order.id, 500)) == AMOUNT
    after = shop.client.order(order.id)
    assert (after.refunded_amount, after.refund_orders, after.status) == (600, (made.id,), "completed")
    (listed,) = shop.client.refunds(order.id)
    assert (listed.id, listed.amount, listed.refund_of_order_id, listed.status) == (made.id, 600, order.id, "completed")


def test_a_chargeback_and_its_reversal_are_linked_orders(shop):
    order = shop.own_checkout()
    for call, field in (("chargeback", "chargeback_of_order_id"), ("reverse", "reversal_of_order_id")):
        made = shop.client.order(shop.merchant.control(f"/gateway/orders/{order.id}/{call}")["id"])
        assert (made.amount, getattr(made, field), made.related_order_id) == (1000, order.id, order.id)
    after = shop.client.order(order.id)
    assert (len(after.chargeback_orders or ()), len(after.reversal_orders or ())) == (1, 1)


WAIT, DELIVER, NO = "wait", "deliver", "do-not-deliver"


def delivery(shop: Shop, order: Order, *, own_checkout: bool = True) -> tuple[str, str]:
    """The decision and the first words of its reason, for a paid order also where `is_paid` is still true."""
    state = shop.client.delivery_state(order.id, own_checkout=own_checkout)
    return state.delivery, state.reason


def test_the_delivery_follows_what_became_of_a_reserved_amount(timed):
    order, captured, lapsing = (timed.own_checkout(capture_mode="manual") for _ in range(3))
    assert delivery(timed, order) == (DELIVER, "authorised: capture it")
    timed.void(order, 400)
    assert delivery(timed, order) == (DELIVER, "authorised: capture it")
    timed.client.void(order.id, order.transactions[0].id)
    assert delivery(timed, order) == (NO, "the whole amount was voided")
    made = timed.capture(captured, 600)
    assert (delivery(timed, captured)[0], delivery(timed, made)[0]) == (DELIVER, NO)
    nothing = timed.own_checkout(capture_mode="manual")
    timed.capture(nothing, 0)
    assert delivery(timed, nothing)[0] == NO
    delayed, voided = (timed.own_checkout(capture_mode="delayed", period="PT2H") for _ in range(2))
    timed.client.void(voided.id, voided.transactions[0].id)
    assert (delivery(timed, delayed)[0], delivery(timed, voided)[0]) == (DELIVER, NO)
    timed.merchant.advance(5 * DAY)
    assert delivery(timed, lapsing) == (NO, "nothing was captured, and the authorisation has ended")
    assert [delivery(timed, one) for one in (delayed, captured)] == [(DELIVER, "paid")] * 2
    timed.client.create_refund(captured.id, 200)
    assert delivery(timed, captured)[0] == DELIVER
    timed.client.create_refund(captured.id, 400)
    assert delivery(timed, captured) == (NO, "the whole amount was refunded")
    assert is_paid(timed.client.order(captured.id), own_checkout=True)


def test_the_delivery_follows_refunds_and_chargebacks_of_a_sale(shop):
    order = shop.own_checkout()
    assert delivery(shop, order) == (DELIVER, "paid")
    shop.client.create_refund(order.id, 999)
    assert delivery(shop, order)[0] == DELIVER
    shop.merchant.control(f"/gateway/orders/{order.id}/chargeback")
    assert delivery(shop, order) == (NO, "the payment was charged back")
    shop.merchant.control(f"/gateway/orders/{order.id}/reverse")
    assert delivery(shop, order)[0] == DELIVER
    shop.client.create_refund(order.id, 1)
    assert delivery(shop, order) == (NO, "the whole amount was refunded")


def test_an_unpaid_order_waits_or_is_not_delivered(fresh_bank, make_merchant, open_shop):
    shop = open_shop(make_merchant(fresh_bank, lag_seconds=45 * MINUTE))
    order = shop.create(method=None)
    assert delivery(shop, order, own_checkout=False) == (WAIT, "not paid: it is new")
    shop.merchant.pay(order.model_dump(), outcome="cancelled")
    assert delivery(shop, order, own_checkout=False) == (NO, "not paid: it is cancelled")
    lagging = shop.own_checkout()
    assert [delivery(shop, lagging, own_checkout=own)[0] for own in (True, False)] == [DELIVER, WAIT]


def test_a_series_of_another_platform_is_continued_without_the_customer(shop):
    order = shop.create(details={"recurring_type": "recurring", "first_network_transaction_id": "MCC0042"})
    token = shop.vault.store_card(shop.card(order, ASKED)).card.vault_token
    paid = shop.client.initiate(order.id, order.transactions[0].id, vault_token=token)
    assert (paid.status, paid.redirect_url, details_of(paid).liability_shift) == ("completed", None, False)
    sale = shop.create()
    stored = shop.vault.store_card(shop.card(sale)).card.vault_token
    refused = refusal(lambda: shop.client.initiate(sale.id, sale.transactions[0].id, vault_token=stored))
    assert refused == (400, "RECURRING_INVALID")
