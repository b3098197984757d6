"""Waiting for a payment: polls at the given pace until it is final, or gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from payments import APPROVE, PAYMENT
from rogue_bank import as_json, http, rogue_bank, server_context

from refusals import refused
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


def wait(driver: Any, url: str, identity: Identity, payment_id: str, time: Time, **options: Any) -> Any:
    timing = {"sleep": driver.waiting(time.sleep), "clock": time.clock}
    (status,) = driver.run(url, identity, lambda client: client.wait_for_payment(payment_id, **options), **timing)
    return status


def decide(payment: Any, action: str) -> Callable[[], object]:
    return lambda: httpx.post(payment.links.sca_redirect.href, data={**APPROVE, "action": action}, trust_env=False)


def nothing() -> None: ...


def test_a_payment_is_polled_until_it_is_settled(
    driver: Any, bank: SandboxServer, identity: Identity, payment: Any
) -> None:
    def settle() -> None:
        url = bank.addresses.control_url + "/clock/advance"
        httpx.post(url, json={"seconds": 10}, trust_env=False).raise_for_status()

    time = Time(nothing, decide(payment, "approve"), settle)
    assert wait(driver, bank.addresses.psd2_url, identity, payment.payment_id, time) == "ACSC"
    assert time.waits == [3.0] * 3


def test_waiting_ends_after_its_time(driver: Any, bank: SandboxServer, identity: Identity, payment: Any) -> None:
    time = Time()
    with refused(TransportError, "payment.not-final"):
        wait(driver, bank.addresses.psd2_url, identity, payment.payment_id, time, interval_s=5.0, wait_s=22.0)
    assert time.waits == [5.0] * 4


@pytest.mark.parametrize("answer", [http(429, retry_after="60"), http(200, b"{}", content_length="50")])
def test_no_attempt_is_repeated_after_the_end(
    answer: Any, driver: Any, identity: Identity, bank_pki_folder: Any
) -> None:
    time = Time()
    with (
        rogue_bank(server_context(bank_pki_folder), answer, then_close=True) as bank,
        pytest.raises((RequestRefused, TransportError)),
    ):
        wait(driver, bank.url, identity, "any", time, interval_s=6.0, wait_s=10.0)
    assert sum(time.waits) <= 10.0


def test_no_time_to_wait_is_one_poll(driver: Any, bank: SandboxServer, identity: Identity, payment: Any) -> None:
    time = Time()
    with pytest.raises(TransportError):
        wait(driver, bank.addresses.psd2_url, identity, payment.payment_id, time, wait_s=0.0)
    assert time.waits == []


def test_a_refusal_ends_the_waiting(driver: Any, bank: SandboxServer, identity: Identity) -> None:
    with pytest.raises(RequestRefused):
        wait(driver, bank.addresses.psd2_url, identity, "unknown", Time())


@pytest.mark.parametrize("state", ["RCVD", "ACTC", "ACSP", "PATC"])
def test_a_state_that_is_not_final_is_polled_again(
    state: str, driver: Any, identity: Identity, bank_pki_folder: Any
) -> None:
    answers = iter([as_json(200, {"transactionStatus": state}), as_json(200, {"transactionStatus": "ACSC"})])
    with rogue_bank(server_context(bank_pki_folder), lambda request: next(answers, http(500))(request)) as bank:
        assert wait(driver, bank.url, identity, "any", Time()) == "ACSC"
    assert (len(bank.requests), bank.connections) == (2, 1)
    assert bank.message(0).values("X-Request-ID") != bank.message(1).values("X-Request-ID")


@pytest.mark.parametrize("state", ["ACSC", "RJCT", "CANC"])
def test_every_final_state_ends_the_waiting(state: str, driver: Any, identity: Identity, bank_pki_folder: Any) -> None:
    with rogue_bank(server_context(bank_pki_folder), as_json(200, {"transactionStatus": state})) as bank:
        assert wait(driver, bank.url, identity, "any", time := Time()) == state
    assert time.waits == []
