"""The states of a payment as a provider sees them, from RCVD to the end."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from raw_provider import INSTANT, PAYMENT, RawProvider, advance, approval_link, assert_refused, decide

from tppkit.sandbox import SandboxServer
from tppkit.testpki import Issued


@pytest.fixture
def caller(fresh_bank: SandboxServer, connect: Callable[..., RawProvider]) -> RawProvider:
    """The provider, connected to a sandbox whose clock may be moved."""
    return connect(fresh_bank)


def open_link(payment: dict[str, object]) -> httpx.Response:
    return httpx.get(approval_link(payment), trust_env=False)


def test_the_answer_links_to_status_and_details_by_path(tpp: RawProvider) -> None:
    payment = tpp.new_payment(product=INSTANT)
    own = f"/psd2/v1/payments/{INSTANT}/{payment['paymentId']}"
    assert (payment["_links"]["self"]["href"], payment["_links"]["status"]["href"]) == (own, own + "/status")


def test_the_details_show_the_submitted_payment(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    details = tpp.request("GET", payment["_links"]["self"]["href"]).json()
    assert details == {**PAYMENT, "paymentId": payment["paymentId"], "transactionStatus": "RCVD"}


def test_an_unopened_payment_is_rejected_after_five_minutes(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    payment = caller.new_payment()
    advance(fresh_bank, 290)
    assert caller.status(payment) == "RCVD"
    advance(fresh_bank, 10)
    assert caller.status(payment) == "RJCT"


def test_opening_the_link_starts_the_five_minutes_again(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    payment = caller.new_payment()
    advance(fresh_bank, 290)
    open_link(payment)
    advance(fresh_bank, 290)
    assert caller.status(payment) == "RCVD"
    advance(fresh_bank, 10)
    assert caller.status(payment) == "RJCT"


def test_a_page_that_is_used_stays_usable_for_five_minutes(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    payment = caller.new_payment()
    advance(fresh_bank, 290)
    open_link(payment)
    advance(fresh_bank, 250)
    httpx.post(approval_link(payment), trust_env=False)  # submits the form without a decision
    advance(fresh_bank, 51)
    decide(payment, "approve")
    assert caller.status(payment) == "ACSP"


def test_polling_does_not_keep_a_payment_open(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    payment = caller.new_payment()
    for _ in range(3):
        advance(fresh_bank, 100)
        status = caller.status(payment)
    assert status == "RJCT"


def test_the_status_can_be_requested_long_after_the_end(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    rejected, settled = caller.new_payment(), caller.new_payment()
    decide(settled, "approve")
    advance(fresh_bank, 30 * 86_400)
    assert (caller.status(rejected), caller.status(settled)) == ("RJCT", "ACSC")


def test_a_cancelled_payment_is_cancelled_in_the_answer_and_rejected_in_later_polls(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    response = tpp.cancel(payment)
    assert (response.status_code, response.json()) == (200, {"transactionStatus": "CANC"})
    assert tpp.status(payment) == "RJCT"
    assert tpp.request("GET", payment["_links"]["self"]["href"]).json()["transactionStatus"] == "RJCT"


@pytest.mark.parametrize("before", ["open", "submit", "approve", "decline", "cancel", "expire"])
def test_a_payment_that_was_opened_or_is_over_cannot_be_cancelled(before, caller, fresh_bank):
    payment = caller.new_payment()
    if before == "expire":
        advance(fresh_bank, 300)
    elif before == "submit":
        httpx.post(approval_link(payment), trust_env=False)  # the form without a decision
    else:
        others = {"open": open_link, "cancel": caller.cancel}
        others.get(before, lambda one: decide(one, before))(payment)
    status = caller.status(payment)
    assert_refused(caller.cancel(payment), 409, "CANCELLATION_INVALID")
    assert caller.status(payment) == status


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_another_provider_sees_no_such_payment(
    method: str,
    bank: SandboxServer,
    tpp: RawProvider,
    connect: Callable[..., RawProvider],
    second_provider: tuple[Issued, Issued],
) -> None:
    payment = tpp.new_payment()
    other = connect(bank, qwac=second_provider[0], qseal=second_provider[1])
    own = payment["_links"]["self"]["href"]
    assert_refused(other.request(method, own), 403, "RESOURCE_UNKNOWN")
    assert_refused(other.request("GET", own + "/status"), 403, "RESOURCE_UNKNOWN")
    assert tpp.status(payment) == "RCVD"


def test_the_payment_of_another_and_one_that_is_not_there_get_the_same_answer(
    bank: SandboxServer, tpp: RawProvider, connect: Callable[..., RawProvider], second_provider: tuple[Issued, Issued]
) -> None:
    payment = tpp.new_payment()
    other = connect(bank, qwac=second_provider[0])
    foreign = other.request("GET", payment["_links"]["self"]["href"]).text
    absent = other.request("GET", payment["_links"]["self"]["href"][:-1] + "~").text
    assert foreign.replace(payment["paymentId"], "") == absent.replace(payment["paymentId"][:-1] + "~", "")


def test_a_payment_is_not_found_under_another_product(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    moved = payment["_links"]["self"]["href"].replace("/sepa-", "/instant-sepa-")
    assert_refused(tpp.request("GET", moved), 403, "RESOURCE_UNKNOWN")


def test_ids_cannot_be_guessed_from_one_another(tpp: RawProvider) -> None:
    payments = [tpp.new_payment() for _ in range(20)]
    texts = {payment["paymentId"] for payment in payments} | {approval_link(payment) for payment in payments}
    assert len(texts) == 40
    assert all(payment["paymentId"] not in approval_link(payment) for payment in payments)
