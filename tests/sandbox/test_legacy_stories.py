"""The stories that the legacy interface is accepted by, with our client and our receiver, over HTTPS, each under its number.

Story 2 is in `test_legacy_access` and, for the client, in `tests/client/test_legacy_client`. They share a bank, whose clock only
moves forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from legacy_provider import ADDRESS, DAILY, FOREIGN, ONA, ONA_PHONE, SMALL, new_id
from raw_provider import control
from shop import Shop, open_shop

from tppkit._clock import utc_now
from tppkit.callbacks.login_codes import LoginCode, digest_session_id
from tppkit.client import AccessKind, LegacyClient, Unauthorized, make_client
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import RequestRefused, TransportError
from tppkit.protocol.legacy import AccessGranted, PaymentOrder
from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.qr import Payment, ScanLink
from tppkit.sandbox import SandboxServer
from tppkit.testpki import Pki, make_pki

ACCOUNTS, PAYMENTS = AccessKind.ACCOUNTS, AccessKind.PAYMENTS
DAY_S = 86_400
SESSION = "kX2vT9mQ4bR7wZ1c"

Open = Callable[..., AbstractContextManager[Shop]]


@pytest.fixture
def open_here(bank: SandboxServer, bank_pki: Pki, tmp_path: Path) -> Open:
    """Opens further shops at the same bank; callbacks go to the last one."""
    return partial(open_shop, bank, bank_pki, tmp_path)


@pytest.fixture
def shop(open_here: Open) -> Iterator[Shop]:
    with open_here() as opened:
        yield opened


def order(amount: str = "12.50", acc: str = FOREIGN, **fields: Any) -> PaymentOrder:
    return PaymentOrder.from_object({"acc": acc, "amts": {"EUR": Decimal(amount)}, **ADDRESS, **fields})


def scan(shop: Shop, code: LoginCode, **choice: Any) -> Any:
    """What comes of a customer's scan."""
    outcome = shop.control("/legacy/login", {"code": code.text, "customer": ONA, **choice})
    shop.advance()
    return outcome


def deliveries(shop: Shop) -> Any:
    return httpx.get(shop.bank.addresses.control_url + "/legacy/deliveries", trust_env=False).json()


def test_story_1_access_is_granted_reported_and_ends(shop):
    token = shop.granted(ACCOUNTS, ONA_PHONE)
    (grant,) = shop.events
    assert isinstance(grant, AccessGranted)
    assert grant.token == token
    assert timedelta(days=89, hours=23) < grant.expires_at() - utc_now() <= timedelta(days=90)
    shop.advance(90 * DAY_S - 60)
    assert shop.client.balance(token).keys() == {"EUR", "USD", "GBP"}
    assert len(shop.client.transactions(token)) > 20
    shop.advance(61)
    for ask in (shop.client.balance, shop.client.transactions):
        with pytest.raises(Unauthorized):
            ask(token)


def test_our_client_drives_every_row(shop, bank_pki):
    driven, at = set[str](), shop.bank.addresses

    def note(answer: httpx.Response) -> None:
        request = answer.request
        row = LEGACY.find(request.method, request.url.raw_path.decode()).row
        assert answer.status_code == row.success
        driven.add(row.name)

    with make_client(NoCertificate(server_anchors=[bank_pki.root.certificate])) as http:
        http.event_hooks = {"response": [note]}
        shop.client = LegacyClient(at.legacy_url, api_key=at.legacy_api_key, http=http)
        reads, pays = shop.granted(ACCOUNTS, ONA_PHONE), shop.granted(PAYMENTS, ONA_PHONE)
        before = shop.client.balance(reads)["EUR"]
        shop.approve(shop.client.pay(pays, order()))
        assert before - shop.client.balance(reads)["EUR"] == Decimal("12.50")
        assert [str(one) for one in shop.client.transactions(reads)[0].amounts] == ["EUR-12.50"]
    assert driven == {row.name for row in LEGACY.endpoints}


def test_story_5_a_payment_is_posted_and_then_executed(shop):
    uuid = shop.client.pay(shop.granted(PAYMENTS, ONA_PHONE), order())
    shop.approve(uuid)
    assert shop.outcomes() == [("posted", 1), ("executed", 2)]
    for one in shop.events[1:]:
        assert ([str(amount) for amount in one.amounts], one.fees, one.acc) == (["EUR-12.50"], (), FOREIGN)


def test_story_6_reports_in_reverse_and_twice_have_one_effect(shop):
    uuid = shop.client.pay(shop.granted(PAYMENTS, ONA_PHONE), order())
    for name in ("reorder", "duplicate"):
        shop.control("/faults", {"name": name})
    shop.approve(uuid)
    assert shop.outcomes() == [("executed", 2)]
    assert shop.counted == {("applied", ""): 2, ("stale", ""): 2}


def test_a_report_with_a_stale_version_has_no_effect(shop):
    uuid = shop.client.pay(shop.granted(PAYMENTS, ONA_PHONE), order())
    shop.control("/faults", {"name": "stale-ver"})
    shop.approve(uuid)
    assert shop.outcomes() == [("posted", 1)]
    assert shop.counted == {("applied", ""): 2, ("stale", ""): 1}


def test_story_7_a_callback_is_repeated_until_the_receiver_has_it(shop):
    shop.failures = 3
    token = shop.granted(ACCOUNTS, ONA_PHONE)
    for seconds in (10, 60, 300):
        assert shop.events == []
        shop.advance(seconds)
    shop.advance(DAY_S)
    assert [one.token for one in shop.events] == [token]
    assert [one["text"] for one in deliveries(shop)[0]["attempts"]] == ["status 503"] * 3 + ["status 200"]


