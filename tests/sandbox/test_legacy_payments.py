"""Payments of the legacy interface: accepted orders, transfers, and the content of callbacks; over HTTPS with a plain client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import httpx
import pytest
from legacy_provider import DAILY, FOREIGN, JONAS_PHONE, ONA_PHONE, ORDER, SMALL, Arrived, new_id
from raw_provider import advance, control, is_refused

HOUR = 3600


def outcomes(arrived: list[Arrived], uuid: str) -> list[tuple[str, int]]:
    return [(one.json["tlc"], one.json["ver"]) for one in arrived if one.path == f"/cb/{uuid}"]


def test_story_4_who_is_paid_must_be_named_unless_a_customer_of_the_bank(legacy):
    token = legacy.access("pis")
    for acc in (JONAS_PHONE, SMALL):
        assert legacy.order(token, {"acc": acc, "amts": {"EUR": 1}})[1].status_code == 200
    whole = {**ORDER, "acc": FOREIGN}
    for name in ("name", "street", "city", "country"):
        body = {field: value for field, value in whole.items() if field != name}
        assert is_refused(legacy.order(token, body)[1], 400, "RECEIVER_INCOMPLETE")
    answer = legacy.order(token, {**ORDER, "acc": "+37069999999"})[1]
    assert is_refused(answer, 400, "ACCOUNT_NOT_FOUND")


def test_a_declined_payment_has_one_callback_and_moves_nothing(notified, receiver):
    uuid, _ = notified.order(notified.access("pis"))
    notified.control(f"/legacy/payments/{uuid}/decline")
    advance(notified.bank, HOUR)
    assert outcomes(receiver.arrived, uuid) == [("declined", 1)]
    assert control(notified.bank, f"/legacy/payments/{uuid}/approve").json()["error"]["code"] == "payment.decided"


def test_a_payment_to_an_iban_of_the_bank_without_an_account_fails_at_execution(notified, receiver):
    uuid = notified.paid(
        notified.access("pis", acc=SMALL), {**ORDER, "acc": "LT729999900000000099", "amts": {"EUR": 8.39}}
    )
    reads = notified.access(acc=SMALL)
    assert float(notified.balance(reads)["EUR"]) == 0.01
    advance(notified.bank, HOUR)
    assert outcomes(receiver.arrived, uuid) == [("posted", 1), ("failed", 2)]
    assert not any("8.39" in one["amount"][0] for one in notified.listed(reads))
    assert float(notified.balance(reads)["EUR"]) == 8.4


def test_an_approval_without_money_is_refused_and_owes_no_callback(notified, receiver):
    uuid, _ = notified.order(notified.access("pis", acc=SMALL), {**ORDER, "amts": {"EUR": 8.41}})
    refused = control(notified.bank, f"/legacy/payments/{uuid}/approve")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "account.funds")
    advance(notified.bank, HOUR)
    assert outcomes(receiver.arrived, uuid) == []


def test_a_payment_can_cost_a_fee_and_a_second_amount(notified, receiver):
    reads = notified.access()
    before = {code: Decimal(text) for code, text in notified.balance(reads).items()}
    uuid, _ = notified.order(notified.access("pis"), {**ORDER, "amts": {"EUR": 12.5}})
    notified.control(f"/legacy/payments/{uuid}/approve", {"fee": "EUR-0.30", "second_amount": "USD-1.25"})
    pending = notified.listed(reads)[0]
    advance(notified.bank, HOUR)
    executed = notified.listed(reads)[0]
    reports = [one.json for one in receiver.wait(4) if one.path == f"/cb/{uuid}"]
    assert [one["tlc"] for one in reports] == ["posted", "executed"]
    for record in (*reports, pending, executed):
        assert (record["amount"], record["fee"]) == (["EUR-12.50", "USD-1.25"], ["EUR-0.30"])
    after = {code: Decimal(text) for code, text in notified.balance(reads).items()}
    moved = {code: after[code] - before[code] for code in after}
    assert moved == {"EUR": Decimal("-12.80"), "USD": Decimal("-1.25"), "GBP": 0}
    assert httpx.get(notified.bank.addresses.control_url + "/ledger/check", trust_env=False).json()["ok"]


@pytest.mark.parametrize(
    ("charges", "code"),
    [
        ({"fee": "EUR0.30"}, "model.invalid"), ({"fee": "0.30"}, "model.invalid"), ({"fee": 1}, "model.invalid"),
        ({"second_amount": "EUR0"}, "model.invalid"), ({"fee": "EUR-0.001"}, "model.invalid"),
        ({"second_amount": "EUR1000000.01"}, "model.invalid"), ({"fee": "JPY-1"}, "order.currency"),
        ({"fee": "EUR-7.41"}, "account.funds"), ({"fees": "EUR-1"}, "model.invalid"),
    ],
)  # fmt: skip
def test_a_wrong_charge_is_refused_and_decides_nothing(charges, code, notified):
    uuid, _ = notified.order(notified.access("pis", acc=SMALL), {**ORDER, "amts": {"EUR": 1}})
    refused = control(notified.bank, f"/legacy/payments/{uuid}/approve", charges)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
    notified.control(f"/legacy/payments/{uuid}/approve", {"fee": "EUR-7.40"})


def test_the_first_account_has_a_purchase_with_a_fee_and_a_second_amount(legacy):
    (found,) = [one for one in legacy.listed(legacy.access()) if "fee" in one]
    assert (found["name"], found["amount"], found["fee"]) == ("Hotel Central", ["EUR-89.00", "USD-5.00"], ["EUR-0.50"])


def test_a_customer_of_the_bank_is_paid_by_phone_in_the_same_ledger(notified):
    reads = notified.access(acc=SMALL)
    notified.paid(
        notified.access("pis"), {"acc": JONAS_PHONE, "amts": {"EUR": 0.1 + 0.2}, "msg": "Lunch", "tcc": "REST"}
    )
    advance(notified.bank, HOUR)
    first = notified.listed(reads)[0]
    assert (first["amount"], first["acc"], first["msg"], first["tcc"]) == (["EUR0.30"], SMALL, "Lunch", "REST")
    assert first["name"] == "Ona Kazlauskienė"
    assert float(notified.balance(reads)["EUR"]) == 8.7


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"amts": {"EUR": 1, "USD": 1}}, "FORMAT_ERROR"),  # story 13
        ({"acc": DAILY}, "FORMAT_ERROR"),
        ({"amts": {"JPY": 100}}, "CURRENCY_INVALID"),
        ({"acc": SMALL, "amts": {"USD": 1}}, "CURRENCY_INVALID"),
        ({"acc": "+48600000003", "amts": {"USD": 1}}, "CURRENCY_INVALID"),  # only her company's account has it
    ],
)
def test_an_order_that_cannot_be_paid_is_rejected(changed, code, legacy):
    assert is_refused(legacy.order(legacy.access("pis"), {**ORDER, **changed})[1], 400, code)


def test_story_15_four_concurrent_requests_with_one_uuid_make_one_payment(legacy):
    token, uuid = legacy.access("pis"), new_id()
    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(legacy.order, token, ORDER, uuid) for _ in range(4)]
    assert [one.result()[1].status_code for one in answers] == [200] * 4
    assert is_refused(legacy.order(token, {**ORDER, "msg": "another"}, uuid)[1], 409, "UUID_REUSE")
    text = legacy.order(token, {**ORDER, "msg": "another"}, uuid)[1].json()["error"]["message"]
    assert text == "the uuid was used for another payment request (request-id.reuse)"
    assert legacy.order(token, dict(reversed(ORDER.items())), uuid)[1].status_code == 200
    assert legacy.order(legacy.access("pis"), ORDER, uuid)[1].status_code == 200  # another access to the same account
    assert is_refused(legacy.order(new_id(), ORDER, uuid)[1], 401, "UNAUTHORIZED")
    assert legacy.order(token, ORDER, uuid.upper())[1].status_code == 200  # letters of another case are another uuid
    legacy.control(f"/legacy/access/{token}/revoke")
    assert is_refused(legacy.order(token, ORDER, uuid)[1], 401, "UNAUTHORIZED")


def test_a_refused_uuid_can_be_used_again(legacy):
    token, uuid = legacy.access("pis"), new_id()
    assert is_refused(legacy.order(token, {**ORDER, "amts": {"JPY": 1}}, uuid)[1], 400, "CURRENCY_INVALID")
    assert legacy.order(token, ORDER, uuid)[1].status_code == 200


def test_payments_of_both_hosts_are_apart_and_move_the_same_money(bank, legacy, connect_legacy):
    live = connect_legacy(bank, live=True)
    uuid = new_id()
    for one in (legacy, live):
        assert one.order(one.access("pis"), ORDER, uuid)[1].status_code == 200
    assert legacy.control(f"/legacy/payments/{uuid}/approve")["host"] == "test"
    assert legacy.control(f"/legacy/payments/{uuid}/approve")["host"] == "live"  # which can still be decided
    assert [one["tlc"] for one in live.listed(live.access(acc=ONA_PHONE))[:2]] == ["posted", "posted"]
