"""The report on the client under test: a bad client gets the rows that it earns, a good one gets none."""

from __future__ import annotations

import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from xml.etree import ElementTree

import httpx
import pytest
from click.testing import CliRunner
from raw_provider import APPROVE, PAYMENT, PAYMENTS, RawProvider, altered, done

from refusals import refused
from tppkit._clock import utc_now
from tppkit.cli.main import main
from tppkit.errors import FormatError, Severity
from tppkit.message import Message
from tppkit.protocol.gateway import OrderRequest
from tppkit.protocol.psd2 import ConsentRequest, PaymentInitiation, parse_persona
from tppkit.sandbox import Sandbox
from tppkit.sandbox.bank.zone import bank_day
from tppkit.sandbox.conformance import MAX_EXAMPLES, RULES, Report
from tppkit.sandbox.exchange import Exchange

CONSENT = {"access": {"allPsd2": "allAccounts"}, "validUntil": "2099-12-31", "frequencyPerDay": 4}
REDIRECT = ("TPP-Redirect-URI", "https://tpp.example/back")


@pytest.fixture(scope="module")
def opened(tppkit_pki) -> Iterator[Sandbox]:
    with Sandbox(pki=tppkit_pki) as opened:
        yield opened


@pytest.fixture
def inside(opened: Sandbox) -> Iterator[Sandbox]:
    """A sandbox without broken rules; what a test earns is not asked of it afterwards."""
    yield opened
    opened._hosts.conformance.clear()


@pytest.fixture
def bad(inside: Sandbox) -> Iterator[RawProvider]:
    """A client of plain HTTP, which may send anything."""
    identity = inside.identity()
    with httpx.Client(
        base_url=inside.addresses.psd2_url, transport=inside.transport(identity), trust_env=False
    ) as http:
        yield RawProvider(http, identity.seal)


def earned(inside: Sandbox) -> dict[str, int]:
    return {one.rule.name: one.count for one in inside.report().rules}


def decide(inside: Sandbox, answer: dict[str, Any]) -> None:
    """As the customer does on the approval page."""
    with httpx.Client(transport=inside.transport()) as browser:
        assert browser.post(answer["_links"]["scaRedirect"]["href"], data=APPROVE).status_code == 303


def consent(bad: RawProvider, *headers: tuple[str, str]) -> dict[str, Any]:
    body = json.dumps(CONSENT).encode()
    message = altered(bad.message(body, headers=headers), target="/psd2/v1/consents")
    return bad.send(bad.sealed(message)).json()


def test_a_client_that_keeps_the_rules_gets_an_empty_report(inside):
    client = inside.client()
    initiated = client.initiate_payment(
        PaymentInitiation.from_object(PAYMENT), psu_ip_address="203.0.113.7", redirect_uri=REDIRECT[1]
    )
    decide(inside, json.loads(initiated.to_wire()))
    assert client.wait_for_payment(initiated.payment_id) == "ACSC"
    created = client.create_consent(
        ConsentRequest.from_object(json.loads(json.dumps(CONSENT)) | {"validUntil": bank_day(inside.now())})
    )
    inside.approve_consent(created.consent_id)
    assert client.wait_for_consent(created.consent_id) == "valid"
    client.accounts(created.consent_id, psu_ip_address="203.0.113.7")
    inside.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250))
    assert inside.report() == Report(())
    assert str(inside.report()) == "no rule was broken"


ID, TWICE = str(UUID(int=7)), str(UUID(int=8))


def reserialised(bad: RawProvider) -> None:
    message = bad.sealed(bad.message(json.dumps(PAYMENT).encode()))
    bad.send(altered(message, body=json.dumps(PAYMENT, separators=(",", ":")).encode()))


def uncovered(bad: RawProvider) -> None:
    message = bad.sealed(bad.message())
    headers = [(name, value.replace(" x-request-id", "")) for name, value in message.headers]
    bad.send(altered(message, headers=headers))