@pytest.mark.parametrize(
    "made", [lambda: make_pki(at=utc_now()), lambda: make_pki(at=utc_now() - timedelta(days=4000), seed=11)]
)
def test_story_8_a_receiver_without_a_valid_certificate_gets_nothing(made, open_here):
    with open_here(issued=made().server) as shop:
        shop.granted(ACCOUNTS, ONA_PHONE)
        assert (shop.events, shop.counted) == ([], {})
        assert "certificate" in deliveries(shop)[0]["attempts"][0]["text"]


def test_story_9_a_login_posts_what_was_requested(shop):
    assert scan(shop, shop.codes.make(SESSION, at=utc_now()))["state"] == "confirmed"
    ((login, session),) = shop.events
    assert (login.name, login.email) == ("Ona Kazlauskienė", "ona@example.com")
    assert (login.phone, login.address, login.code) == (None, None, None)
    assert session == digest_session_id(SESSION)


def test_story_10_a_declined_login_posts_nothing_and_a_second_scan_works(shop):
    code = shop.codes.make(SESSION, at=utc_now())
    assert scan(shop, code, confirm=False)["state"] == "declined"
    shop.advance(DAY_S)
    assert shop.counted == {("login", ""): 1}
    assert scan(shop, code)["asked"]["code"] == code.code
    assert shop.counted == {("login", ""): 2, ("applied", ""): 1}


def test_story_11_amounts_are_decimals_without_a_binary_tail(shop):
    reads, pays = shop.granted(ACCOUNTS, SMALL), shop.granted(PAYMENTS, SMALL)
    assert str(shop.client.balance(reads)["EUR"]) == "8.40"
    shop.approve(shop.client.pay(pays, order("8.10", DAILY)))
    assert str(shop.client.balance(reads)["EUR"]) == "0.30"
    back = shop.client.pay(
        shop.granted(PAYMENTS, ONA_PHONE),
        PaymentOrder.from_object({"acc": SMALL, "amts": {"EUR": Decimal(str(0.1 + 0.2))}}),
    )
    shop.approve(back)
    assert [str(one.value) for one in shop.client.transactions(reads)[0].amounts] == ["0.30"]
    assert str(shop.client.balance(reads)["EUR"]) == "0.60"


def test_story_12_a_scanned_payment_moves_money_and_no_callback_is_due(shop):
    reads = shop.granted(ACCOUNTS, ONA_PHONE)
    before, owed = shop.client.balance(reads)["EUR"], len(deliveries(shop))
    code = Payment(
        account=FOREIGN, name="Bookshop", currency="EUR", amount=Decimal("12.50"), message="Order 4711", type="SHOP"
    )
    link = ScanLink(shop.bank.addresses.legacy_url, code.text).text
    scanned = httpx.get(link, verify=False, trust_env=False)  # the certificate is not this test's subject
    page = httpx.URL(scanned.headers["location"])
    form = {"code": code.text, "customer": ONA, "payment": new_id(), "iban": DAILY, "action": "approve"}
    another = form | {"code": code.text.replace("12.50", "13.50")}
    for sent, status in ((form, 200), (form, 200), (another, 409)):
        assert httpx.post(page, data=sent, trust_env=False, follow_redirects=True).status_code == status
    shop.advance(3600)
    assert before - shop.client.balance(reads)["EUR"] == Decimal("12.50")
    paid = shop.client.transactions(reads)[0]
    assert (paid.name, paid.msg, paid.tcc) == ("Bookshop", "Order 4711", "SHOP")
    assert len(shop.events) == 1
    assert len(deliveries(shop)) == owed


def test_story_14_keys_tokens_and_callbacks_of_the_test_host_are_nothing_at_the_live_one(shop, open_here, bank_pki):
    at, token = shop.bank.addresses, shop.granted(ACCOUNTS, ONA_PHONE)
    with open_here(live=True) as live:
        for url, key in ((at.legacy_live_url, at.legacy_api_key), (at.legacy_url, at.legacy_live_api_key)):
            client = LegacyClient(url, api_key=key, server_anchors=[bank_pki.root.certificate])
            with client, pytest.raises(Unauthorized):
                client.request_access(ACCOUNTS, ONA_PHONE)
        with pytest.raises(Unauthorized):
            live.client.balance(token)
        shop.granted(ACCOUNTS, ONA_PHONE)
        assert live.counted == {("refused", "callback.signature"): 1}
        live.granted(ACCOUNTS, ONA_PHONE)
        assert len(live.events) == 1


def test_story_15_a_payment_whose_answer_was_lost_is_made_once(shop, bank_pki):
    def lose(answer: httpx.Response) -> None:
        raise httpx.ReadTimeout("the answer is lost")

    token, at = shop.granted(PAYMENTS, ONA_PHONE), shop.bank.addresses
    with make_client(NoCertificate(server_anchors=[bank_pki.root.certificate])) as http:
        http.event_hooks = {"response": [lose]}
        with pytest.raises(TransportError) as lost:
            LegacyClient(at.legacy_url, api_key=at.legacy_api_key, http=http).pay(token, order())
    uuid = lost.value.request_id
    assert shop.client.pay(token, order(), uuid=uuid) == uuid
    with pytest.raises(RequestRefused) as refused:
        shop.client.pay(token, order(msg="another"), uuid=uuid)
    assert refused.value.status == 409
    shop.approve(uuid)
    assert control(shop.bank, f"/legacy/payments/{uuid}/approve").status_code == 400
    assert shop.outcomes() == [("posted", 1), ("executed", 2)]
