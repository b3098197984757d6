"""The report on the client under test: a bad client gets the rows that it earns, a good one gets none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from raw_provider import APPROVE, PAYMENT, PAYMENTS, RawProvider, altered

from tppkit._clock import utc_now
from tppkit.message import Message
from tppkit.protocol.gateway import OrderRequest
from tppkit.protocol.psd2 import ConsentRequest, PaymentInitiation
from tppkit.sandbox import Sandbox
from tppkit.sandbox.conformance import MAX_EXAMPLES, Report

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
        ConsentRequest.from_object(json.loads(json.dumps(CONSENT)) | {"validUntil": utc_now().date()})
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
    ({"psu-ip-address-nonsense": 3}, lambda bad: addresses(bad, "::", "127.0.0.1", "localhost")),
    ({"psu-ip-address-private": 2}, lambda bad: addresses(bad, "10.1.2.3", "fd00::1")),
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
    assert earned(inside) == {"polled-too-fast": 2, "polled-after-end": 1}
    inside.advance(timedelta(minutes=2))
    bad.status(payment)  # a later look at the state is no polling
    assert earned(inside)["polled-after-end"] == 1


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