def read(bad: RawProvider, *headers: tuple[str, str]) -> None:
    bad.send(Message("GET", "/psd2/v1/accounts", (("X-Request-ID", str(uuid4())), *headers)))


def addresses(bad: RawProvider, *addresses: str) -> None:
    for one in addresses:
        bad.initiate(headers=[("PSU-IP-Address", one)])


def without_chain(bad: RawProvider) -> None:
    bad.http._transport._peer = lambda whole=bad.http._transport._peer: whole()[:1]
    bad.request("GET", f"{PAYMENTS}/none/status")


WRONG: list[tuple[dict[str, int], Callable[[RawProvider], object]]] = [
    ({"request-id-missing": 1}, lambda bad: bad.send(Message("GET", f"{PAYMENTS}/none", ()))),
    ({"request-id-other-body": 1}, lambda bad: [bad.initiate(dict(PAYMENT, creditorName=name), request_id=ID) for name in "AB"]),
    ({"request-id-reused": 1}, lambda bad: [bad.initiate(request_id=TWICE), bad.request("GET", f"{PAYMENTS}/none", request_id=TWICE)]),
    ({"digest-reserialised": 1}, reserialised),
    ({"header-not-covered": 1}, uncovered),
    ({"consent-id-missing": 1}, read),
    ({"unknown-field": 1}, lambda bad: bad.initiate(dict(PAYMENT, instructedAmmount="1"))),
    ({"unknown-query": 1}, lambda bad: bad.request("GET", f"{bad.new_payment()['_links']['status']['href']}?wait=60")),
    ({"psu-ip-address-nonsense": 3}, lambda bad: addresses(bad, "::", "224.0.0.1", "localhost")),
    ({"psu-ip-address-private": 3}, lambda bad: addresses(bad, "127.0.0.1", "::ffff:10.1.2.3", "fd00::1")),
    ({"chain-incomplete": 1}, without_chain),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "act"), WRONG, ids=lambda one: min(one) if isinstance(one, dict) else "")
def test_each_wrong_request_earns_its_row_alone(inside, bad, rows, act):
    act(bad)
    assert earned(inside) == rows


def test_polling_too_fast_and_after_the_end(inside, bad):
    payment = bad.new_payment()
    for _ in range(2):
        assert bad.status(payment) == "RCVD"
    assert earned(inside) == {}  # two processes may ask
    for _ in range(2):
        bad.status(payment)
    assert earned(inside) == {"polled-too-fast": 2}
    decide(inside, payment)
    bad.status(payment)
    inside.advance(timedelta(hours=2))
    assert [bad.status(payment) for _ in range(2)] == ["ACSC", "ACSC"]
    assert earned(inside) == {"polled-too-fast": 2}
    bad.status(payment)
    assert earned(inside) == {"polled-too-fast": 2, "polled-after-end": 1}
    for _ in range(2):  # a later look at the state is no polling
        inside.advance(timedelta(minutes=2))
        bad.status(payment)
    assert earned(inside)["polled-after-end"] == 1


@pytest.mark.earns("polled-after-end")
def test_a_final_state_is_known_by_the_name_that_the_bank_has_for_it(bank_pki):
    ours = 'based_on = "document"\nname = "our-bank"\nsource = "a letter"\n[payment_status]\nACSC = "DONE"'
    with Sandbox(pki=bank_pki, persona=parse_persona(ours.encode())) as bank, bank.client() as client:
        made = client.initiate_payment(PaymentInitiation.from_object(PAYMENT))
        bank.approve(made.payment_id)
        bank.advance(timedelta(hours=2))
        assert {client.payment_status(made.payment_id).transaction_status for _ in range(3)} == {"ACSC"}


def test_a_slow_poll_is_slow_by_either_clock(inside, bad):
    payment = bad.new_payment()
    for _ in range(5):
        bad.status(payment)
        inside.advance(timedelta(seconds=2))
    assert earned(inside) == {}


