"""Both clients against the sandbox: every endpoint row, what a provider does with them, and waiting for a payment."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest
from http_drivers import Ask, caught
from payments import APPROVE, PAYMENT
from rogue_bank import Answer, as_json, http

from refusals import refused
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client
from tppkit.errors import LocalProtocolError, RequestRefused, TransportError
from tppkit.protocol.psd2 import ALL_ACCOUNTS, PSD2, Access, ConsentRequest, PaymentProduct
from tppkit.protocol.psd2.rules import PAGE_SIZE
from tppkit.sandbox import SandboxServer

CONSENT = ConsentRequest(access=Access(all_psd2=ALL_ACCOUNTS), valid_until=date(2099, 12, 31), frequency_per_day=9)


def initiate(client: Any) -> Any:
    return client.initiate_payment(PAYMENT)


def decide(link: str, action: str) -> None:
    httpx.post(link, data={**APPROVE, "action": action}, trust_env=False)


@pytest.fixture
def run(driver: Any, bank: SandboxServer, identity: Identity) -> Callable[..., list[Any]]:
    """The results of steps with one and the other client."""
    return lambda *steps, **options: driver.run(bank.addresses.psd2_url, identity, *steps, **options)


@pytest.fixture
def payment_id(payment: Any) -> str:
    return payment.payment_id


class Made(NamedTuple):
    """What the calls are about: a payment, a valid consent, and its account."""

    payment_id: str
    consent_id: str
    resource_id: str


@pytest.fixture
def made(bank: SandboxServer, identity: Identity, payment_id: str) -> Made:
    with Psd2Client(bank.addresses.psd2_url, identity=identity) as client:
        consent_id = client.create_consent(CONSENT).consent_id
        url = f"{bank.addresses.control_url}/consents/{consent_id}/approve"
        httpx.post(url, trust_env=False).raise_for_status()
        (account,) = client.accounts(consent_id, psu_ip_address="192.0.2.7").accounts
    return Made(payment_id, consent_id, account.resource_id)


# For each row: the call, what is looked at in its result, and what that must be.
CALLS: dict[str, tuple[Callable[[Any, Made], Any], Callable[[Any], Any], Any]] = {
    "initiate_payment": (lambda client, made: client.initiate_payment(PAYMENT), lambda result: result.transaction_status, "RCVD"),
    "payment_status": (
        lambda client, made: client.payment_status(made.payment_id), lambda result: result.transaction_status, "RCVD",
    ),
    "payment_details": (
        lambda client, made: client.payment_details(made.payment_id), lambda result: result.transaction_status, "RCVD",
    ),
    "cancel_payment": (
        lambda client, made: client.cancel_payment(made.payment_id), lambda result: result.transaction_status, "CANC",
    ),
    "create_consent": (lambda client, made: client.create_consent(CONSENT), lambda result: result.status, "received"),
    "consent": (lambda client, made: client.consent(made.consent_id), lambda result: result.access, CONSENT.access),
    "consent_status": (lambda client, made: client.consent_status(made.consent_id), lambda result: result.status, "valid"),
    "delete_consent": (lambda client, made: client.delete_consent(made.consent_id), lambda result: result, None),
    "accounts": (
        lambda client, made: client.accounts(made.consent_id, with_balance=True),
        lambda result: [len(account.balances) for account in result.accounts], [3],
    ),
    "balances": (
        lambda client, made: client.balances(made.consent_id, made.resource_id),
        lambda result: [balance.balance_amount.currency for balance in result.balances], ["EUR", "USD", "GBP"],
    ),
    "transactions": (
        lambda client, made: client.transactions(made.consent_id, made.resource_id, date_from=date(2020, 1, 1)),
        lambda result: len(result.transactions.booked), PAGE_SIZE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_endpoint_row_has_a_method_and_is_answered(name, run, made):
    call, shown, expected = CALLS[name]
    (result,) = run(lambda client: call(client, made))
    assert shown(result) == expected


def test_all_pages_together_have_each_entry_once(bank, identity, made):
    window = {"date_from": date(2020, 1, 1)}
    with Psd2Client(bank.addresses.psd2_url, identity=identity) as client:
        ids = [entry.transaction_id for entry in client.iter_transactions(made.consent_id, made.resource_id, **window)]
    assert len(set(ids)) == len(ids) > PAGE_SIZE

    async def read() -> list[Any]:
        async with AsyncPsd2Client(bank.addresses.psd2_url, identity=identity) as client:
            entries = client.iter_transactions(made.consent_id, made.resource_id, **window)
            return [entry.transaction_id async for entry in entries]

    assert asyncio.run(read()) == ids


def test_every_endpoint_row_is_a_method_of_both_clients_with_the_same_arguments():
    assert set(CALLS) == {row.name for row in PSD2.endpoints}

    def shape(client: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(client, inspect.isfunction)
        return {
            name: list(inspect.signature(method).parameters) for name, method in methods if not name.startswith("_")
        }

    sync, asynchronous = shape(Psd2Client), shape(AsyncPsd2Client)
    assert sync.pop("close") == asynchronous.pop("aclose")
    assert sync == asynchronous


def test_the_product_the_addresses_and_the_request_ids_are_those_that_are_given(run):
    instant = {"product": PaymentProduct.INSTANT}
    (initiated,) = run(lambda client: client.initiate_payment(PAYMENT, **instant))
    (status,) = run(lambda client: client.payment_status(initiated.payment_id, **instant))
    assert status.transaction_status == "RCVD"
    further = {"redirect_uri": "https://tpp.example/back?x=1", "psu_ip_address": "192.0.2.7"}
    (initiated,) = run(lambda client: client.initiate_payment(PAYMENT, **further))
    decide(initiated.links.sca_redirect.href, "approve")
    assert "https://tpp.example/back?x=1" in httpx.get(initiated.links.sca_redirect.href, trust_env=False).text
    fixed = uuid4()
    first, second = run(initiate, initiate, new_request_id=lambda: fixed)
    assert first == second


def test_an_identity_without_a_seal_cannot_initiate_and_sends_nothing(driver, bank, bank_pki, payment_id):
    qwac, anchors = bank_pki.qwac, [bank_pki.root.certificate]
    reader = Identity(qwac.certificate, qwac.key, chain=qwac.chain, server_anchors=anchors)
    with refused(LocalProtocolError, "seal.absent"):
        driver.run("https://localhost:9", reader, initiate)  # nobody listens there
    (status,) = driver.run(bank.addresses.psd2_url, reader, lambda client: client.payment_status(payment_id))
    assert status.transaction_status == "RCVD"


def test_one_client_serves_many_threads_and_leaves_the_http_client_that_it_was_given_open(bank, identity):
    with Psd2Client(bank.addresses.psd2_url, identity=identity) as client, ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda _: client.initiate_payment(PAYMENT).payment_id, range(24)))
    assert len(set(ids)) == 24
    with httpx.Client(verify=identity.tls_context, trust_env=False) as http:
        for _ in range(2):
            with Psd2Client(bank.addresses.psd2_url, identity=identity, http=http) as client:
                assert client.initiate_payment(PAYMENT).transaction_status == "RCVD"
        assert not http.is_closed


class Time:
    """Seconds that pass only while somebody waits; at each wait the next event happens."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._events = list(events)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        if self._events:
            self._events.pop(0)()

    def clock(self) -> float:
        return self.now


