"""The states of a payment as a provider sees them, from RCVD to the end."""

from __future__ import annotations

import json

import httpx
import pytest
from raw_provider import INSTANT, PAYMENT, Connect, RawProvider, advance, approval_link, assert_refused, decide

from tppkit.sandbox import SandboxServer
from tppkit.testpki import Issued


def open_link(payment: dict[str, object]) -> httpx.Response:
    return httpx.get(approval_link(payment), trust_env=False)


def test_the_answer_links_by_path_to_the_status_and_the_details_which_show_the_payment(tpp):
    payment = tpp.new_payment(product=INSTANT)
    own = f"/psd2/v1/payments/{INSTANT}/{payment['paymentId']}"
    assert (payment["_links"]["self"]["href"], payment["_links"]["status"]["href"]) == (own, own + "/status")
    details = tpp.request("GET", own).json()
    assert details == {**PAYMENT, "paymentId": payment["paymentId"], "transactionStatus": "RCVD"}


def test_the_details_keep_the_text_of_numbers_and_show_no_names_of_the_banks_answers(tpp):
    fields = b'"x":{"a":1.10,"b":[-0,1e2,12345678901234567890.00]},"n":null,"t":"\\u00e9"'
    names = b'"paymentId":"mine","transactionStatus":"ACSC","_links":{"scaRedirect":{"href":"https://a.example"}},"tppMessages":[]'
    body = json.dumps(PAYMENT).encode()[:-1] + b"," + fields + b"," + names + b"}"
    payment = tpp.new_payment(body=body)
    details = tpp.request("GET", payment["_links"]["self"]["href"])
    assert details.content.endswith(b',"x":{"a":1.10,"b":[-0,1e2,12345678901234567890.00]},"n":null,"t":"\xc3\xa9"}')
    shown = details.json()
    assert (shown["paymentId"], shown["transactionStatus"]) == (payment["paymentId"], "RCVD")
    assert shown.keys() == {*PAYMENT, "paymentId", "transactionStatus", "x", "n", "t"}


@pytest.mark.parametrize("opened", [False, True])
def test_a_payment_is_rejected_five_minutes_after_its_start_or_opening_however_often_it_is_polled(
    opened, caller, fresh_bank
):
    payment = caller.new_payment()
    if opened:
        advance(fresh_bank, 290)
        open_link(payment)
    advance(fresh_bank, 290)
    assert caller.status(payment) == "RCVD"
    advance(fresh_bank, 10)
    assert caller.status(payment) == "RJCT"


def test_the_status_can_be_requested_long_after_the_end(caller, fresh_bank):
    rejected, settled = caller.new_payment(), caller.new_payment()
    decide(settled, "approve")
    advance(fresh_bank, 30 * 86_400)
    assert (caller.status(rejected), caller.status(settled)) == ("RJCT", "ACSC")


def test_a_cancelled_payment_is_cancelled_in_the_answer_and_rejected_in_later_polls(tpp):
    payment = tpp.new_payment()
    response = tpp.cancel(payment)
    assert (response.status_code, response.json()) == (200, {"transactionStatus": "CANC"})
    assert tpp.status(payment) == "RJCT"
    assert tpp.request("GET", payment["_links"]["self"]["href"]).json()["transactionStatus"] == "RJCT"


@pytest.mark.parametrize("before", ["open", "approve", "decline", "cancel", "expire"])
def test_a_payment_that_was_opened_or_is_over_cannot_be_cancelled(before, caller, fresh_bank):
    payment = caller.new_payment()
    if before == "expire":
        advance(fresh_bank, 300)
    else:
        others = {"open": open_link, "cancel": caller.cancel}
        others.get(before, lambda one: decide(one, before))(payment)
    status = caller.status(payment)
    assert_refused(caller.cancel(payment), 409, "CANCELLATION_INVALID")
    assert caller.status(payment) == status


@pytest.fixture
def other(bank: SandboxServer, connect: Connect, second_provider: tuple[Issued, Issued]) -> RawProvider:
    return connect(bank, qwac=second_provider[0], qseal=second_provider[1])


def test_another_provider_sees_no_such_payment(tpp, other):
    payment = tpp.new_payment()
    own = payment["_links"]["self"]["href"]
    for method, path in (("GET", own), ("DELETE", own), ("GET", own + "/status")):
        assert_refused(other.request(method, path), 403, "RESOURCE_UNKNOWN")
    assert tpp.status(payment) == "RCVD"
    foreign, absent = other.request("GET", own).text, other.request("GET", own[:-1] + "~").text
    assert foreign.replace(payment["paymentId"], "") == absent.replace(payment["paymentId"][:-1] + "~", "")


def test_a_payment_is_not_found_under_another_product(tpp):
    payment = tpp.new_payment()
    moved = payment["_links"]["self"]["href"].replace("/sepa-", "/instant-sepa-")
    assert_refused(tpp.request("GET", moved), 403, "RESOURCE_UNKNOWN")


def test_ids_cannot_be_guessed_from_one_another(tpp):
    payments = [tpp.new_payment() for _ in range(20)]
    texts = {payment["paymentId"] for payment in payments} | {approval_link(payment) for payment in payments}
    assert len(texts) == 40
    assert all(payment["paymentId"] not in approval_link(payment) for payment in payments)
