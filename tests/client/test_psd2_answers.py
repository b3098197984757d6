"""Answers that are not of the interface, and connections that fail: each is one of our errors, and nothing is followed."""

from __future__ import annotations

import re
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from http_drivers import Ask
from payments import INITIATED, PAYMENT
from rogue_bank import Answer, as_json, http, rogue_bank, server_context, zipped

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Identity, make_async_client, make_client
from tppkit.client.answers import MAX_ANSWER_BYTES
from tppkit.errors import FormatError, OutcomeUnknown, RemoteProtocolError, RequestRefused, TppkitError, TransportError
from tppkit.testpki import make_pki, write_pki

pytestmark = pytest.mark.slow

STATUS = {"transactionStatus": "RCVD"}


def cancel(client: Any) -> Any:
    """A call that is sent once, whatever becomes of it."""
    return client.cancel_payment("any")


def pay(client: Any) -> Any:
    return client.initiate_payment(PAYMENT)


def status(client: Any) -> Any:
    return client.payment_status("any")


@pytest.fixture
def failure(ask: Ask) -> Callable[..., Any]:
    """The error that a request ends with when the bank answers like that; exactly one request was sent."""

    def failed(answer: Answer, step: Any = cancel, **options: Any) -> TppkitError:
        error, bank = ask(answer, step, **options)
        assert (isinstance(error, TppkitError), len(bank.requests)) == (True, 1)
        return error

    return failed


BODIES: list[tuple[bytes, str]] = [
    (b"<html></html>", "json.malformed"),
    (b"\xff\xfe", "json.malformed"),
    (b'{"transactionStatus":"RCVD","transactionStatus":"ACSC"}', "json.duplicate-name"),
    (b"[" * 1000, "json.too-deep"),
    (b"{}", "model.invalid"),
    (b"[]", "model.invalid"),
    (b'{"transactionStatus":7}', "model.invalid"),
    (b'{"transactionStatus":null}', "model.invalid"),
    (b'{"transactionStatus":"RCVD"}'.ljust(70_000), "json.too-large"),
]
ECHOES = ("", "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11", "garbage")
REDIRECTS = [http(code, location="https://localhost:1/elsewhere") for code in (301, 302, 303, 304, 307, 308)]
NOT_HTTP: list[Answer] = [
    lambda _: b"",
    lambda _: b"garbage\r\n\r\n",
    http(200, b"{}", content_length="50"),
    http(200, b"zz\r\n", content_length="", transfer_encoding="chunked"),
    lambda _: b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
]


@pytest.mark.parametrize(
    ("answer", "step", "kind", "code"),
    [
        *((answer, cancel, RemoteProtocolError, "answer.redirect") for answer in REDIRECTS),
        *((http(code), status, RemoteProtocolError, "answer.status") for code in (201, 202, 204)),
        *((as_json(200, STATUS, x_request_id=echo), cancel, OutcomeUnknown, "answer.request-id") for echo in ECHOES),
        *((http(200, body), status, FormatError, code) for body, code in BODIES),
        *((http(200, body), cancel, OutcomeUnknown, "answer.unreadable") for body, _ in BODIES),
        *((http(201, body), pay, OutcomeUnknown, "answer.unreadable") for body, _ in BODIES),
        *((answer, cancel, TransportError, "transport.failed") for answer in NOT_HTTP),
    ],
)
def test_an_answer_that_is_not_the_promised_one_is_an_error(answer, step, kind, code, failure):
    error = failure(answer, step, then_close=kind is TransportError)
    assert (type(error), error.code) == (kind, code)


def test_an_echo_in_another_case_is_accepted(ask):
    answered, _ = ask(lambda request: as_json(200, STATUS)(request.upper()), cancel)
    assert answered.transaction_status == "RCVD"


REFUSALS = [b"<html>no</html>", b"[]", b"{}", b'{"tppMessages":[]}', b'{"tppMessages":[7]}', b"\xff" * 100_000]


@pytest.mark.parametrize(
    ("code", "body"), [(400, body) for body in REFUSALS] + [(code, b"") for code in (401, 404, 409, 429)]
)
def test_an_error_without_the_interfaces_body_is_still_a_refusal(code, body, failure):
    error = failure(http(code, body))
    assert isinstance(error, RequestRefused)
    assert (error.status, error.peer_code, error.peer_text) == (code, None, None)