def test_the_customer_is_present_who_comes_to_the_approval_page_and_back(inside, bad):
    decide(inside, bad.new_payment(headers=[REDIRECT, ("PSU-IP-Address", "203.0.113.7")]))
    decide(inside, bad.new_payment())  # the customer does not come back, so was perhaps never at the provider
    slow = bad.new_payment(headers=[REDIRECT])
    inside.advance(timedelta(seconds=61))
    decide(inside, slow)
    assert earned(inside) == {}
    decide(inside, bad.new_payment(headers=[REDIRECT]))
    assert earned(inside) == {"psu-ip-address-missing": 1}
    consented = consent(bad, REDIRECT, ("PSU-IP-Address", "203.0.113.7"))
    decide(inside, consented)
    read(bad, ("Consent-ID", consented["consentId"]))
    read(bad, ("Consent-ID", consented["consentId"]), ("PSU-IP-Address", "203.0.113.7"))
    inside.advance(timedelta(seconds=11))
    read(bad, ("Consent-ID", consented["consentId"]))
    assert earned(inside) == {"psu-ip-address-missing": 2}


def test_examples_are_bounded_and_have_no_secret(inside, bad):
    for _ in range(MAX_EXAMPLES + 2):
        bad.initiate(dict(PAYMENT, n4111111111111111="x"), request_id=str(uuid4()))
    bad.send(Message("GET", f"{PAYMENTS}/4111111111111111/status?approve/secret=1", (("X-Request-ID", ID),)))
    report = inside.report().as_object()
    by_name = {row["rule"]: row for row in report["rules"]}
    assert (by_name["unknown-field"]["count"], len(by_name["unknown-field"]["examples"])) == (7, MAX_EXAMPLES)
    assert by_name["unknown-field"]["examples"][0]["detail"] == "another"
    assert "4111111111111111" not in json.dumps(report)
    assert "secret" not in json.dumps(report)
    assert set(by_name["unknown-field"]) >= {"rule", "severity", "source", "count", "examples"}


# ---- payments made twice


def paid(id_: str, *, fault: str | None = None, begun_s: float = 0.0, **parts: Any) -> Exchange:
    """A payment request as observed."""
    given = {
        "host": "psd2", "at": utc_now(), "method": "POST", "target": PAYMENTS, "body": b"{}", "caller": "tpp", "status": 201,
        "row": "initiate_payment", **parts,
    }  # fmt: skip
    return Exchange(
        headers=(("x-request-id", id_),), started_s=begun_s, fault=fault, **given
    )  # fmt: skip


