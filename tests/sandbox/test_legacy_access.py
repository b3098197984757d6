"""Access and account data of the legacy interface, over HTTPS with a plain client."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import httpx
import pytest
from legacy_provider import DAILY, FOREIGN, JONAS, JONAS_PHONE, ONA, ONA_PHONE, ORDER, SAVINGS, SMALL, new_id
from raw_provider import PAYMENT, control, is_refused


def test_story_2_a_token_or_uuid_of_another_form_is_refused(legacy):
    granted = legacy.access("pis")
    for token in ("0190b5c1-7e1d-4c3b-9a55-2f6f7b8c9d0e", "a" * 19, "a" * 41):
        assert is_refused(legacy.send("POST", f"/ais/{token}", {"acc": ONA_PHONE}), 400, "FORMAT_ERROR")
        assert is_refused(legacy.order(granted, uuid=token)[1], 400, "FORMAT_ERROR")
    assert legacy.send("POST", f"/ais/{new_id()}{'Z' * 8}", {"acc": ONA_PHONE}).status_code == 200


def test_a_token_of_the_other_kind_gives_nothing(legacy):
    assert is_refused(legacy.send("GET", f"/ais/{legacy.access('pis')}/LIST"), 401, "UNAUTHORIZED")
    assert is_refused(legacy.order(legacy.access("ais"))[1], 401, "UNAUTHORIZED")


def test_the_same_request_again_is_not_a_second_one(legacy):
    token = legacy.access()
    for acc in (ONA_PHONE, ONA_PHONE.removeprefix("+")):
        assert legacy.send("POST", f"/ais/{token}", {"acc": acc}).status_code == 200
    assert legacy.balance(token)
    for path, acc in ((f"/ais/{token}", JONAS_PHONE), (f"/pis/{token}", ONA_PHONE)):
        assert is_refused(legacy.send("POST", path, {"acc": acc}), 409, "TOKEN_REUSE")


@pytest.mark.parametrize(("action", "state"), [("decline", "declined"), ("revoke", "revoked")])
def test_declined_or_revoked_access_gives_nothing_and_is_decided(action, state, legacy):
    if action == "revoke":
        token = legacy.access()
        assert legacy.balance(token)
    else:
        token = new_id()
        legacy.send("POST", f"/ais/{token}", {"acc": SMALL})
        assert is_refused(legacy.send("GET", f"/ais/{token}/LIST"), 401, "UNAUTHORIZED")
    assert legacy.control(f"/legacy/access/{token}/{action}")["state"] == state
    for path in ("BALANCE", "LIST"):
        assert is_refused(legacy.send("GET", f"/ais/{token}/{path}"), 401, "UNAUTHORIZED")
    for again in ("approve", "revoke"):
        answer = control(legacy.bank, f"/legacy/access/{token}/{again}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "token.decided")


@pytest.mark.parametrize(
    ("acc", "choice", "iban"),
    [
        (ONA_PHONE, {}, DAILY),
        (ONA_PHONE.removeprefix("+"), {"iban": SAVINGS}, SAVINGS),
        (SMALL, {}, SMALL),
        (ONA_PHONE, {"customer": JONAS}, None),
        (ONA_PHONE, {"iban": SMALL}, None),
        (SMALL, {"customer": ONA}, None),
    ],
)
def test_the_account_restricts_who_approves_with_what(acc, choice, iban, legacy):
    token = new_id()
    assert legacy.send("POST", f"/pis/{token}", {"acc": acc}).status_code == 200
    misspelt = control(legacy.bank, f"/legacy/access/{token}/approve", {"custmer": ONA})
    assert misspelt.json()["error"]["code"] == "model.invalid"
    answer = control(legacy.bank, f"/legacy/access/{token}/approve", choice)
    if iban is None:
        assert answer.json()["error"]["code"] == "account.unfit"
    else:
        assert answer.json()["iban"] == iban


def test_the_list_has_an_exchange_once_with_two_amounts_and_pending_payments_first(legacy):
    token, payments = legacy.access(), legacy.access("pis")
    before = legacy.listed(token)
    exchanges = [one for one in before if len(one["amount"]) == 2 and "fee" not in one]
    assert {one["amount"][1][:3] for one in exchanges} == {"USD", "GBP"}
    assert all(one["amount"][0].startswith("EUR-") and one["acc"] == DAILY for one in exchanges)
    uuid = legacy.paid(payments, {**ORDER, "amts": {"USD": 1.5}, "tcc": "ZZZZ"})
    first, *rest = legacy.listed(token)
    assert rest == before
    assert (first["tlc"], first["ver"], first["amount"], first["tcc"]) == ("posted", 1, ["USD-1.50"], "ZZZZ")
    assert (first["acc"], first["name"], first["msg"]) == (FOREIGN, "Example Shop", "Order 4711")
    assert uuid not in first["id"]
    legacy.control("/clock/advance", {"seconds": 3600})
    executed = legacy.listed(token)[0]
    assert (executed["tlc"], executed["timeStamp"]) == ("executed", first["timeStamp"])
    stamps = [one["timeStamp"] for one in before]
    assert stamps == sorted(stamps, reverse=True)
    assert {one["tlc"] for one in before} == {"executed"}
    assert len({one["id"] for one in before}) == len(before)


def test_a_receiver_with_the_payers_name_is_listed_with_its_own_account(legacy, connect):
    payment = connect(legacy.bank).new_payment(body={**PAYMENT, "creditorName": "Ona Kazlauskienė"})
    legacy.control(f"/payments/{payment['paymentId']}/approve", {"customer": ONA, "iban": DAILY})
    assert legacy.listed(legacy.access(iban=DAILY))[0]["acc"] == FOREIGN


def test_access_ends_at_the_second_that_exp_names(notified, receiver):
    token = new_id()
    notified.send("POST", f"/ais/{token}", {"acc": ONA_PHONE})
    ends = datetime.fromisoformat(notified.control(f"/legacy/access/{token}/approve")["expires_at"])
    (granted,) = receiver.wait(1)
    assert granted.json["exp"] == ends.isoformat(" ")[:19]
    now = datetime.fromisoformat(
        httpx.get(f"{notified.bank.addresses.control_url}/clock", trust_env=False).json()["now"]
    )
    notified.control("/clock/advance", {"seconds": (ends.replace(microsecond=0) - now).total_seconds()})
    assert is_refused(notified.send("GET", f"/ais/{token}/LIST"), 401, "UNAUTHORIZED")


def test_keys_and_access_survive_a_restart(open_bank, connect_legacy):
    with open_bank() as server:
        before = connect_legacy(server)
        token = before.access()
    with open_bank() as server:
        after = connect_legacy(server)
        assert after.balance(token)
        assert (after.key, after.public_pem) == (before.key, before.public_pem)


def test_public_keys_are_published_with_the_pages(bank):
    for name, path in (("test", bank.addresses.legacy_public_key), ("live", bank.addresses.legacy_live_public_key)):
        answer = httpx.get(f"{bank.addresses.approval_url}/legacy/keys/{name}.pem", trust_env=False)
        assert answer.content == Path(path).read_bytes()
    assert httpx.get(f"{bank.addresses.approval_url}/legacy/keys/other.pem", trust_env=False).status_code == 404
