"""Limits of a request, and its target exactly as sent: real sockets, one connection for each test."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from raw_provider import checked_sandbox

from tppkit.sandbox import SandboxServer, SandboxSettings
from tppkit.sandbox.http1 import MAX_HEAD_BYTES


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with checked_sandbox(SandboxSettings(tmp_path_factory.mktemp("bounds"))) as server:
        yield server


@pytest.fixture
def connection(bank: SandboxServer) -> Iterator[socket.socket]:
    """A connection to the approval host, which has the same HTTP protocol and no TLS before it."""
    port = int(bank.addresses.approval_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connected:
        yield connected


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(65536) == b""
    except ConnectionError:
        return True


CHUNKED = b"POST /approve/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", CHUNKED + b"X-A: ", CHUNKED + b"X"], ids=["header", "trailer", "its name"]
)  # fmt: skip
def test_an_endless_header_or_trailer_ends_the_connection(begin, connection):
    connection.sendall(begin)
    with suppress(ConnectionError):
        for _ in range(2 * MAX_HEAD_BYTES // 1024):
            connection.sendall(b"a" * 8192)
        while connection.recv(65536):  # the rest of an answer that the client may not see
            pass


@pytest.mark.parametrize(("excess", "status"), [(0, b"404"), (1, b"431")])
@pytest.mark.parametrize("method", [b"GET", b"FOO"])
def test_the_limit_of_a_head_is_exact(method, excess, status, connection):
    head = method + b" /nope HTTP/1.1\r\n" + HOST + CLOSE.replace(b"\r\n\r\n", b"\r\nX-A: ")
    connection.sendall(head + b"a" * (MAX_HEAD_BYTES + excess - len(head) - 4) + b"\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 " + status)


def test_a_head_that_is_far_too_long_is_answered_431(connection):
    connection.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"X-A: " + b"a" * (2 * MAX_HEAD_BYTES))
    assert connection.recv(65536).startswith(b"HTTP/1.1 431 ")


def test_each_head_within_the_limit_is_answered(connection):
    for _ in range(3):
        connection.sendall(b"GET /nope HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")
        answer = b""
        while not answer.endswith(b"Not Found"):
            answer += connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 404")


def test_a_request_that_never_ends_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr("tppkit.sandbox.http1.REQUEST_TIMEOUT_S", 0.3)
    with checked_sandbox(SandboxSettings(tmp_path)) as server:
        port = int(server.addresses.approval_url.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as silent,
            socket.create_connection(("127.0.0.1", port), timeout=10) as slow,
        ):
            slow.sendall(b"POST /approve/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
            assert ended(silent)
            assert ended(slow)


@pytest.fixture(params=["psd2", "approval", "control"])
def exchange(request: pytest.FixtureRequest, bank: SandboxServer) -> Callable[[bytes], bytes]:
    """Send bytes to one of the hosts, and return everything that it answers."""
    url = urlsplit(getattr(bank.addresses, f"{request.param}_url"))
    context = (
        ssl.create_default_context(cafile=Path(bank.addresses.pki) / "root.pem") if url.scheme == "https" else None
    )

    def exchanged(raw: bytes) -> bytes:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", url.port or 0), timeout=10))
            if context is not None:
                connection = opened.enter_context(context.wrap_socket(connection, server_hostname="localhost"))
            connection.sendall(raw)
            answer = b""
            with suppress(ConnectionError):
                while chunk := connection.recv(65536):
                    answer += chunk
            return answer

    return exchanged


HOST = b"Host: localhost\r\n"
CLOSE = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n" + CLOSE,
        b"GET http://localhost/ HTTP/1.1\r\n" + CLOSE,
        b"GET ftp://localhost/ HTTP/1.1\r\n" + HOST + CLOSE,
        b"GET http://user@localhost/ HTTP/1.1\r\n" + HOST + CLOSE,
        b"GET http://localhost:1@evil.example/ HTTP/1.1\r\n" + HOST + CLOSE,
        b"GET / HTTP/1.1\r\n" + HOST + HOST + CLOSE,
        b"GET / HTTP/2.0\r\n" + HOST + CLOSE,
        b"GET / HTTP/0.9\r\n" + HOST + CLOSE,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=[
        "no Host",
        "no Host, absolute",
        "absolute, ftp",
        "user",
        "user, password",
        "two Hosts",
        "HTTP/2.0",
        "HTTP/0.9",
        "HTTP/2 preface",
    ],
)
def test_a_request_that_is_not_http_1_is_answered_400(raw, exchange):
    assert exchange(raw).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n" + HOST + CLOSE, b"GET / HTTP/1.0\r\n" + HOST + b"\r\n"])
def test_http_1_with_one_host_is_answered(raw, exchange):
    assert exchange(raw)[9:12] in (b"200", b"401", b"404")


@pytest.mark.parametrize("method", [b"GET", b"FOO"])
@pytest.mark.parametrize("target", [b"/clock?x", b"/", b""])
def test_a_target_in_absolute_form_is_read_as_its_path(method, target, bank):
    def status(sent: bytes, host: bytes) -> bytes:
        port = int(bank.addresses.control_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(method + b" " + sent + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + CLOSE)
            return connection.recv(65536)[9:12]

    origin_form = status(target or b"/", b"localhost")
    assert status(b"http://localhost:8446" + target, b"localhost") == origin_form
    # The control host checks the name: that of the target, not the Host header (RFC 9112 section 3.2.2).
    assert status(b"HTTPS://[::1]" + target, b"evil.example") == origin_form
    assert status(b"http://evil.example" + target, b"localhost") == b"421"


def test_a_bad_request_behind_an_unanswered_one_gets_no_answer(exchange):
    answers = exchange(b"GET / HTTP/1.1\r\n" + HOST + b"\r\nGET / HTTP/1.1\r\n\r\n")
    assert b" 400 " not in answers


def test_a_method_that_the_parser_does_not_know_reaches_the_host_and_changes_no_later_request(connection):
    for method, status in ((b"FOO", b"405"), (b"GET", b"200"), (b"get", b"405"), (b"F-1", b"405"), (b"GET", b"200")):
        connection.sendall(method + b" / HTTP/1.1\r\n" + HOST + b"\r\n")
        head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
        assert head[9:12] == status
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)


def test_a_method_that_arrives_in_pieces_is_read_as_one(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in (b"GE", b"T / HTTP/1.1\r\n" + HOST + CLOSE):
        connection.sendall(piece)
        time.sleep(0.05)
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
