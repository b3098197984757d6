"""An answer that cannot be tied to its request proves nothing about the payment, and its connection is closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from http_drivers import caught
from payments import INITIATED, PAYMENT
from rogue_bank import Answer, as_json, http, rogue_bank, server_context

from tppkit.client import Identity, make_async_client, make_client
from tppkit.errors import OutcomeUnknown

STRAY = "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11"
REFUSAL = {"tppMessages": [{"category": "ERROR", "code": "FORMAT_ERROR", "text": "no"}]}
REQUEST_ID = UUID("99391c7e-ad88-49ec-a2ad-99ddcb1f7721")


def pay(client: Any) -> Any:
    return client.initiate_payment(PAYMENT)


def pay_with_id(client: Any) -> Any:
    return client.initiate_payment(PAYMENT, request_id=REQUEST_ID)


def one_too_many(stray: Answer) -> Answer:
    """Answers each request of its first connection, and sends a stray answer with the first answer."""
    sent: list[bytes] = []

    def answer(request: bytes) -> bytes:
        sent.append(request)
        return as_json(201, INITIATED)(request) + (stray(request) if len(sent) == 1 else b"")

    return answer


STRAYS = {
    "refusal": as_json(400, REFUSAL, x_request_id=STRAY),
    "refusal without id": as_json(400, REFUSAL, x_request_id=""),
    "success": as_json(201, INITIATED, x_request_id=STRAY),
    "redirect": http(302, location="https://localhost:1/", x_request_id=STRAY),
    "empty refusal": http(503, x_request_id=""),
}


@pytest.mark.parametrize("name", STRAYS)
def test_an_extra_answer_is_not_read_as_the_refusal_of_the_next_payment(
    name: str, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    with rogue_bank(server_context(bank_pki_folder), one_too_many(STRAYS[name])) as bank:
        first, second, third = driver.run(bank.url, identity, pay, caught(pay_with_id), pay_with_id)
    assert (first.payment_id, third.payment_id) == ("p-1", "p-1")
    assert (type(second), second.code, second.request_id) == (OutcomeUnknown, "answer.request-id", str(REQUEST_ID))
    assert "may have been carried out" in second.message
    assert str(REQUEST_ID) in second.message
    assert bank.connections == 2
    assert bank.requests[1] == bank.requests[2]  # the repeat is the same request, byte for byte


@pytest.mark.parametrize("status", [400, 401, 502, 503, 504])
def test_the_error_of_a_proxy_is_not_a_refusal_of_the_bank(
    status: int, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    with rogue_bank(server_context(bank_pki_folder), http(status, b"<html>", x_request_id="")) as bank:
        (error,) = driver.run(bank.url, identity, caught(pay))
    assert (type(error), error.status) == (OutcomeUnknown, status)
    assert f"{status} without x-request-id" in error.message


def test_the_connection_is_closed_where_a_hook_has_read_the_answer(
    driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    def read(response: httpx.Response) -> None:
        response.read()

    async def read_async(response: httpx.Response) -> None:
        await response.aread()

    http_client: Any = make_async_client(identity) if driver.is_async else make_client(identity)
    http_client.event_hooks = {"response": [read_async if driver.is_async else read]}
    with rogue_bank(server_context(bank_pki_folder), one_too_many(STRAYS["refusal"])) as bank:
        steps = (pay, caught(pay), pay, lambda _: http_client.aclose() if driver.is_async else http_client.close())
        _, second, third, _ = driver.run(bank.url, identity, *steps, http=http_client)
    assert (type(second), third.payment_id) == (OutcomeUnknown, "p-1")
