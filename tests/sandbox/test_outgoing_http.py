"""Requests that the sandbox sends: rejected addresses, and limits for hostile receivers over TLS."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from raw_provider import server_context

from refusals import refused
from tppkit.errors import FormatError, TransportError
from tppkit.sandbox.outgoing_http import MAX_ANSWER_BYTES, OutgoingHttp, Received, Receivers, receivers_tls
from tppkit.testpki import Issued, Pki, certificate_pem, make_pki
from tppkit.testpki.profiles import authority_name

pytestmark = pytest.mark.slow

HOST = "receiver.example"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PRIVATE = [
    "127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::a00:1",
    "2002:7f00:1::", "2002:a00:1::", "192.0.0.8", "::ffff:192.0.0.9", "not an address",
]  # fmt: skip


ANYWHERE = receivers_tls()  # reading the system's authorities takes a while


def resolving(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def answer_with(status: str, *headers: str, body: bytes = b"") -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body)

    return answer


@pytest.fixture(scope="module")
def receiver(bank_pki: Pki) -> Issued:
    return bank_pki.issue_server(HOST, label="receiver")


class Receiver:
    """A server over TLS, which keeps the requests that it got."""

    def __init__(self, folder: Path, pki: Pki, identity: Issued, answer: Answer) -> None:
        self.context = server_context(identity, folder)
        self.context.set_servername_callback(lambda socket, name, context: self.names.append(name))
        self.trusted = receivers_tls(certificate_pem(pki.root.certificate))
        self.names: list[str | None] = []
        self.requests: list[bytes] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
            self.requests.append(head + (await reader.readexactly(int(length[0].split(b":")[1])) if length else b""))
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    def call(
        self, path: str = "/cb/x", *, body: bytes = b"", addresses: Sequence[str] = ("127.0.0.1",), timeout_s: float = 4,
        host: str = HOST, headers: Sequence[tuple[str, str]] = (), answer: Mapping[str, Any] | None = None, **rules: Any,
    ) -> Received:  # fmt: skip
        async def main() -> Received:
            async with self.running() as port:
                http = OutgoingHttp(
                    self.trusted, Receivers(**({"loopback": True} | rules)), resolve=resolving(*addresses)
                )
                method = "POST" if body else "GET"
                return await http.request(
                    method, f"https://{host}:{port}{path}", headers=headers, body=body, timeout_s=timeout_s, **(answer or {})
                )  # fmt: skip

        return asyncio.run(main())


@pytest.fixture
def serving(tmp_path: Path, bank_pki: Pki, receiver: Issued) -> Callable[..., Receiver]:
    def make(answer: Answer, identity: Issued = receiver) -> Receiver:
        return Receiver(tmp_path, bank_pki, identity, answer)

    return make


def refusal(call: Callable[[], Any]) -> TransportError:
    with pytest.raises(TransportError) as caught:
        call()
    return caught.value


def refusal_of(url: str, **options: Any) -> TransportError:
    """The error of a request to an address by a sandbox with these options."""
    resolve = options.pop("resolve", None)
    http = OutgoingHttp(ANYWHERE, Receivers(**options), resolve=resolve)
    return refusal(lambda: asyncio.run(http.request("GET", url, timeout_s=4)))


def test_a_request_arrives_as_it_is_written(serving):
    server = serving(
        answer_with("200 OK", "Content-Type: Application/JSON; charset=utf-8", "Content-Length: 2", body=b"{}")
    )
    received = server.call("/cb/a%2Fb?c=%41", body=b'{"a":1}', headers=[("requestid", "r-1")])
    assert received == Received(200, "application/json", b"{}")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /cb/a%2Fb?c=%41 HTTP/1.1"
    assert lines[1].startswith(f"Host: {HOST}:")
    assert lines[-1] == "requestid: r-1"
    assert (body, server.names) == (b'{"a":1}', [HOST])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (answer_with("204 No Content"), Received(204, "", b"")),
        (answer_with("200 OK", body=b"to the end"), Received(200, "", b"to the end")),
        (answer_with("200 OK", "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"), Received(200, "", b"{}")),
        (answer_with("103 Early Hints", "", "HTTP/1.1 200 OK", "Content-Length: 1", body=b"x"), Received(200, "", b"x")),
        (answer_with("302 Found", "Location: https://127.0.0.1/", "Content-Length: 0"), Received(302, "", b"")),
    ],
)  # fmt: skip
def test_answers_end_as_http_has_it_and_redirects_are_not_followed(answer, expected, serving):
    server = serving(answer)
    assert server.call() == expected
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (answer_with("200 OK", "Content-Length: 9", body=b"short"), "outgoing.failed"),
        (answer_with("200 OK", f"Content-Length: {MAX_ANSWER_BYTES}", body=bytes(MAX_ANSWER_BYTES)), "outgoing.too-large"),
        (answer_with("200 OK", "X: " + MAX_ANSWER_BYTES * "x"), "outgoing.too-large"),
        (answer_with("nothing"), "outgoing.failed"),
        (answer_with("101 Switching Protocols", "Upgrade: x", "Connection: upgrade"), "outgoing.failed"),
    ],
)  # fmt: skip
def test_an_answer_that_is_cut_off_too_long_or_none_is_refused(answer, code, serving):
    assert refusal(serving(answer).call).code == code


@pytest.mark.parametrize("piece", [b"", b"x"], ids=["silent", "endless"])
def test_the_time_is_for_everything(piece, serving):
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100):
            writer.write(piece)
            await asyncio.sleep(0.05)

    error = refusal(lambda: serving(slow).call(answer={"answer_s": 0.3}))
    assert (error.code, error.message) == ("outgoing.timeout", "no whole answer within 0.3 s")


async def _late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1.2)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.parametrize(("connect_s", "answer_s", "is_late"), [(4, 0.2, True), (1, 4, False)])
def test_the_answer_can_have_a_separate_timeout(connect_s, answer_s, is_late, serving):
    def call() -> Any:
        return serving(_late).call(timeout_s=connect_s, answer={"answer_s": answer_s})

    if is_late:
        assert refusal(call).message == f"no whole answer within {answer_s} s"
    else:
        assert call().status == 200


def test_a_body_that_is_of_no_use_is_not_waited_for(serving):
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"Content-Type: text/plain\r\n\r\n")
        await reader.read()

    assert serving(endless).call(answer={"with_body": False}).status == 201


async def test_a_receiver_that_never_finishes_the_handshake_ends_with_the_time():
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        writer.close()
        left.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    http, port = OutgoingHttp(ANYWHERE, Receivers(loopback=True)), server.sockets[0].getsockname()[1]
    with refused(TransportError, "outgoing.timeout", match=r"no connection within 0\.3 s"):
        await http.request("GET", f"https://localhost:{port}/", timeout_s=0.3)
    await left.wait()
    server.close()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("self-signed", "self-signed certificate"), ("expired", "certificate has expired"), ("name", "Hostname mismatch")],
)
def test_a_certificate_that_does_not_verify_gets_nothing(fault, reason, serving, bank_pki):
    long_ago = make_pki(at=datetime(2020, 1, 1, tzinfo=UTC), seed=11)
    identity = {
        "self-signed": bank_pki.issue(None, "self", "server", authority_name(HOST), ()),
        "expired": long_ago.issue_server(HOST, label="expired"),
        "name": bank_pki.issue_server("other.example", label="other"),
    }[fault]
    server = serving(answer_with("200 OK"), identity)
    if fault == "expired":
        server.trusted = receivers_tls(certificate_pem(long_ago.root.certificate))
    error = refusal(lambda: server.call(body=b"{}"))
    assert error.code == "outgoing.certificate"
    assert reason in error.message
    assert server.requests == []


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address, serving):
    server = serving(answer_with("200 OK"))
    assert refusal(lambda: server.call(addresses=[address], loopback=False)).code == "outgoing.refused"
    assert server.names == []


@pytest.mark.parametrize(
    "address", [one for one in PRIVATE if one not in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1")]
)
def test_loopback_allows_nothing_else(address):
    assert refusal_of(f"https://{HOST}/", loopback=True, resolve=resolving(address)).code == "outgoing.refused"


def test_the_addresses_of_a_refused_host_are_logged_and_not_reported(caplog):
    error = refusal_of(f"https://{HOST}/", resolve=resolving("10.1.2.3"))
    assert HOST in error.message
    assert "10.1.2.3" not in error.message
    assert "10.1.2.3" in caplog.text


def test_the_address_of_a_failed_connection_is_logged_and_not_reported(caplog):
    caplog.set_level("INFO")
    error = refusal_of(f"https://{HOST}:9/", loopback=True, resolve=resolving("127.0.0.3"))
    assert error.message == f"the connection fails: {os.strerror(errno.ECONNREFUSED)}"
    assert "127.0.0.3" in caplog.text


def test_networks_can_be_allowed_and_only_allowed_addresses_are_called(serving):
    server = serving(answer_with("204 No Content"))
    rules = {"loopback": False, "allow": [ip_network("127.0.0.1/32")]}
    assert server.call(addresses=["10.0.0.1", "::ffff:127.0.0.1", "127.0.0.1"], **rules).status == 204
    assert refusal(lambda: server.call(addresses=["127.0.0.2"], **rules)).code == "outgoing.refused"


def test_the_next_address_is_tried(serving):
    server = serving(answer_with("204 No Content"))
    assert server.call(addresses=["127.0.0.3", "127.0.0.1"]).status == 204


async def test_a_name_is_resolved_once(serving):
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    server = serving(answer_with("204 No Content"))
    async with server.running() as port:
        http = OutgoingHttp(server.trusted, Receivers(loopback=True), resolve=rebinding)
        assert (await http.request("GET", f"https://{HOST}:{port}", timeout_s=4)).status == 204
    assert asked == [HOST]
    assert server.requests[0].startswith(b"GET / HTTP/1.1\r\n")


async def test_slow_name_servers_delay_no_other_work(monkeypatch):
    answered = threading.Event()

    def slow(*args: Any, **more: Any) -> Any:
        answered.wait(10)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    http = OutgoingHttp(ANYWHERE)
    calls = [asyncio.create_task(http.request("GET", f"https://{HOST}/", timeout_s=0.2)) for _ in range(20)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await asyncio.to_thread(len, "")
        found = await asyncio.gather(*calls, return_exceptions=True)
    answered.set()
    assert {one.code for one in found if isinstance(one, TransportError)} == {"outgoing.timeout"}


@pytest.mark.parametrize("url", ["https://nowhere.invalid/", "https://localhost:9/"])
def test_a_host_that_is_not_found_and_a_closed_port_are_failures(url):
    assert refusal_of(url, loopback=True).code == "outgoing.failed"


@pytest.mark.parametrize(
    "url", ["http://a.example/", "https://u:p@a.example/", "https://a.example/#f", "https://2130706433/"]
)
def test_another_form_of_address_is_refused(url):
    with pytest.raises(FormatError):
        asyncio.run(OutgoingHttp(ANYWHERE, Receivers(loopback=True)).request("GET", url, timeout_s=1))
