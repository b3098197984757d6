"""Webhooks of the gateway: the reported status changes, their addresses and attempts, and the effects of faults."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any

import httpx
import pytest
from legacy_provider import Receiver
from merchant import LINK, MakeMerchant, Merchant
from raw_provider import control, is_refused

from refusals import refused
from tppkit._clock import parse_time
from tppkit.errors import ConfigurationError
from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.sandbox.faults import FAULTS, OF_TRANSPORT

pytestmark = pytest.mark.slow

HOUR, DAY = 3600, 86_400
KILLS, CONNECTIONS, EACH = 3, 4, 20


@pytest.fixture
def shop(fresh_bank: SandboxServer, make_merchant: MakeMerchant, receiver: Receiver) -> Merchant:
    """A merchant whose project has an address, at a sandbox of its own."""
    return make_merchant(fresh_bank, webhook_url=receiver.url)


def received(receiver: Receiver) -> list[tuple[str, str]]:
    """Path and order of what has arrived."""
    return [(one.path, one.json["order_id"]) for one in receiver.arrived]


def log(merchant: Merchant) -> Any:
    """The deliveries, the latest first."""
    return merchant.cards.keep(
        httpx.get(merchant.bank.addresses.control_url + "/gateway/deliveries", trust_env=False)
    ).json()


def test_story_1_each_change_of_an_order_is_reported_once_in_three_fields(shop, receiver, cards):
    order = shop.order()
    shop.pay(order, card=cards.pan("4000000000000002"))
    receiver.wait(1)  # processing
    assert shop.pay(order, card=cards.pan())["status"] == "completed"
    shop.advance(DAY)
    assert len(shop.read(order)["transactions"]) == 2
    first, second = receiver.arrived
    body = {"event": "status_changed", "order_id": order["id"], "project_id": shop.project_id}
    assert (first.method, first.headers["Content-Type"], first.json) == ("POST", "application/json", body)
    assert second.body == first.body
    cards.firewall([one.body for one in receiver.arrived], log(shop))


def test_a_change_by_a_request_is_reported_at_once(shop, receiver):
    order = shop.own_checkout(transaction={"capture_mode": "manual"})
    receiver.wait(2)
    waits_s = []
    for count in range(3, 9):
        started = time.monotonic()
        assert shop.act(order, "voids/amount/", {"amount": 1}).status_code == 201
        receiver.wait(count)
        waits_s.append(time.monotonic() - started)
        time.sleep(0.2)  # until the end of this attempt, at which the next one would be found
    assert min(waits_s) < 0.5  # the outbox looks by itself every second: then each would wait for 0.8 s


def test_story_6_a_capture_order_is_reported_and_a_refused_capture_is_not(shop, receiver):
    order = shop.own_checkout(transaction={"capture_mode": "manual"})
    made = shop.act(order, "captures/amount/", {"amount": 400, "description": "sent"}).json()
    assert shop.act(order, "captures/").status_code == 409
    shop.advance(0)
    assert Counter(received(receiver)) == {("/cb", order["id"]): 2, ("/cb", made["id"]): 1}


def test_story_8_a_delayed_capture_is_reported(shop, receiver):
    order = shop.own_checkout(transaction={"capture_mode": "delayed", "expiration_period": "PT2H"})
    shop.advance(HOUR)
    void = shop.act(order, "voids/amount/", {"amount": 250}).json()
    shop.advance(HOUR)
    (captured,) = shop.read(order)["related_orders"][1:]
    assert shop.read({"id": captured})["amount"] == 750
    assert received(receiver)[2:] == [("/cb", void["id"]), ("/cb", captured)]


def test_story_14_ten_attempts_are_made_two_minutes_after_each_failure(shop, receiver):
    receiver.afterwards = 500
    shop.pay(shop.order(), outcome="cancelled")
    shop.advance(DAY)
    (one,) = log(shop)
    times = [parse_time(attempt["at"]) for attempt in one["attempts"]]
    assert [round((later - earlier).total_seconds(), -1) for earlier, later in pairwise(times)] == [120] * 9
    assert (one["state"], len(receiver.arrived)) == ("given up", 10)
    assert {attempt["text"] for attempt in one["attempts"]} == {"status 500"}
    assert {arrived.body for arrived in receiver.arrived} == {receiver.arrived[0].body}


def test_story_14_the_first_attempt_waits_4_seconds_and_the_second_longer(shop, receiver):
    receiver.delay_s = 5
    shop.pay(shop.order(), outcome="cancelled")
    advance = {"url": shop.bank.addresses.control_url + "/clock/advance", "trust_env": False, "timeout": 30}
    httpx.post(**advance, json={"seconds": 0}).raise_for_status()
    receiver.delay_s = 9
    httpx.post(**advance, json={"seconds": 120}).raise_for_status()
    (one,) = log(shop)
    late, done = one["attempts"]
    assert (late["text"], late["ok"]) == ("no whole answer within 4 s (outgoing.timeout)", False)
    assert 3.9 <= (parse_time(late["at"]) - parse_time(one["added_at"])).total_seconds() < 9
    assert (done["text"], done["ok"], one["state"]) == ("status 200", True, "acknowledged")


def test_story_15_the_address_of_the_order_counts_before_that_of_the_project(shop, receiver):
    order = shop.own_checkout(webhook_url=receiver.url + "/own")
    refund = shop.post(f"/sandbox/v1/orders/{order['id']}/refunds/", {"amount": 1})
    other = shop.order()
    shop.pay(other, outcome="cancelled")
    shop.advance(0)
    own, project = ("/cb/own", order["id"]), ("/cb", other["id"])
    assert Counter(received(receiver)) == {own: 2, ("/cb/own", refund["id"]): 1, project: 1}


def test_stories_15_and_16_the_orders_of_a_link_have_its_address(shop, receiver):
    link = shop.link(webhook_url=receiver.url + "/link")
    for outcome in ("declined", "declined", "approved"):
        link = shop.pay_link(link, outcome=outcome)
    shop.advance(0)
    failed, paid = link["orders"]["error"], link["completed_order_id"]
    assert Counter(received(receiver)) == {("/cb/link", one): 2 for one in (*failed, paid)}
    assert len(failed) == 2


def test_neither_a_creation_nor_a_change_without_an_address_is_reported(shop, make_merchant):
    assert shop.order()["status"] == shop.card_order()["status"] == "new"
    make_merchant(shop.bank).own_checkout()
    assert log(shop) == []


def test_the_first_project_keeps_the_address_of_the_settings(open_bank, receiver):
    for settings in ({"webhook_url": receiver.url}, {}):
        with open_bank(**settings) as server:
            link = control(server, "/gateway/paymentlinks", LINK).json()
            control(server, f"/gateway/paymentlinks/{link['id']}/pay", {"outcome": "cancelled"})
            control(server, "/clock/advance", {"seconds": 0})
            index = httpx.get(server.addresses.approval_url, trust_env=False).text
    assert len(receiver.arrived) == 4
    assert receiver.arrived[0].json["order_id"] in index.partition(">Webhooks</h2>")[2]
    assert receiver.url not in index


@pytest.mark.parametrize("url", ["http://shop.example/", "shop.example", f"https://shop.example/{'a' * 2048}"])
def test_an_address_of_another_form_is_rejected_as_a_setting(url, tmp_path):
    with refused(ConfigurationError, "gateway.webhook-url"):
        SandboxSettings(tmp_path, webhook_url=url)


NEVER = [
    "http://shop.example/",
    "http://localhost/",
    "https://10.0.0.1/",
    "https://[fd00::1]/",
    "https://169.254.169.254/",
    "https://0.0.0.0/",
]


@pytest.mark.parametrize("url", NEVER)
def test_an_address_that_would_never_be_called_is_refused_when_it_is_set(url, shop, tmp_path):
    order = {"currency": "EUR", "amount": 1250, "webhook_url": url}
    for answer in (
        shop.send("POST", "/v1/orders/", order),
        shop.send("POST", "/sandbox/v1/paymentlinks/", {**LINK, "webhook_url": url}),
    ):
        assert is_refused(answer, 400, "WEBHOOK_URL_INVALID"), answer.text
    answer = control(shop.bank, "/gateway/projects", {"webhook_url": url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "gateway.webhook-url")
    for code, name in (("gateway.webhook-url", "webhook_url"), ("legacy.callback-url", "callback_url")):
        with refused(ConfigurationError, code):
            SandboxSettings(tmp_path, **{name: url})
    answer = control(shop.bank, "/legacy/provider", {"callback_url": url})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "legacy.callback-url")


def test_this_machine_is_called_only_by_a_sandbox_of_its_own_and_a_network_only_if_it_is_allowed(tmp_path):
    SandboxSettings(tmp_path, webhook_url="https://localhost/", callback_url="https://127.0.0.1/cb")
    SandboxSettings(
        tmp_path, webhook_url="https://10.0.0.1/", callback_url="https://[::1]/cb", allow_addresses=("10.0.0.0/8",)
    )
    for url in ("https://localhost/", "https://127.0.0.1/", "https://[::1]/"):
        with refused(ConfigurationError, "gateway.webhook-url"):
            SandboxSettings(tmp_path, host="0.0.0.0", webhook_url=url)


@pytest.mark.parametrize(("status", "is_done"), [(204, True), (302, False), (404, False)])
def test_another_status_of_success_acknowledges_and_a_redirect_is_not_followed(status, is_done, shop, receiver):
    receiver.answer(status, Location=receiver.url + "/elsewhere")
    shop.pay(shop.order(), outcome="cancelled")
    shop.advance(0)
    (one,) = log(shop)
    assert one["attempts"][0]["text"] == f"status {status}"
    assert (one["state"], len(receiver.arrived)) == ("acknowledged" if is_done else "waiting", 1)


@pytest.mark.parametrize(
    ("url", "reason"), [("https://localhost:1/", "outgoing.failed"), ("https://unknown.invalid/", "outgoing.failed")]
)
def test_an_address_that_does_not_answer_fails_each_attempt_and_the_log_has_the_reason(url, reason, shop):
    assert shop.pay(shop.order(webhook_url=url), outcome="cancelled")["status"] == "cancelled"
    shop.advance(HOUR)
    (one,) = log(shop)
    assert (one["address"], one["state"], len(one["attempts"])) == (url, "given up", 10)
    assert all(f"({reason})" in attempt["text"] for attempt in one["attempts"])


@pytest.mark.parametrize(
    ("fault", "now", "later"),
    [
        ({"name": "duplicate", "sender": "gateway"}, [0, 0, 1], []),
        ({"name": "drop"}, [1], []),
        ({"name": "delay", "delay_s": 600}, [1], [0]),
        ({"name": "drop", "count": 2}, [], []),
    ],
)
def test_faults_duplicate_drop_and_delay_webhooks(fault, now, later, shop, receiver):
    orders = [shop.order(), shop.order()]
    shop.control("/faults", fault)
    for order in orders:
        shop.pay(order, outcome="cancelled")
        shop.advance(0)
    number = {order["id"]: place for place, order in enumerate(orders)}
    assert [number[order] for _, order in received(receiver)] == now
    shop.advance(600)
    assert [number[order] for _, order in received(receiver)[len(now) :]] == later


def test_faults_of_signatures_and_streams_wait_for_what_has_them(shop, receiver):
    names = [name for name in FAULTS if name not in OF_TRANSPORT]
    for name in names:
        shop.control("/faults", {"name": name})
    order = shop.own_checkout()
    shop.advance(0)
    body = {"event": "status_changed", "order_id": order["id"], "project_id": shop.project_id}
    assert [json.loads(one.body) for one in receiver.arrived] == [body, body]
    assert [one["name"] for one in shop.control("/faults", {"name": "drop"})] == [*names, "drop"]


def work(merchant: Merchant, then: Callable[[str], None]) -> None:
    """Pay orders until the process is dead; `then` gets the id of each order whose two changes are owed."""
    with suppress(httpx.TransportError):
        while True:
            then(merchant.own_checkout()["id"])


def test_webhooks_that_are_pending_at_kills_are_sent_after_the_restart(killed_bank, make_merchant, receiver):
    owed: list[str] = []
    receiver.afterwards = 500
    for _ in range(KILLS):
        with killed_bank.running() as (process, tpp), tpp.http, ThreadPoolExecutor(CONNECTIONS) as threads:
            merchant, last = make_merchant(killed_bank, webhook_url=receiver.url), len(owed) + EACH

            def then(order_id: str, process: Any = process, last: int = last) -> None:
                owed.append(order_id)
                if len(owed) == last:
                    process.kill()

            for run in [threads.submit(work, merchant, then) for _ in range(CONNECTIONS)]:
                run.result(60)
            assert process.wait(10) == -signal.SIGKILL
    refused = len(receiver.arrived)
    receiver.afterwards = 200
    with killed_bank.running() as (process, tpp), tpp.http:
        killed_bank.control("/clock/advance", {"seconds": HOUR})
        killed_bank.stop(process)
    assert set(killed_bank.rows("deliveries", "state")) == {"acknowledged"}
    changes = Counter(json.loads(body)["order_id"] for body in killed_bank.rows("deliveries", "body"))
    assert {order_id: changes[order_id] for order_id in owed} == dict.fromkeys(owed, 2)
    assert Counter(order_id for _, order_id in received(receiver)[refused:]) == changes
    assert refused > 0
