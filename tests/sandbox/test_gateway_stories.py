"""The stories of the payment gateway by number, with our client against our sandbox over HTTPS."""

from __future__ import annotations

import os
import socket
from select import select
from threading import Event
from typing import Any

import httpx
import pytest
from gateway_shop import Shop, details_of, refusal
from merchant import ASKED, EXPIRY, EXTERNAL, LINK

from tppkit.client import (
    AsyncGatewayClient,
    AsyncVaultClient,
    GatewayClient,
    OrderOutcomeUnknown,
    is_paid,
    make_async_client,
    make_client,
)
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import FormatError
from tppkit.protocol.gateway import (
    CardRequest,
    Order,
    OrderRequest,
    PaymentLinkRequest,
    PaymentMethodDetails,
    TransactionRequest,
)
from tppkit.protocol.gateway.bodies import AuthenticateRequest
from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT

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


def test_13_external_3d_secure_values_pay_without_a_question(shop):
    order = shop.create()
    token = shop.vault.store_card(shop.card(order, ASKED)).card.vault_token
    paid = shop.authenticate(order, token, **EXTERNAL)
    assert (paid.transactions[0].status, paid.redirect_url) == ("accepted", None)
    read = details_of(shop.client.order(order.id)).external_authentication_details
    assert read is not None
    assert read.to_object() == {
        "authenticationValue": EXTERNAL["cavv"], "protocolVersion": "2.2.0", "methodUsed": True, "dsTransID": "f25084f0",
    }  # fmt: skip


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


def test_a_series_of_another_platform_is_continued_without_the_customer(shop):
    order = shop.create(details={"recurring_type": "recurring", "first_network_transaction_id": "MCC0042"})
    token = shop.vault.store_card(shop.card(order, ASKED)).card.vault_token
    paid = shop.client.initiate(order.id, order.transactions[0].id, vault_token=token)
    assert (paid.status, paid.redirect_url, details_of(paid).liability_shift) == ("completed", None, False)
    sale = shop.create()
    stored = shop.vault.store_card(shop.card(sale)).card.vault_token
    refused = refusal(lambda: shop.client.initiate(sale.id, sale.transactions[0].id, vault_token=stored))
    assert refused == (400, "RECURRING_INVALID")


async def test_our_clients_for_asyncio_drive_every_row(merchant, bank_pki, at_end):
    at, key, driven = merchant.bank.addresses, merchant.api_key, set[str]()

    async def note(answer: httpx.Response) -> None:
        request = answer.request
        interface = VAULT if str(request.url).startswith(f"{at.vault_url}/") else GATEWAY
        row = interface.find(request.method, request.url.raw_path.decode()).row
        assert interface.is_success(row, answer.status_code)
        driven.add(row.name)

    anchors = [bank_pki.root.certificate]
    http = await at_end.enter_async_context(make_async_client(NoCertificate(server_anchors=anchors)))
    http.event_hooks = {"response": [note]}
    gateway = AsyncGatewayClient(at.gateway_url, api_key=key, http=http)
    vault = AsyncVaultClient(at.vault_url, api_key=key, http=http)

    async def card_stored(**fields: Any) -> tuple[str, str, str]:
        """The ids of a new order and its transaction, and the token of its card."""
        payment = TransactionRequest(payment_method="credit-card", **fields)
        order = await gateway.create_order(OrderRequest(currency="EUR", amount=1000, transactions=(payment,)))
        card = {"pan": merchant.pan, "expiry": EXPIRY, "setup_token": details_of(order).setup_token}
        stored = await vault.store_card(CardRequest.from_object(card))
        return order.id, order.transactions[0].id, stored.card.vault_token

    async def held() -> tuple[str, str]:
        order_id, transaction_id, token = await card_stored(capture_mode="manual")
        card = AuthenticateRequest.from_object({"vault_token": token, "cvc": merchant.cvc})
        await gateway.authenticate(order_id, transaction_id, card)
        return order_id, transaction_id

    await gateway.capture(*await held())
    await gateway.capture_amount(*await held(), 400, description="sent")
    await gateway.void(*await held())
    await gateway.void_amount(*await held(), 300)
    series = PaymentMethodDetails(recurring_type="recurring", first_network_transaction_id="x")
    order_id, transaction_id, token = await card_stored(payment_method_details=series)
    await gateway.initiate(order_id, transaction_id, vault_token=token)
    assert is_paid(await gateway.order(order_id), own_checkout=True)
    refund = await gateway.create_refund(order_id, 600)
    assert [one.id for one in await gateway.refunds(order_id)] == [refund.id]
    link = await gateway.create_payment_link(PaymentLinkRequest.from_object(LINK))
    assert (await gateway.payment_link(link.id)).amount == 1250
    await gateway.wallet_session(
        project_id=merchant.project_id,
        validation_url="https://wallet.invalid/",
        display_name="Shop",
        initiative_context="shop.example",
    )
    amounts, report = [one.amount async for one in gateway.orders("*")], [one async for one in gateway.report("*")]
    assert sorted(amounts) == [300, 400, 600, *[1000] * 7]
    assert len(report) == len(amounts)
    assert driven == {row.name for row in (*GATEWAY.endpoints, *VAULT.endpoints)}


def test_an_order_whose_answer_is_cut_off_is_found_by_its_reference(merchant, bank_pki):
    reference, connected, cut = 'A "1" \\ OR *', list[socket.socket](), Event()

    def trace(event: str, of_event: dict[str, Any]) -> None:
        if event == "connection.start_tls.complete":
            connected.append(of_event["return_value"].get_extra_info("socket"))
        if event == "http11.receive_response_headers.started" and cut.is_set():
            cut.clear()
            assert select([connected[-1]], [], [], 10)[0]  # the answer is there, and is thrown away
            os.read(connected[-1].fileno(), 65_536)
            connected[-1].shutdown(socket.SHUT_RDWR)

    url, key = merchant.bank.addresses.gateway_url, merchant.api_key
    with make_client(NoCertificate(server_anchors=[bank_pki.root.certificate])) as http:
        http.event_hooks = {"request": [lambda request: request.extensions.update(trace=trace)]}
        client = GatewayClient(url, api_key=key, http=http)
        assert client.search("*").orders == ()
        cut.set()
        with pytest.raises(OrderOutcomeUnknown) as lost:
            client.create_order(OrderRequest(currency="EUR", amount=1000, merchant_order_id=reference))
    (made,) = merchant.post("/v1/search/orders/", {"query": "*"})["orders"]
    assert (lost.value.code, cut.is_set()) == ("order-lost.found", False)
    assert [(one.id, one.merchant_order_id) for one in lost.value.found] == [(made["id"], reference)]
