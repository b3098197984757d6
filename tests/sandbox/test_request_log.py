"""The log: one line for each request, with its code, and without approval links."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx
import pytest
from raw_provider import PAYMENTS, OpenBank, advance, approval_link, decide

from tppkit._clock import utc_now
from tppkit.protocol.control import CONTROL_REFUSALS
from tppkit.protocol.refusals import Refusals
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.exchange import Exchange, Observed
from tppkit.sandbox.request_log import limited, line_writer, shown_target, without_secrets
from tppkit.web.sources import RAW_TARGET

UUID = "12345678-1234-1234-1234-123456789012"
TIME = "2026-06-01T12:00:00.123456+00:00"


class Logged(NamedTuple):
    """A sandbox and the lines that it wrote."""

    server: SandboxServer
    lines: list[str]


@pytest.fixture
def logged(open_bank: OpenBank) -> Iterator[Logged]:
    lines: list[str] = []
    with open_bank(log=lines.append) as server:
        yield Logged(server, lines)


def test_each_request_has_one_line(logged, connect):
    server, lines = logged
    caller = connect(server)
    payment = caller.new_payment()
    caller.send(caller.message())
    caller.request("GET", "/?a=b")
    decide(payment, "approve")
    advance(server, 1)
    httpx.post(server.addresses.control_url + "/clock/advance", json={"seconds": -1}, trust_env=False)
    assert lines == [
        f"POST {PAYMENTS} 201",
        f"POST {PAYMENTS} 401 SIGNATURE_MISSING",
        "GET /?a=b 404 RESOURCE_UNKNOWN",
        "POST /approve/*** 303",
        "GET /approve/*** 200",
        "POST /clock/advance 200",
        "POST /clock/advance 400 model.invalid",
    ]
    assert approval_link(payment).rpartition("/")[2] not in "".join(lines)


def test_a_closed_pipe_of_the_log_fails_no_request(open_bank):
    def gone(line: str) -> None:
        raise BrokenPipeError

    with open_bank(log=gone) as server:
        assert httpx.get(server.addresses.control_url + "/clock", trust_env=False).status_code == 200


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (b"/\xe2\x80\xaea\x1b[31m", "/%E2%80%AEa%1B[31m"),
        (b"/\x85\xa0\xff", "/%85%A0%FF"),
        (b"/a%0AGET%20/b", "/a%0AGET%20/b"),
        (b"/" + b"a" * 5000, "/" + "a" * 1023),
    ],
)
def test_a_target_cannot_forge_a_line(target, shown, logged):
    with socket.create_connection(("127.0.0.1", logged.server.ports["control"])) as raw:
        raw.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while raw.recv(4096):
            pass
    assert logged.lines in ([f"GET {shown} 404"], [])  # the server refuses control characters before any application


@pytest.mark.parametrize(
    "target", ["/approve/TOKEN", "/%61pprove/TOKEN", "//approve//TOKEN?x", "/approve%2FTOKEN", "/Approve%252fTOKEN", "http://localhost/approve/TOKEN"]
)  # fmt: skip
def test_a_token_is_never_shown(target):
    assert "TOKEN" not in without_secrets(target)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        # An access token is hidden, the uuid of a payment is not.
        ("/ais/TOKEN/BALANCE", "/ais/***/BALANCE"),
        ("/ais/TOKEN?x", "/ais/***?x"),
        ("/pis/TOKEN/TX/4711", "/pis/***/TX/4711"),
        ("/%61is//TOKEN/LIST", "/%61is//***/LIST"),
        ("/pis%2FTOKEN%2FTX/4711", "/pis%2F***/4711"),
        ("/legacy/access/TOKEN/approve", "/legacy/access/***/approve"),
        # Only the host of a login code is shown.
        ("/scan?LOGIN%3Ashop.example%2Flogin%2FSECRET", "/scan?LOGIN%3Ashop.example***"),
        ("/scan?LOGIN%3ashop.example:8443/SECRET", "/scan?LOGIN%3ashop.example***"),
        ("/scan?LOGIN:shop.example/it's?SECRET", "/scan?LOGIN:shop.example***"),
        ("/scan?%4cOGIN%253Ashop.example%252FSECRET", "/scan?%4cOGIN%253Ashop.example***"),
        ("/app?code=LOGIN%3A%5B::1%5D%2FSECRET&host=live", "/app?code=LOGIN%3A***"),
        ("a login code begins with LOGIN:, not 'TX:'", "a login code begins with LOGIN:, not 'TX:'"),
        # Card numbers and tokens of pages are hidden, IBANs and ids are not.
        ("/v1/orders/4111111111111111/", "/v1/orders/***/"),
        ("/v1/orders/%34111111111111%2531/", "/v1/orders/***/"),
        ("/x?a=4222222222222&b=1", "/x?a=***&b=1"),
        ("/x?iban=DE89370400440532013000", "/x?iban=DE89370400440532013000"),
        (f"/v1/orders/{UUID}/", f"/v1/orders/{UUID}/"),
        ("/4111-1111-1111-1111", "/***"),
        ("/v1/orders/4111%201111%201111%252D1111/", "/v1/orders/***/"),
        ("/x?card=4111+1111.1111_1111&a=b", "/x?card=***&a=b"),
        ("/pan4111111111111111END", "/pan***END"),
        ("/PA41111111111/AB12ABCDE41111111_11111111", "/PA41111111111/AB12ABCDE***"),
        (f"/{UUID}/4111111111111111", f"/{UUID}/***"),
        (f"/{UUID}4111", "/***"),
        ("/x?iban=DE00370400440532013000", "/x?iban=DE***"),  # its check digits are wrong
        (f"/x?at={TIME}&amount=999999999.99", f"/x?at={TIME}&amount=999999999.99"),
        ("/gateway/orders/TOKEN", "/gateway/orders/***"),
        ("/%67ateway/links%2FTOKEN?x", "/%67ateway/links%2F***?x"),
        (f"/gateway/orders/{UUID}/pay", f"/gateway/orders/{UUID}/pay"),
        # Parameters with a name of secrets, also below an encoded address.
        (
            "/v1/orders/?api_key=ab.c%26d;e&pan=4111%201111%201111%201111&page=2",
            "/v1/orders/?api_key=***&pan=***&page=2",
        ),
        ("/clock?access_token=KEY", "/clock?access_token=***"),
        ("/clock?%61ccess%255Ftoken=KEY&x=1", "/clock?%61ccess%255Ftoken=***&x=1"),
        ("/a?next=https%3A%2F%2Fb%3Fc%3D1%26token%3DKEY&x=1", "/a?next=https%3A%2F%2Fb%3Fc%3D1%26token%3D***&x=1"),
        ("/a;token=KEY?b&cvv2=739&Client-Secret==K=E", "/a;token=***&cvv2=***&Client-Secret==***"),
        ("token=KEY&exp_month=12", "token=***&exp_month=***"),
        (
            "/a?dateFrom=2026-06-01&bookingStatus=both&fields=id,state",
            "/a?dateFrom=2026-06-01&bookingStatus=both&fields=id,state",
        ),
        # Numbers after a card number belong to it.
        ("/v1/4111111111111111/739/x", "/v1/***/x"),
        ("/v1/4111111111111111%2F12%2F%330%252f0739", "/v1/***"),
        ("4111111111111111=30121", "***"),
        # An organisation identifier in hexadecimal is no card number, unless it contains one.
        ("CA=2.5.4.97=#0c0f4e54524c542d313233343536373839,O=a", "CA=2.5.4.97=#0c0f4e54524c542d313233343536373839,O=a"),
        ("2.5.4.97=#0c1034313131313131313131313131313131", "2.5.4.97=#0c***"),
        ("2.5.4.97=#4111111111111111", "2.5.4.97=#***"),
    ],
)
def test_secrets_of_a_target_are_not_shown(target, shown):
    assert without_secrets(target) == shown


def test_hostile_texts_take_no_long_time_to_mask():
    start = time.process_time()
    for part in ("=", "%3d", "%25", "a=", "token=%3D", "4", "4111111111111111/7", "1%2f", "=#0c7f", "a%3Da"):
        without_secrets(part * (65_536 // len(part)))
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("host", "row", "target", "shown"),
    [
        ("legacy", None, b"/acc/0123456789abcdef0123456789abcdef/LIST", "/acc/***/LIST"),
        ("legacy_live", None, b"/tx/%61" + b"b" * 30 + b"?token=f&x=" + b"c" * 40, "/tx/***?token=***&x=***"),
        ("legacy", "pay", b"/pis/TOKEN/TX/" + b"a" * 24, "/pis/***/TX/" + "a" * 24),
        ("psd2", None, b"/psd2/v1/payment/" + b"a" * 24, "/psd2/v1/payment/" + "a" * 24),
    ],
)
def test_a_wrong_path_with_a_legacy_token_does_not_show_it(host, row, target, shown):
    exchange = Exchange(
        host=host, at=datetime.now(UTC), started_s=0, method="GET", target=target.decode(), headers=(), row=row
    )
    assert shown_target(exchange) == shown


def test_the_reason_of_a_refusal_does_not_show_a_token_either(logged, connect, caplog):
    payment = connect(logged.server).new_payment()
    token = approval_link(payment).rpartition("/")[2]
    connect(logged.server).request("GET", f"/approve/{token}")
    assert logged.lines[-1] == "GET /approve/*** 404 RESOURCE_UNKNOWN"
    assert token not in caplog.text
    assert "endpoint.unknown" in caplog.text


def lines_of(app: Any, refusals: Refusals) -> list[str]:
    """What is logged of a request to an application."""

    async def send(event: object) -> None: ...

    lines: list[str] = []
    scope = {"type": "http", "method": "GET", "headers": [], "extensions": {RAW_TARGET: {"target": b"/"}}}
    observed = Observed(app, host="control", refusals=refusals, observers=[line_writer(lines.append)], now=utc_now)
    with suppress(ZeroDivisionError):
        asyncio.run(observed(scope, None, send))  # type: ignore[arg-type]  # no body is read
    return lines


def test_an_application_that_fails_is_answered_500_by_the_server():
    async def fails(scope: object, receive: object, send: object) -> None:
        raise ZeroDivisionError

    assert lines_of(fails, CONTROL_REFUSALS) == ["GET / 500"]


def test_the_code_is_read_as_the_interface_writes_it():
    async def refuses(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400})
        await send({"type": "http.response.body", "body": b'{"why":', "more_body": True})
        await send({"type": "http.response.body", "body": b'"BAD"}'})

    refusals = Refusals(rows=(), write=lambda _: b"", find=lambda body: (body["why"], None))
    assert lines_of(refuses, refusals) == ["GET / 400 BAD"]


def test_the_latest_requests_are_listed_with_verdict_and_code(logged, connect):
    caller = connect(logged.server)
    caller.new_payment()
    caller.send(caller.message())
    httpx.get(logged.server.addresses.approval_url, trust_env=False)
    answer = httpx.get(logged.server.addresses.control_url + "/requests", trust_env=False).json()
    shown = [(one["method"], one["target"], one["status"], one["verdict"], one["code"]) for one in answer]
    assert shown == [("POST", PAYMENTS, 401, "fails", "SIGNATURE_MISSING"), ("POST", PAYMENTS, 201, "holds", None)]
    assert "signature.missing" in answer[0]["text"]


def test_of_lines_about_connections_twenty_are_written_in_thirty_seconds():
    stream = io.StringIO()
    limit = limited(logging.StreamHandler(stream))
    for name, at in (("tls", 0.0), ("http", 1.0), ("host", 2.0), ("tls", 30.0)):
        for _ in range(15):
            limit.handle(
                logging.makeLogRecord(
                    {"created": at, "levelno": 30, "name": f"tppkit.sandbox.{name}", "msg": f"{name} ended"}
                )
            )
    held = "10 more lines such as this were held back: http ended\n"
    assert (
        stream.getvalue() == "tls ended\n" * 15 + "http ended\n" * 5 + "host ended\n" * 15 + held + "tls ended\n" * 15
    )
