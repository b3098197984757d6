"""Answers that are not of the interface, and connections that fail: each is one of our errors, and nothing is followed."""

from __future__ import annotations

import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from rogue_bank import Answer, as_json, http, rogue_bank, server_context, zipped

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Identity
from tppkit.client.answers import MAX_ANSWER_BYTES
from tppkit.errors import FormatError, OutcomeUnknown, RemoteProtocolError, RequestRefused, TppkitError, TransportError
from tppkit.testpki import make_pki, write_pki

STATUS = {"transactionStatus": "RCVD"}


def cancel(client: Any) -> Any:
    """A call that is sent once, whatever becomes of it."""
    return client.cancel_payment("any")


@pytest.fixture
def failure(driver: Any, identity: Identity, bank_pki_folder: Path) -> Any:
    """The error that a request ends with when the bank answers like that; exactly one request was sent."""

    def failed(answer: Answer, step: Any = cancel, **options: Any) -> TppkitError:
        with rogue_bank(server_context(bank_pki_folder), answer) as bank, pytest.raises(TppkitError) as caught:
            driver.run(bank.url, identity, step, **options)
        assert len(bank.requests) == 1
        return caught.value

    return failed


@pytest.mark.parametrize("code", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_refused_and_not_followed(code: int, failure: Any) -> None:
    error = failure(http(code, location="https://localhost:1/elsewhere"))
    assert (type(error), error.code) == (RemoteProtocolError, "answer.redirect")


@pytest.mark.parametrize("code", [201, 202, 204])
def test_another_success_than_the_promised_one_is_refused(code: int, failure: Any) -> None:
    assert failure(http(code), lambda client: client.payment_status("any")).code == "answer.status"


@pytest.mark.parametrize(
    "echo", ["", "0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11", "garbage"], ids=["none", "another", "garbage"]
)
def test_an_answer_for_another_request_is_refused(echo: str, failure: Any) -> None:
    error = failure(as_json(200, STATUS, x_request_id=echo))
    assert (type(error), error.code) == (OutcomeUnknown, "answer.request-id")


def test_an_echo_in_another_case_is_accepted(driver: Any, identity: Identity, bank_pki_folder: Path) -> None:
    def shouted(request: bytes) -> bytes:
        return as_json(200, STATUS)(request.upper())

    with rogue_bank(server_context(bank_pki_folder), shouted) as bank:
        assert driver.run(bank.url, identity, cancel)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html></html>", "json.malformed"),
        (b"\xff\xfe", "json.malformed"),
        (b'{"transactionStatus":"RCVD","transactionStatus":"ACSC"}', "json.duplicate-name"),
        (b"[" * 1000, "json.too-deep"),
        (b"{}", "model.invalid"),
        (b"[]", "model.invalid"),
        (b'{"transactionStatus":7}', "model.invalid"),
        (b'{"transactionStatus":null}', "model.invalid"),
        (b'{"transactionStatus":"RCVD"}'.ljust(70_000), "json.too-large"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_a_body_that_is_not_the_promised_one_is_refused(body: bytes, code: str, failure: Any) -> None:
    error = failure(http(200, body))
    assert (type(error), error.code) == (FormatError, code)


BODIES = [b"<html>no</html>", b"[]", b"{}", b'{"tppMessages":[]}', b'{"tppMessages":[7]}', b"\xff" * 100_000]


@pytest.mark.parametrize(
    ("code", "body"), [(400, body) for body in BODIES] + [(code, b"") for code in (401, 404, 409, 429, 500, 503)]
)
def test_an_error_without_the_interfaces_body_is_still_a_refusal(code: int, body: bytes, failure: Any) -> None:
    error = failure(http(code, body))
    assert isinstance(error, RequestRefused)
    assert (error.status, error.peer_code, error.peer_text) == (code, None, None)


def test_the_text_of_a_refusal_is_shortened_and_made_safe(failure: Any) -> None:
    text = "\x1b[31m\nforged line" + "x" * 5000
    error = failure(as_json(400, {"tppMessages": [{"category": "ERROR", "code": "C" * 500, "text": text}]}))
    assert isinstance(error, RequestRefused)
    assert len(str(error)) < 600
    assert str(error).isprintable()


@pytest.mark.parametrize("size", [MAX_ANSWER_BYTES + 1, 3 * MAX_ANSWER_BYTES])
@pytest.mark.parametrize("code", [200, 400])
def test_an_answer_that_is_too_large_leaves_the_outcome_open(code: int, size: int, failure: Any) -> None:
    error = failure(http(code, b" " * size))
    assert (type(error), error.code, error.status) == (OutcomeUnknown, "answer.too-large", None)
    assert "ask for the payment's status" in error.message


def test_an_answer_that_unpacks_to_too_much_does_not_fill_the_memory(failure: Any) -> None:
    answer = zipped(60_000_000)
    tracemalloc.start()
    try:
        error = failure(answer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(error, FormatError | RemoteProtocolError)
    assert peak < 4 * MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: b"",
        lambda _: b"garbage\r\n\r\n",
        http(200, b"{}", content_length="50"),
        http(200, b"zz\r\n", content_length="", transfer_encoding="chunked"),
        lambda _: b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
    ],
    ids=["nothing", "garbage", "cut off", "no chunk", "endless head"],
)
def test_what_is_not_a_whole_http_answer_is_a_failed_connection(
    answer: Answer, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    with (
        rogue_bank(server_context(bank_pki_folder), answer, then_close=True) as bank,
        refused(TransportError, "transport.failed"),
    ):
        driver.run(bank.url, identity, cancel)
    assert len(bank.requests) == 1


def test_a_bank_that_does_not_finish_the_handshake_is_given_up(driver: Any, identity: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, refused(TransportError, "transport.timeout"):
        driver.run(f"https://localhost:{mute.getsockname()[1]}", identity, cancel, timeout_s=0.3)


def test_a_server_of_an_unknown_authority_is_not_called(
    driver: Any, identity: Identity, bank_pki_folder: Path, tmp_path: Path
) -> None:
    write_pki(make_pki(at=utc_now(), seed=23), tmp_path / "other")
    with (
        rogue_bank(server_context(tmp_path / "other"), as_json(200, STATUS)) as bank,
        pytest.raises(TransportError) as caught,
    ):
        driver.run(bank.url, identity, cancel)
    assert caught.value.code == "transport.failed"
    assert "certificate" in caught.value.message.lower()
    assert bank.requests == []


def test_a_server_of_another_name_is_not_called(driver: Any, identity: Identity, bank_pki_folder: Path) -> None:
    context = server_context(bank_pki_folder)
    answer = as_json(200, STATUS)
    with (
        rogue_bank(context, answer, address="127.0.0.2", name="127.0.0.2") as bank,
        refused(TransportError, "transport.failed"),
    ):
        driver.run(bank.url, identity, cancel)
    assert bank.requests == []


def test_a_server_that_refuses_our_certificate_is_a_failed_connection(
    driver: Any, identity: Identity, bank_pki_folder: Path, tmp_path: Path
) -> None:
    write_pki(make_pki(at=utc_now(), seed=23), tmp_path / "other")
    context = server_context(bank_pki_folder, client_anchors=tmp_path / "other" / "root.pem")
    with rogue_bank(context, as_json(200, STATUS)) as bank, refused(TransportError, "transport.failed"):
        driver.run(bank.url, identity, cancel)
    assert bank.requests == []