def test_the_text_of_a_refusal_is_shortened_and_made_safe(failure):
    text = "\x1b[31m\nforged line" + "x" * 5000
    error = failure(as_json(400, {"tppMessages": [{"category": "ERROR", "code": "C" * 500, "text": text}]}))
    assert isinstance(error, RequestRefused)
    assert len(str(error)) < 600
    assert str(error).isprintable()


@pytest.mark.parametrize("size", [MAX_ANSWER_BYTES + 1, 3 * MAX_ANSWER_BYTES])
@pytest.mark.parametrize("code", [200, 400])
def test_an_answer_that_is_too_large_leaves_the_outcome_open(code, size, failure):
    error = failure(http(code, b" " * size))
    assert (type(error), error.code, error.status) == (OutcomeUnknown, "answer.too-large", None)
    assert "ask for the payment's status" in error.message


def test_an_answer_that_unpacks_to_too_much_does_not_fill_the_memory(failure):
    answer = zipped(60_000_000)
    tracemalloc.start()
    try:
        error = failure(answer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(error, OutcomeUnknown | RemoteProtocolError)
    assert peak < 4 * MAX_ANSWER_BYTES


def test_a_bank_that_does_not_finish_the_handshake_is_given_up(driver, identity):
    with socket.create_server(("127.0.0.1", 0)) as mute, refused(TransportError, "transport.timeout"):
        driver.run(f"https://localhost:{mute.getsockname()[1]}", identity, cancel, timeout_s=0.3)


@pytest.mark.parametrize(
    ("server_of", "clients_of", "name", "text"),
    [
        ("other", None, "localhost", "(?i)certificate.*pass the authority.* as server_anchors=.*; nothing was sent"),
        ("bank", None, "127.0.0.2", "nothing was sent"),
        # The server refuses our certificate: in TLS 1.3, its alert comes after the request.
        ("bank", "other", "localhost", "may have been carried out"),
    ],
)
def test_a_server_without_mutual_trust_gets_no_request(
    server_of: str, clients_of: str | None, name: str, text: str | None, driver: Any, identity: Identity,
    bank_pki_folder: Path, tmp_path: Path,
) -> None:  # fmt: skip
    write_pki(make_pki(at=utc_now(), seed=23), tmp_path / "other")
    folders = {"bank": bank_pki_folder, "other": tmp_path / "other"}
    context = server_context(folders[server_of], client_anchors=clients_of and folders[clients_of] / "root.pem")
    address = name if name != "localhost" else "127.0.0.1"
    with (
        rogue_bank(context, as_json(200, STATUS), address=address, name=name) as bank,
        refused(TransportError, "transport.failed", match=text),
    ):
        driver.run(bank.url, identity, cancel)
    assert bank.requests == []


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
def test_an_extra_answer_is_not_read_as_the_refusal_of_the_next_payment(name, ask):
    first, second, third, bank = ask(one_too_many(STRAYS[name]), pay, pay_with_id, pay_with_id)
    assert (first.payment_id, third.payment_id) == ("p-1", "p-1")
    assert (type(second), second.code, second.request_id) == (OutcomeUnknown, "answer.request-id", str(REQUEST_ID))
    assert "may have been carried out" in second.message
    assert str(REQUEST_ID) in second.message
    assert bank.connections == 2
    sent, again = (re.sub(rb'signature="[^"]*"', b"", request) for request in bank.requests[1:])
    assert sent == again  # but for the value of the new signature


@pytest.mark.parametrize("status", [400, 401, 502, 503, 504])
def test_the_error_of_a_proxy_is_not_a_refusal_of_the_bank(status, ask):
    error, _ = ask(http(status, b"<html>", x_request_id=""), pay)
    assert (type(error), error.status) == (OutcomeUnknown, status)
    assert f"{status} without x-request-id" in error.message
    assert ("does the address belong to a PSD2 interface?" in error.message) == (status == 401)


def test_the_connection_is_closed_where_a_hook_has_read_the_answer(driver, identity, ask):
    async def read_async(response: httpx.Response) -> None:
        await response.aread()

    passed: Any = make_async_client(identity) if driver.is_async else make_client(identity)
    passed.event_hooks = {"response": [read_async if driver.is_async else lambda response: response.read()]}
    steps = (pay, pay, pay, lambda _: passed.aclose() if driver.is_async else passed.close())
    _, second, third, *_ = ask(one_too_many(STRAYS["refusal"]), *steps, http=passed)
    assert (type(second), third.payment_id) == (OutcomeUnknown, "p-1")
