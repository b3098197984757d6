"""Hostile requests: no answer is a server error, and the log has none."""

from __future__ import annotations

import json
import logging
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_provider import PAYMENT, PAYMENTS, RawProvider, altered, tls_context

from tppkit.sandbox import SandboxServer
from tppkit.seals import Message
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
SEAL = ["Digest", "Signature", "TPP-Signature-Certificate", "X-Request-ID"]
NAMES = [*SEAL, "TPP-Redirect-URI", "Content-Type", "Accept", "Host"]
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60)

Exchange = Callable[..., bytes]


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.seen) < 5 and (record.levelno >= logging.ERROR or record.exc_info):
            self.seen.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


@pytest.fixture(autouse=True)
def no_errors() -> Iterator[None]:
    """After each test: nothing was logged at level ERROR, or with a traceback."""
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)
    assert handler.seen == []


@pytest.fixture(scope="module")
def exchange(bank: SandboxServer, bank_pki: Pki) -> Exchange:
    """Sends raw bytes over mutual TLS, 0.3 s between two parts, and gives what came back until the server closed or fell silent."""
    context = tls_context(bank_pki.qwac, bank_pki)
    url = urlsplit(bank.addresses.psd2_url)

    def exchanged(raw: bytes, *later: bytes, silence_s: float = 0.5) -> bytes:
        answer = b""
        with (
            socket.create_connection(("127.0.0.1", url.port or 0), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            try:
                connection.sendall(raw)
                for part in later:
                    time.sleep(0.3)
                    connection.sendall(part)
                connection.settimeout(silence_s)
                while chunk := connection.recv(65_536):
                    answer += chunk
            except (ConnectionError, TimeoutError, ssl.SSLError):
                pass
        return answer

    return exchanged


def only_status(answer: bytes) -> int:
    """The status of the one answer."""
    (status,) = statuses(answer)
    return status


def statuses(answer: bytes) -> set[int]:
    return {int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]}


def raw_request(tpp: RawProvider, message: Message) -> bytes:
    headers = "".join(f"{name}: {value}\r\n" for name, value in message.headers)
    head = f"{message.method} {message.target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}"
    return head.encode("latin-1") + b"Content-Length: %d\r\n\r\n" % len(message.body) + message.body


ABSOLUTE = "https://localhost" + PAYMENTS  # the path is what a seal covers


@pytest.mark.parametrize(
    ("signed", "sent", "status"),
    [
        *((target, target, 201) for target in (PAYMENTS, PAYMENTS + "?", PAYMENTS + "?x=%2F&y=")),
        *((PAYMENTS, target, 401) for target in (PAYMENTS + "?", PAYMENTS + "?x=1", PAYMENTS.replace("sepa", "sep%61"))),
        (PAYMENTS + "#f", PAYMENTS + "#f", 400), (PAYMENTS, ABSOLUTE, 201), (ABSOLUTE, ABSOLUTE, 401), (PAYMENTS, ABSOLUTE + "?", 401),
    ],
)  # fmt: skip
def test_a_seal_covers_the_path_and_query_on_the_wire(signed, sent, status, tpp, exchange):
    sealed = tpp.sealed(altered(tpp.message(), target=signed))
    assert only_status(exchange(raw_request(tpp, altered(sealed, target=sent)), silence_s=20)) == status


@pytest.mark.parametrize("paused", [True, False])
def test_trailers_are_ignored(paused, tpp, exchange):
    message = tpp.sealed(tpp.message())
    head, body = raw_request(tpp, message).split(b"\r\n\r\n", 1)
    head = head[: head.rindex(b"Content-Length")] + b"Transfer-Encoding: chunked\r\n\r\n"
    parts = [
        head + b"%x\r\n%s\r\n" % (len(body), body),
        b"0\r\nContent-Encoding: gzip\r\nX-Request-ID: other\r\nScript-Name: /x\r\n\r\n",
    ]
    answer = exchange(*parts if paused else [b"".join(parts)], silence_s=20)
    assert only_status(answer) == 201
    repeated = tpp.send(message)
    assert (repeated.status_code, repeated.content) == (201, answer.split(b"\r\n\r\n", 1)[1])


def test_flipped_bytes_of_a_good_request_do_no_harm(tpp, exchange):
    chance = random.Random(1)
    for _ in range(150):
        raw = bytearray(raw_request(tpp, tpp.sealed(tpp.message())))
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        answer = exchange(bytes(raw))
        assert not any(status >= 500 for status in statuses(answer)), bytes(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\0" * 1000,
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://evil.example/psd2/v1/payments/x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /%zz%00\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x: y\r\n" * 5000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST " + PAYMENTS.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nabc",
        b"POST " + PAYMENTS.encode() + b" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_malformed_http_does_no_harm(raw, exchange):
    assert not any(status >= 500 for status in statuses(exchange(raw)))


@given(headers=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6), body=st.binary(max_size=100))
def test_headers_of_any_value_do_no_harm(headers, body, tpp, exchange):
    message = Message("POST", PAYMENTS, (("X-Request-ID", str(uuid4())), *headers), body)
    assert only_status(exchange(raw_request(tpp, message), silence_s=20)) in (400, 401)


@given(name=st.sampled_from(SEAL), value=VALUES)
def test_one_part_of_the_seal_of_any_value_is_refused(name, value, tpp, exchange):
    sealed = tpp.sealed(tpp.message())
    changed = altered(sealed, headers=tuple((n, value if n == name else v) for n, v in sealed.headers))
    assert only_status(exchange(raw_request(tpp, changed), silence_s=20)) in (400, 401)


@given(body=JSON)
def test_sealed_json_of_any_kind_is_refused(body, tpp):
    response = tpp.initiate(json.dumps(body).encode())
    assert response.status_code == 400


@given(name=st.sampled_from([*PAYMENT, "further", "payment_id", "links"]), value=JSON)
def test_a_payment_with_a_field_of_any_value_is_accepted_or_refused(name, value, tpp):
    response = tpp.initiate(json.dumps({**PAYMENT, name: value}).encode())
    assert response.status_code in (201, 400)
    if response.status_code == 201:
        payment = response.json()
        assert tpp.request("GET", payment["_links"]["self"]["href"]).status_code == 200
        assert httpx.get(payment["_links"]["scaRedirect"]["href"], trust_env=False).status_code == 200


SEGMENTS = ["psd2", "v1", "payments", "sepa-credit-transfers", "status", "..", "%2e%2e", "%2F", "", "a", "%00"]


@given(segments=st.lists(st.sampled_from(SEGMENTS), max_size=7))
def test_a_path_of_any_kind_does_no_harm(segments, tpp, exchange):
    message = Message("GET", "/" + "/".join(segments), (("X-Request-ID", str(uuid4())),))
    assert only_status(exchange(raw_request(tpp, message), silence_s=20)) in (400, 403, 404, 405)


def test_a_caller_that_leaves_in_the_middle_does_no_harm(tpp, exchange):
    raw = raw_request(tpp, tpp.sealed(tpp.message()))
    for length in range(0, len(raw), 97):
        exchange(raw[:length], silence_s=0.001)
    assert tpp.initiate().status_code == 201
