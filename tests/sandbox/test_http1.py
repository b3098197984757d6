"""Bounds of a request, and its target as it stood on the wire: real sockets, one connection a test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.sandbox.http1 import MAX_HEAD_BYTES


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    folder: Path = tmp_path_factory.mktemp("bounds")
    with run_sandbox(SandboxSettings(folder)) as server:
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


def test_an_endless_header_ends_the_connection(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
    sent = 0
    try:
        while sent < 16 * MAX_HEAD_BYTES:
            connection.sendall(b"a" * 8192)
            sent += 8192
    except ConnectionError:
        return
    assert ended(connection)


def test_a_head_within_the_limit_is_answered(connection: socket.socket) -> None:
    connection.sendall(b"GET /nope HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 404")


def test_a_second_request_has_the_whole_limit_again(connection: socket.socket) -> None:
    for _ in range(3):
        connection.sendall(b"GET /nope HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n")
        answer = b""
        while not answer.endswith(b"Not Found"):
            answer += connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 404")


def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tppkit.sandbox.http1.REQUEST_TIMEOUT_S", 0.3)
    with run_sandbox(SandboxSettings(tmp_path)) as server:
        port = int(server.addresses.approval_url.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as silent,
            socket.create_connection(("127.0.0.1", port), timeout=10) as slow,
        ):
            slow.sendall(b"POST /approve/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
            assert ended(silent)
            assert ended(slow)
