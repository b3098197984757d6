"""Waiting for a payment: polls at the given pace until it is final, or gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from http_drivers import Ask, caught
from payments import APPROVE, PAYMENT
from rogue_bank import Answer, as_json, http

from tppkit.client import Identity, Psd2Client
from tppkit.errors import RequestRefused, TransportError
from tppkit.sandbox import SandboxServer


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


def decide(payment: Any, action: str) -> Callable[[], object]:
    return lambda: httpx.post(payment.links.sca_redirect.href, data={**APPROVE, "action": action}, trust_env=False)


def nothing() -> None: ...


def test_a_payment_is_polled_until_it_is_settled(wait: Any, bank: SandboxServer, payment: Any) -> None:
    def settle() -> None:
        url = bank.addresses.control_url + "/clock/advance"
        httpx.post(url, json={"seconds": 10}, trust_env=False).raise_for_status()

    time = Time(nothing, decide(payment, "approve"), settle)
    assert wait(payment.payment_id, time) == "ACSC"
    assert time.waits == [3.0] * 3


@pytest.mark.parametrize(
    ("options", "waits"), [({"interval_s": 5.0, "wait_s": 22.0}, [5.0] * 4), ({"wait_s": 0.0}, [])]
)
def test_waiting_ends_after_its_time(options: Any, waits: list[float], wait: Any, payment: Any) -> None:
    error = wait(payment.payment_id, time := Time(), **options)
    assert (type(error), error.code, time.waits) == (TransportError, "payment.not-final", waits)


@pytest.mark.parametrize("answer", [http(429, retry_after="60"), http(200, b"{}", content_length="50")])
def test_no_attempt_is_repeated_after_the_end(answer: Answer, wait: Any) -> None:
    error = wait("any", time := Time(), answer=answer, interval_s=6.0, wait_s=10.0)
    assert isinstance(error, RequestRefused | TransportError)
    assert sum(time.waits) <= 10.0


def test_a_refusal_ends_the_waiting(wait: Any) -> None:
    assert isinstance(wait("unknown", Time()), RequestRefused)


@pytest.mark.parametrize("state", ["RCVD", "ACTC", "ACSP", "PATC"])
def test_a_state_that_is_not_final_is_polled_again(state: str, driver: Any, ask: Ask) -> None:
    answers = iter([as_json(200, {"transactionStatus": state}), as_json(200, {"transactionStatus": "ACSC"})])
    timing = {"sleep": driver.waiting((time := Time()).sleep), "clock": time.clock}
    result, bank = ask(lambda request: next(answers)(request), lambda client: client.wait_for_payment("any"), **timing)
    assert (result, len(bank.requests), bank.connections) == ("ACSC", 2, 1)
    assert bank.message(0).values("X-Request-ID") != bank.message(1).values("X-Request-ID")


@pytest.mark.parametrize("state", ["ACSC", "RJCT", "CANC"])
def test_every_final_state_ends_the_waiting(state: str, wait: Any) -> None:
    assert wait("any", time := Time(), answer=as_json(200, {"transactionStatus": state})) == state
    assert time.waits == []