@pytest.fixture
def payment(bank: SandboxServer, identity: Identity) -> Any:
    with Psd2Client(bank.addresses.psd2_url, identity=identity) as client:
        return client.initiate_payment(PAYMENT)


@pytest.fixture
def wait(driver: Any, bank: SandboxServer, identity: Identity, ask: Ask) -> Callable[..., Any]:
    """The result of waiting for a payment of the sandbox, or of a bank that answers so; or its error."""

    def waited(payment_id: str, time: Time, *, answer: Answer | None = None, **options: Any) -> Any:
        def step(client: Any) -> Any:
            return client.wait_for_payment(payment_id, **options)

        timing = {"sleep": driver.waiting(time.sleep), "clock": time.clock}
        if answer is not None:
            return ask(answer, step, then_close=True, **timing)[0]
        return driver.run(bank.addresses.psd2_url, identity, caught(step), **timing)[0]

    return waited


def nothing() -> None: ...


def test_a_payment_is_polled_until_it_is_settled(wait, bank, payment):
    def settle() -> None:
        url = bank.addresses.control_url + "/clock/advance"
        httpx.post(url, json={"seconds": 10}, trust_env=False).raise_for_status()

    time = Time(nothing, lambda: decide(payment.links.sca_redirect.href, "approve"), settle)
    assert wait(payment.payment_id, time) == "ACSC"
    assert time.waits == [3.0] * 3


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        # Only the clock of the client moves, so the bank finds it too fast.
        pytest.param({"interval_s": 5.0, "wait_s": 22.0}, [5.0] * 4, marks=pytest.mark.earns("polled-too-fast")),
        ({"wait_s": 0.0}, []),
    ],
)
def test_waiting_ends_after_its_time(options, waits, wait, payment):
    error = wait(payment.payment_id, time := Time(), **options)
    assert (type(error), error.code, time.waits) == (TransportError, "payment.not-final", waits)


@pytest.mark.parametrize("answer", [http(429, retry_after="60"), http(200, b"{}", content_length="50")])
def test_no_attempt_is_repeated_after_the_end(answer, wait):
    error = wait("any", time := Time(), answer=answer, interval_s=6.0, wait_s=10.0)
    assert isinstance(error, RequestRefused | TransportError)
    assert sum(time.waits) <= 10.0


@pytest.mark.parametrize("state", ["RCVD", "ACTC", "ACSP", "PATC"])
def test_a_state_that_is_not_final_is_polled_again(state, driver, ask):
    answers = iter([as_json(200, {"transactionStatus": state}), as_json(200, {"transactionStatus": "ACSC"})])
    timing = {"sleep": driver.waiting((time := Time()).sleep), "clock": time.clock}
    result, bank = ask(lambda request: next(answers)(request), lambda client: client.wait_for_payment("any"), **timing)
    assert (result, len(bank.requests), bank.connections) == ("ACSC", 2, 1)
    assert bank.message(0).values("X-Request-ID") != bank.message(1).values("X-Request-ID")


@pytest.mark.parametrize("state", ["ACSC", "RJCT", "CANC"])
def test_every_final_state_and_a_refusal_end_the_waiting(state, wait):
    assert wait("any", time := Time(), answer=as_json(200, {"transactionStatus": state})) == state
    assert time.waits == []
    assert isinstance(wait("unknown", Time()), RequestRefused)
