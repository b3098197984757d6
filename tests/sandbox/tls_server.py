"""A server with mutual TLS in a thread, its certificates, and what it must leave behind: nothing."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from raw_provider import write_identity

from tppkit._clock import utc_now
from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.tls import ServerTls, TlsMode, make_http_protocol
from tppkit.testpki import Issued, Pki, certificate_pem, key_pem, make_pki
from tppkit.testpki.certificate import sign_draft
from tppkit.testpki.profiles import authority_name

GET = b"GET / HTTP/1.1\r\nhost: sandbox\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n"


def pems(issued: Issued) -> tuple[str, ...]:
    """A certificate and the chain that it is sent with."""
    return tuple(certificate_pem(one).decode() for one in (issued.certificate, *issued.chain))


@dataclass(frozen=True)
class Parties:
    """A PKI, the root of another one, and clients good and bad."""

    pki: Pki
    other_root: str
    clients: Mapping[str, Issued]
    folder: Path

    @property
    def root(self) -> str:
        return certificate_pem(self.pki.root.certificate).decode()

    @property
    def issuing(self) -> str:
        return certificate_pem(self.pki.qwac_ca.certificate).decode()

    def tls(self, **changes: Any) -> ServerTls:
        whole = ServerTls(
            certificate_pem="".join(pems(self.pki.server)).encode(),
            private_key_pem=key_pem(self.pki.server.key),
            client_anchors_pem=(self.root + self.issuing).encode(),
        )
        return replace(whole, **changes)

    def client(
        self, who: str | None = None, version: ssl.TLSVersion | None = None, alpn: tuple[str, ...] = ()
    ) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.root)
        if version:
            context.minimum_version = context.maximum_version = version
        if alpn:
            context.set_alpn_protocols(alpn)
        if who:
            context.load_cert_chain(write_identity(self.clients[who], self.folder))
        return context


@pytest.fixture(scope="module")
def parties(bank_pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Parties:
    other = make_pki(at=utc_now(), seed=12)
    past, future = (
        replace(bank_pki, not_before=bank_pki.not_before + timedelta(days=days), days=8) for days in (-9, 5)
    )
    drafted, forger = (
        bank_pki.draft("qwac", bank_pki.provider, label="forged"),
        replace(bank_pki.qwac_ca, key=other.qwac_ca.key),
    )
    clients = {
        "good": bank_pki.qwac,
        "leaf-only": replace(bank_pki.qwac, chain=()),
        "expired": past.issue_qwac(bank_pki.provider, label="expired"),
        "future": future.issue_qwac(bank_pki.provider, label="future"),
        "unknown-ca": replace(other.qwac, chain=()),
        "other-root": replace(other.qwac, chain=(*other.qwac.chain, other.root.certificate)),
        "server-auth": bank_pki.server,
        "two-faults": past.issue_server("localhost", label="two-faults"),
        "forged": sign_draft(drafted, forger, "forged", "qwac"),
        "self-signed": bank_pki.issue(None, "self-signed", "qwac", authority_name("self-signed"), ()),
    }
    other_root = certificate_pem(other.root.certificate).decode()
    return Parties(bank_pki, other_root, clients, tmp_path_factory.mktemp("clients"))


@dataclass
class Bank:
    """The application: it notes each scope, and answers according to the path."""

    scopes: list[dict[str, Any]] = field(default_factory=list)
    bytes_sent: int = 0
    disconnects: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append({**scope, "extensions": {k: dict(v) for k, v in scope["extensions"].items()}})
        scope["extensions"]["tls"]["client_cert_error"] = "spoilt by an earlier request"
        start = {"type": "http.response.start", "status": 200, "headers": []}
        if scope["path"] == "/early":
            await send(start)
            await self.read(receive)
            return
        if scope["path"] == "/deaf":
            await asyncio.to_thread(self.go_on.wait, 60)
        body = await self.read(receive)
        await send(start)
        if scope["path"] == "/large":
            await send({"type": "http.response.body", "body": bytes(5_000_000)})
        elif scope["path"] == "/endless":
            await self.pour(receive, send)
        elif scope["path"] == "/slow":
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": b"at last"})
        else:
            await send({"type": "http.response.body", "body": hashlib.sha256(body).hexdigest().encode()})

    async def read(self, receive: Any) -> bytes:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += bytes(message["body"])
            if not message["more_body"]:
                return body
        self.disconnects += 1
        return body

    async def pour(self, receive: Any, send: Any) -> None:
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
            self.bytes_sent += 10_000
            await asyncio.sleep(0)
        self.disconnects += 1


@dataclass
class Running:
    """A server that listens on `port`, and the protocol class it runs."""

    bank: Bank
    port: int
    protocol: Any
    server: uvicorn.Server
    thread: threading.Thread

    @property
    def live(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def tls_connect(self, context: ssl.SSLContext, **arguments: Any) -> ssl.SSLSocket:
        raw = self.connect()
        try:
            return context.wrap_socket(raw, server_hostname="127.0.0.1", **arguments)
        except BaseException:
            raw.close()
            raise

    def ask(self, context: ssl.SSLContext, request: bytes = LAST_GET) -> bytes:
        with self.tls_connect(context) as connection:
            connection.sendall(request)
            return read_all(connection)

    @property
    def objects(self) -> list[object]:
        """Connection objects that are still in memory."""
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is self.protocol]

    def emptied(self) -> Running:
        """Wait until connections of earlier tests are closed, and clear what the application recorded."""
        eventually(lambda: self.live == 0)
        self.bank.__init__()  # type: ignore[misc]
        return self

    def stop(self) -> float:
        """Ask the server to stop; return the seconds it took."""
        began = time.monotonic()
        self.server.should_exit = True
        self.thread.join(timeout=60)
        assert not self.thread.is_alive()
        return time.monotonic() - began


@contextmanager
def serving(tls: ServerTls, inner: type[BoundedHttp] = BoundedHttp, socket_buffer: int = 0) -> Iterator[Running]:
    """Run a server; afterwards no connection, task or protocol object of it may be left."""
    bank, protocol = Bank(), make_http_protocol(tls, inner=inner)
    listening = socket.create_server(("127.0.0.1", 0))
    if socket_buffer:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, socket_buffer)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, socket_buffer)
    config = uvicorn.Config(bank, http=protocol, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    running = Running(bank, listening.getsockname()[1], protocol, server, thread)
    try:
        eventually(lambda: server.started)
        yield running
    finally:
        running.stop()
        listening.close()
    assert running.live == 0
    assert server.server_state.connections == set()
    assert server.server_state.tasks == set()
    assert running.objects == []


def eventually(condition: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def read_answer(connection: socket.socket) -> bytes:
    """Read one chunked answer."""
    answer = bytearray()
    while not answer.endswith(b"\r\n0\r\n\r\n"):
        part = connection.recv(65536)
        assert part, answer[:200]
        answer += part
    return bytes(answer)


@pytest.fixture(scope="module")
def soft_server(parties: Parties) -> Iterator[Running]:
    with serving(parties.tls()) as running:
        yield running


@pytest.fixture(scope="module")
def strict_server(parties: Parties) -> Iterator[Running]:
    with serving(parties.tls(mode=TlsMode.STRICT)) as running:
        yield running


@pytest.fixture
def soft(soft_server: Running) -> Running:
    """A server for the tests that need no settings of their own, over either of uvicorn's protocols."""
    return soft_server.emptied()


@pytest.fixture
def strict(strict_server: Running) -> Running:
    return strict_server.emptied()


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Every line of our logger; no test may leave a traceback, or a complaint of asyncio or uvicorn."""
    caplog.set_level(logging.INFO)
    yield lambda: [r.getMessage() for r in caplog.records if r.name == "tppkit.sandbox.tls"]
    for record in caplog.get_records("call"):
        assert record.exc_info is None, record
        assert record.levelno < logging.ERROR, record
        slow = "took" in str(record.msg)  # asyncio's debug mode on a busy machine
        assert record.name != "asyncio" or record.levelno < logging.WARNING or slow, record
        assert record.name != "tppkit.sandbox.tls" or record.levelno == logging.INFO, record