LOST = "status-500-after"
PAID_TWICE: list[tuple[str, bool, list[Exchange]]] = [
    ("under another id", True, [paid("a", fault=LOST), paid("b", begun_s=1)]),
    ("while the first answer is late", True, [paid("b", begun_s=1), paid("a", fault="late", is_lost=True)]),
    ("after a late answer that came", False, [paid("a", fault="late"), paid("b", begun_s=2)]),
    ("after a lost connection", True, [paid("a", is_lost=True), paid("b", begun_s=1)]),
    ("under the same id", False, [paid("a", fault=LOST), paid("a", begun_s=1)]),
    ("once the first is known", False, [paid("a", fault=LOST), paid("a", begun_s=1), paid("b", begun_s=2)]),
    ("with another body", False, [paid("a", fault=LOST), paid("b", begun_s=1, body=b"[]")]),
    ("by another provider", False, [paid("a", fault=LOST), paid("b", begun_s=1, caller="other")]),
    ("after a refusal", False, [paid("a", fault=LOST, error=FormatError("x.y", "")), paid("b", begun_s=1)]),
    ("before any payment was made", False, [paid("a", fault="status-500-before"), paid("b", begun_s=1)]),
    ("once the first has expired", False, [paid("a", fault=LOST), paid("b", begun_s=1, at=utc_now() + timedelta(minutes=6))]),
    (
        "once the repeated first has expired", False,
        [paid("a", fault=LOST), paid("a", begun_s=1, fault=LOST, at=utc_now() + timedelta(minutes=4)),
         paid("b", begun_s=2, at=utc_now() + timedelta(minutes=6))],
    ),
    ("without a fault", False, [paid("a"), paid("b", begun_s=1)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("exchanges", "is_second"), [(row[2], row[1]) for row in PAID_TWICE], ids=[row[0] for row in PAID_TWICE]
)
def test_a_second_payment_is_one_without_the_answer_to_the_first(inside, exchanges, is_second):
    for exchange in exchanges:
        inside._hosts.conformance.observe(exchange)
    assert earned(inside) == ({"second-payment": 1} if is_second else {})


@pytest.mark.parametrize(
    "fault", [LOST, "status-503-after", "reset-after", "late", "truncated", "other-answer", "no-body"]
)
def test_a_client_that_pays_again_after_a_fault_pays_twice(inside, bad, fault):
    body, id_ = dict(PAYMENT, creditorName=fault), str(uuid4())
    for request_ids, rows in (([id_, id_], {}), ([str(uuid4()), str(uuid4())], {"second-payment": 1})):
        inside.fault(fault)
        for request_id in request_ids:
            with suppress(httpx.TransportError):
                bad.initiate(body, request_id=request_id)
        assert earned(inside) == rows


def test_the_example_of_a_second_payment_names_the_first(inside, bad):
    first, second = str(uuid4()), str(uuid4())
    inside.fault(LOST)
    bad.initiate(PAYMENT, request_id=first)
    bad.initiate(PAYMENT, request_id=second)
    (example,) = inside.report().rules[0].examples
    assert example["request_id"] == second
    assert f"before, without an answer, as {first} at " in example["detail"]


def test_a_payment_that_expired_is_not_paid_by_the_next(inside, bad):
    inside.fault(LOST)
    bad.initiate(PAYMENT, request_id=str(uuid4()))
    inside.advance(timedelta(seconds=600))
    bad.initiate(PAYMENT, request_id=str(uuid4()))
    assert earned(inside) == {}


@pytest.mark.slow
def test_a_client_that_does_not_wait_and_pays_again_pays_twice(bank, connect):
    impatient = connect(bank)
    impatient.new_payment()
    done(bank, "/faults", {"name": "late", "interface": "psd2", "delay_s": 30})
    impatient.http.timeout = httpx.Timeout(0.5)
    with pytest.raises(httpx.ReadTimeout):
        impatient.initiate()
    impatient.http.timeout = httpx.Timeout(10)
    impatient.new_payment()
    found = bank.sandbox.conformance.report()
    bank.sandbox.conformance.clear()
    assert [one.rule.name for one in found.rules] == ["second-payment"]


def test_a_reset_clears_the_report(bad, inside):
    bad.send(Message("GET", f"{PAYMENTS}/none", ()))
    inside.reset()
    assert earned(inside) == {}


def test_a_second_payment_of_the_legacy_interface_has_another_uuid(inside):
    for begun_s, uuid, fault in ((0, "a" * 20, LOST), (1, "a" * 20, None), (2, "b" * 20, LOST), (3, "c" * 20, None)):
        exchange = paid("", fault=fault, begun_s=begun_s, host="legacy", row="pay", parameters={"uuid": uuid})
        inside._hosts.conformance.observe(exchange)
    assert earned(inside) == {"second-payment": 1}


# ---- webhooks


@pytest.mark.slow
def test_webhooks_are_answered_in_time_with_200_and_their_orders_read(bank_pki, receiver):
    with Sandbox(pki=bank_pki) as inside:
        shop = inside.gateway.project(webhook_url=f"{receiver.url}/secret")
        client = shop.client()
        orders = [client.create_order(OrderRequest(currency="EUR", amount=1250)).id for _ in range(3)]
        shop.pay(orders[0], outcome="cancelled")
        receiver.wait(1)
        inside.advance(timedelta())  # until the attempt is over
        assert earned(inside) == {"webhook-order-not-read": 1}
        client.order(orders[0])
        assert earned(inside) == {}
        inside.control("POST", "/faults", {"name": "duplicate"})
        shop.pay(order := client.create_order(OrderRequest(currency="EUR", amount=1250)).id, outcome="cancelled")
        client.order(order)
        inside.advance(timedelta())
        assert earned(inside) == {}  # the second one reports a state that was read
        receiver.answer(204)
        receiver.answer(500)
        shop.pay(orders[1], outcome="cancelled")
        shop.pay(orders[2], outcome="cancelled")
        inside.advance(timedelta(minutes=2))
        assert earned(inside) == {"webhook-not-200": 2, "webhook-order-not-read": 2}
        list(client.search("*"))
        assert earned(inside) == {"webhook-not-200": 2}
        receiver.delay_s = 5.0
        shop.pay(client.create_order(OrderRequest(currency="EUR", amount=1250)).id, outcome="cancelled")
        inside.advance(timedelta(seconds=1))
        assert earned(inside) == {"webhook-not-200": 2, "webhook-late": 1}
        assert "secret" not in str(inside.report())
        inside._hosts.conformance.clear()


# ---- memory and time


def memory() -> int:
    """The bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


@pytest.mark.slow
def test_memory_is_bounded_over_a_hundred_thousand_requests(inside):
    conformance = inside._hosts.conformance

    def observe(count: int) -> None:
        for _ in range(count):
            id_, begun_s = str(uuid4()), time.monotonic()
            conformance.observe(paid(id_, begun_s=begun_s, fault=LOST, body=id_.encode(), unknown_query=(id_,)))
            conformance.observe(
                paid(
                    id_, begun_s=begun_s, row="payment_status", method="GET", target=f"{PAYMENTS}/{id_}", status=200,
                    parameters={"payment_id": id_}, answer_body=b'{"transactionStatus":"RCVD"}',
                )
            )  # fmt: skip

    observe(12_000)
    full = memory()
    observe(38_000)
    assert memory() - full < 4 * 1024 * 1024
    report = conformance.report()
    assert {one.rule.name: one.count for one in report.rules} == {"unknown-query": 50_000, "request-id-reused": 50_000}
    assert len(json.dumps(report.as_object())) < 16 * 1024


# ---- the command


@pytest.mark.slow
def test_the_command_prints_the_report_and_exits_by_severity(bank, tpp):
    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(
            main, ["sandbox", "report", "--control", bank.addresses.control_url, *options], standalone_mode=False
        )
        return done.return_value, done.stdout

    assert run() == (0, "no rule was broken\n")
    tpp.initiate(dict(PAYMENT, unknown="1"))
    code, text = run()
    assert (code, text.splitlines()[0]) == (0, f"warning: unknown-field, 1 time ({RULES['unknown-field'].source})")
    assert [run("--fail-on", severity.value)[0] for severity in Severity] == [0, 1, 1]
    tpp.send(Message("GET", f"{PAYMENTS}/none", ()))
    code, text = run("--format", "json")
    assert (code, json.loads(text)) == (1, bank.sandbox.conformance.report().as_object())
    assert Report.from_object(json.loads(text)) == bank.sandbox.conformance.report()
    code, text = run("--format", "junit")
    suite = ElementTree.fromstring(text)
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    shown = [case.get("name") for case in suite if case.find("system-out") is not None]
    assert (code, failed, shown) == (1, ["request-id-missing"], ["unknown-field"])
    assert (suite.get("tests"), suite.get("failures")) == (str(len(RULES)), "1")


@pytest.mark.parametrize(
    "value", [None, [], {}, {"rules": 1}, {"rules": [{}]}, {"rules": [{"rule": "x", "severity": "fatal"}]}]
)
def test_only_a_report_is_read_as_one(value):
    with refused(FormatError, "model.invalid"):
        Report.from_object(value)
