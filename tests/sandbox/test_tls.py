"""Mutual TLS in front of uvicorn, driven over loopback sockets by real TLS clients."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import hashlib
import ipaddress
import logging
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL

from tppkit.errors import ConfigurationError
from tppkit.sandbox import tls as tls_module
from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.tls import ServerTls, TlsMode, make_http_protocol
from tppkit.testpki import profiles

pytestmark = pytest.mark.filterwarnings("error")

BOTH = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
VERSIONS = pytest.mark.parametrize("version", BOTH, ids=["1.2", "1.3"])
GET = b"GET / HTTP/1.1\r\nhost: sandbox\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n"
EXPIRED = "certificate has expired (X509 error 10 at depth 0)"
FORGED = "certificate signature failure (X509 error 7 at depth 0)"
PURPOSE = "unsuitable certificate purpose (X509 error 26 at depth 0)"
UNKNOWN = "unable to get local issuer certificate (X509 error 20 at depth 0)"


# --- certificates -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Party:
    """A certificate with its key, and the chain it is sent with, leaf first."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    sent: tuple[x509.Certificate, ...]

    @property
    def pems(self) -> tuple[str, ...]:
        return tuple(c.public_bytes(Encoding.PEM).decode() for c in self.sent)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_party(
    name: str,
    *,
    issuer: Party | None = None,
    ca: bool = False,
    usage: x509.ObjectIdentifier | None = None,
    days: tuple[int, int] = (-2, 30),
    signed_by: Party | None = None,
    send_issuers: bool = True,
) -> Party:
    """Make a P-256 certificate; `signed_by` forges: the issuer's name, someone else's signature."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if not ca:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_IDENTIFIER, "PSDDE-BAFIN-123456"))
    subject = x509.Name(attributes)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    key_usage, _ = profiles.key_usage("key_cert_sign" if ca else "digital_signature")
    extensions: list[x509.ExtensionType] = [
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer.key if issuer else key).public_key()),
        *([x509.ExtendedKeyUsage([usage])] if usage else []),
        *([] if ca else [address]),
    ]
    builder = builder.add_extension(key_usage, critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signer = signed_by or issuer
    certificate = builder.sign(signer.key if signer else key, hashes.SHA256())
    return Party(certificate, key, (certificate, *(issuer.sent if issuer and send_issuers else ())))


@dataclass(frozen=True)
class Pki:
    """Everyone in the tests: two authorities, the server, and clients good and bad."""

    root: Party
    issuing: Party
    other_root: Party
    server: Party
    clients: dict[str, Party]
    folder: Path

    def tls(self, **changes: Any) -> ServerTls:
        whole = ServerTls(
            certificate_pem="".join(self.server.pems).encode(),
            private_key_pem=self.server.key_pem,
            client_anchors_pem=(self.root.pems[0] + self.issuing.pems[0]).encode(),
        )
        return replace(whole, **changes)

    def client(
        self,
        who: str | None = None,
        version: ssl.TLSVersion | None = None,
        alpn: tuple[str, ...] = (),
    ) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.root.pems[0])
        if version:
            context.minimum_version = context.maximum_version = version
        if alpn:
            context.set_alpn_protocols(alpn)
        if who:
            path = self.folder / f"{who}.pem"
            path.write_bytes(self.clients[who].key_pem + "".join(self.clients[who].pems).encode())
            context.load_cert_chain(path)
        return context


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    client_auth, server_auth = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    root = make_party("root", ca=True)
    issuing = make_party("issuing", issuer=root, ca=True, send_issuers=False)
    other_root = make_party("other root", ca=True)
    clients = {
        "good": make_party("good", issuer=issuing, usage=client_auth),
        "leaf-only": make_party("leaf-only", issuer=issuing, usage=client_auth, send_issuers=False),
        "expired": make_party("expired", issuer=issuing, usage=client_auth, days=(-9, -1)),
        "future": make_party("future", issuer=issuing, usage=client_auth, days=(5, 9)),
        "unknown-ca": make_party("unknown-ca", issuer=other_root, usage=client_auth, send_issuers=False),
        "other-root": make_party("other-root", issuer=other_root, usage=client_auth),
        "server-auth": make_party("server-auth", issuer=issuing, usage=server_auth),
        "two-faults": make_party("two-faults", issuer=issuing, usage=server_auth, days=(-9, -1)),
        "forged": make_party("forged", issuer=issuing, usage=client_auth, signed_by=other_root),
        "self-signed": make_party("self-signed", usage=client_auth),
    }
    server = make_party("sandbox", issuer=issuing, usage=server_auth)
    return Pki(root, issuing, other_root, server, clients, tmp_path_factory.mktemp("clients"))


# --- a server in a thread, and what it must leave behind: nothing ------------------------------------------


@dataclass
class Bank:
    """The application: it notes each scope, and answers according to the path."""

    scopes: list[dict[str, Any]] = field(default_factory=list)
    bytes_sent: int = 0
    disconnects: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append({**scope, "extensions": {k: dict(v) for k, v in scope["extensions"].items()}})
        scope["extensions"]["tls"]["client_cert_name"] = "spoilt by an earlier request"
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


def key_update_requests(secret: bytes) -> Iterator[bytes]:
    """Records of a client that asks for new keys again and again (RFC 8446 sections 4.6.3, 5.2, 7.2, 7.3)."""

    def expand(label: bytes, length: int) -> bytes:
        info = length.to_bytes(2, "big") + bytes([len(label) + 6]) + b"tls13 " + label + b"\x00"
        return HKDFExpand(hashes.SHA384(), length, info).derive(secret)

    header = b"\x17\x03\x03\x00\x16"
    while True:
        key_update = b"\x18\x00\x00\x01\x01" + b"\x16"  # update_requested, content type handshake
        yield header + AESGCM(expand(b"key", 32)).encrypt(expand(b"iv", 12), key_update, header)
        secret = expand(b"traffic upd", 48)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture(scope="module")
def soft_server(pki: Pki) -> Iterator[Running]:
    with serving(pki.tls()) as running:
        yield running


@pytest.fixture(scope="module")
def strict_server(pki: Pki) -> Iterator[Running]:
    with serving(pki.tls(mode=TlsMode.STRICT)) as running:
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


# --- soft: everyone comes in, the application sees who ------------------------------------------------------


@VERSIONS
def test_the_application_sees_the_certificate(pki: Pki, soft: Running, version: ssl.TLSVersion) -> None:
    context = pki.client("good", version)
    with soft.tls_connect(context) as connection:
        cipher = connection.cipher()
        connection.sendall(LAST_GET)
        assert b"200 OK" in read_all(connection)
    (scope,) = soft.bank.scopes
    assert cipher is not None
    assert scope["scheme"] == "https"
    assert scope["extensions"]["tls"] == {
        "server_cert": pki.server.pems[0],
        "client_cert_chain": pki.clients["good"].pems,
        "client_cert_name": "2.5.4.97=PSDDE-BAFIN-123456,CN=good",
        "client_cert_error": None,
        "tls_version": {ssl.TLSVersion.TLSv1_2: 0x0303, ssl.TLSVersion.TLSv1_3: 0x0304}[version],
        "cipher_suite": next(c["id"] & 0xFFFF for c in context.get_ciphers() if c["name"] == cipher[0]),
    }


def test_a_client_without_certificate_is_accepted_and_recognised(pki: Pki, soft: Running) -> None:
    assert b"200 OK" in soft.ask(pki.client())
    seen = soft.bank.scopes[0]["extensions"]["tls"]
    assert seen["server_cert"] == pki.server.pems[0]
    assert (seen["client_cert_chain"], seen["client_cert_name"], seen["client_cert_error"]) == (
        (),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("leaf-only", None),
        ("expired", EXPIRED),
        ("future", "certificate is not yet valid (X509 error 9 at depth 0)"),
        ("unknown-ca", f"{UNKNOWN}; unable to verify the first certificate (X509 error 21 at depth 0)"),
        ("other-root", "self-signed certificate in certificate chain (X509 error 19 at depth 1)"),
        ("self-signed", "self-signed certificate (X509 error 18 at depth 0)"),
        ("server-auth", PURPOSE),
        ("forged", FORGED),
        ("two-faults", f"{PURPOSE}; {EXPIRED}"),
    ],
)
def test_a_faulty_certificate_is_accepted_and_recognised(pki: Pki, soft: Running, who: str, error: str | None) -> None:
    assert b"200 OK" in soft.ask(pki.client(who))
    seen = soft.bank.scopes[0]["extensions"]["tls"]
    assert seen["client_cert_chain"] == pki.clients[who].pems
    assert seen["client_cert_error"] == error


def test_a_certificate_that_only_openssl_reads_has_no_name(pki: Pki, soft: Running) -> None:
    der = bytearray(pki.clients["good"].certificate.public_bytes(Encoding.DER))
    der[der.index(b"\xa0\x03\x02\x01\x02") + 4] = 7  # "version 8"
    odd = ssl.DER_cert_to_PEM_cert(bytes(der))
    context, path = pki.client(), pki.folder / "odd.pem"
    path.write_bytes(pki.clients["good"].key_pem + odd.encode())
    context.load_cert_chain(path)
    assert b"200 OK" in soft.ask(context)
    seen = soft.bank.scopes[0]["extensions"]["tls"]
    assert (seen["client_cert_chain"], seen["client_cert_name"]) == ((odd,), None)
    assert "X509 error" in seen["client_cert_error"]


def test_without_a_root_each_authority_is_trusted_by_itself(pki: Pki) -> None:
    with serving(pki.tls(client_anchors_pem=pki.issuing.pems[0].encode())) as running:
        running.ask(pki.client("leaf-only"))
    assert running.bank.scopes[0]["extensions"]["tls"]["client_cert_error"] is None


def test_an_intermediate_beside_another_root_is_not_trusted_by_itself(pki: Pki) -> None:
    anchors = (pki.issuing.pems[0] + pki.other_root.pems[0]).encode()
    with serving(pki.tls(client_anchors_pem=anchors)) as running:
        running.ask(pki.client("leaf-only"))
    error = running.bank.scopes[0]["extensions"]["tls"]["client_cert_error"]
    assert error == "unable to get issuer certificate (X509 error 2 at depth 1)"


def test_the_server_sends_its_intermediates(pki: Pki) -> None:
    with serving(pki.tls(client_anchors_pem=pki.other_root.pems[0].encode())) as running:
        assert b"200 OK" in running.ask(pki.client())  # which knows the root only


# --- strict: the handshake rejects, with a reason ------------------------------------------------------------


@VERSIONS
def test_strict_accepts_a_good_certificate(pki: Pki, strict: Running, version: ssl.TLSVersion) -> None:
    assert b"200 OK" in strict.ask(pki.client("good", version))
    seen = strict.bank.scopes[0]["extensions"]["tls"]
    assert (seen["client_cert_chain"], seen["client_cert_error"]) == (pki.clients["good"].pems, None)


REFUSALS = [
    (None, "peer did not return a certificate", ("HANDSHAKE_FAILURE", "CERTIFICATE_REQUIRED")),
    ("expired", EXPIRED, ("CERTIFICATE_EXPIRED",) * 2),
    ("unknown-ca", UNKNOWN, ("UNKNOWN_CA",) * 2),
    (
        "server-auth",
        PURPOSE,
        ("UNSUPPORTED_CERTIFICATE",) * 2,
    ),
    ("forged", FORGED, ("DECRYPT_ERROR",) * 2),
]


@pytest.mark.parametrize(("who", "reason", "alerts"), REFUSALS, ids=[str(row[0]) for row in REFUSALS])
@VERSIONS
def test_strict_refuses_with_the_alert_and_one_log_line(
    pki: Pki,
    strict: Running,
    log: Any,
    who: str | None,
    reason: str,
    alerts: tuple[str, str],
    version: ssl.TLSVersion,
) -> None:
    with pytest.raises(ssl.SSLError) as refused:
        strict.ask(pki.client(who, version))
    eventually(lambda: strict.live == 0)
    assert str(refused.value.reason).endswith("ALERT_" + alerts[version is ssl.TLSVersion.TLSv1_3])
    (line,) = log()
    assert line.startswith("TLS connection from 127.0.0.1 port ")
    assert reason in line
    assert strict.bank.scopes == []


def test_the_alert_survives_a_client_that_is_still_sending(pki: Pki, strict: Running) -> None:
    with strict.tls_connect(pki.client(version=ssl.TLSVersion.TLSv1_3)) as connection:
        for _ in range(20):
            connection.sendall(bytes(20_000))
            time.sleep(0.005)
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            connection.recv(1)


def test_a_refused_client_that_stays_is_cut_off(strict: Running) -> None:
    with strict.connect() as connection:
        eventually(lambda: strict.live == 1)
        connection.sendall(b"\x16\x03\x01garbage")
        assert read_all(connection)[:1] == b"\x15"  # the alert, and the end
        eventually(lambda: strict.live == 0)


# --- what is negotiated -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offer", "chosen"),
    [((), None), (("h2", "http/1.1"), "http/1.1"), (("http/1.1",), "http/1.1")],
)
def test_alpn_is_http_1_1(pki: Pki, soft: Running, offer: tuple[str, ...], chosen: str | None) -> None:
    with soft.tls_connect(pki.client(alpn=offer)) as connection:
        assert connection.selected_alpn_protocol() == chosen


def test_a_client_that_wants_only_http_2_gets_an_alert(pki: Pki, soft: Running, log: Any) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)alert.no.application.protocol"):
        soft.tls_connect(pki.client(alpn=("h2",)))
    assert log()[0].endswith("no application protocol in common")


def test_tls_1_1_is_refused(soft: Running, log: Any) -> None:
    hello = b"\x03\x02" + bytes(32) + b"\x00" + b"\x00\x04\xc0\x09\xc0\x13" + b"\x01\x00"
    message = b"\x01" + len(hello).to_bytes(3, "big") + hello
    with soft.connect() as connection:
        connection.sendall(b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
        alert = read_all(connection)
    assert (alert[0], alert[5:]) == (21, b"\x02\x46")  # fatal, protocol_version (70)
    assert log()[0].endswith("unsupported protocol")


@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES128-SHA", "AES128-SHA"])
def test_weak_tls_1_2_suites_are_refused(pki: Pki, soft: Running, suite: str) -> None:
    context = pki.client(version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(suite)
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        soft.tls_connect(context)


@VERSIONS
def test_no_session_is_resumed(pki: Pki, soft: Running, version: ssl.TLSVersion) -> None:
    context = pki.client("good", version)
    with soft.tls_connect(context) as first:
        first.sendall(LAST_GET)
        read_all(first)
        session = first.session
    if version is ssl.TLSVersion.TLSv1_2:
        assert session is None or (not session.has_ticket and session.id == b"")
    with soft.tls_connect(context, session=session) as second:
        assert not second.session_reused
        second.sendall(LAST_GET)
        read_all(second)
    chains = [scope["extensions"]["tls"]["client_cert_chain"] for scope in soft.bank.scopes]
    assert chains == [pki.clients["good"].pems] * 2


@contextmanager
def openssl_client(running: Running, version: int) -> Iterator[SSL.Connection]:
    """A client of pyOpenSSL, for what the ssl module does not show."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(version)
    context.set_max_proto_version(version)
    with running.connect() as raw:
        raw.settimeout(None)
        connection = SSL.Connection(context, raw)
        connection.set_connect_state()
        yield connection


def test_renegotiation_is_refused(soft: Running) -> None:
    with openssl_client(soft, SSL.TLS1_2_VERSION) as connection:
        connection.do_handshake()
        connection.renegotiate()
        with pytest.raises(SSL.Error, match="no renegotiation"):
            connection.do_handshake()


@pytest.mark.parametrize("mode", [TlsMode.SOFT, TlsMode.STRICT])
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_no_list_of_issuers_is_sent(soft: Running, strict: Running, mode: TlsMode, version: int) -> None:
    with openssl_client(soft if mode is TlsMode.SOFT else strict, version) as connection:
        with suppress(SSL.Error):
            connection.do_handshake()
        assert connection.get_peer_certificate() is not None
        assert connection.get_client_ca_list(as_cryptography=True) == []


# --- HTTP over it -------------------------------------------------------------------------------------------


def test_two_requests_share_a_connection_but_not_their_scope(pki: Pki, soft: Running) -> None:
    with soft.tls_connect(pki.client("good")) as connection:
        for _ in range(2):
            connection.sendall(GET)
            assert b"200 OK" in read_answer(connection)
        first, second = soft.bank.scopes
    assert first["client"] == second["client"]
    assert first["extensions"] == second["extensions"]
    assert first["extensions"]["tls"]["client_cert_name"] == "2.5.4.97=PSDDE-BAFIN-123456,CN=good"


def test_answers_are_not_held_back_for_acknowledgements(pki: Pki, soft: Running) -> None:
    with soft.tls_connect(pki.client()) as connection:
        connection.sendall(GET)
        read_answer(connection)
        (served,) = soft.server.server_state.connections
        accepted = served.transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_pipelined_requests_are_all_answered(pki: Pki, soft: Running) -> None:
    answers = soft.ask(pki.client(), GET * 30 + LAST_GET)
    assert answers.count(b"HTTP/1.1 200 OK") == 31
    assert len(soft.bank.scopes) == 31


def test_a_large_answer_arrives_whole(pki: Pki, soft: Running) -> None:
    with httpx.Client(verify=pki.client("good")) as client:
        for _ in range(2):
            answer = client.get(f"https://127.0.0.1:{soft.port}/large")
            assert answer.content == bytes(5_000_000)


def test_a_large_upload_arrives_whole(pki: Pki, soft: Running) -> None:
    body = random.Random(1).randbytes(2_000_000)
    with httpx.Client(verify=pki.client("good")) as client:
        for _ in range(2):
            answer = client.post(f"https://127.0.0.1:{soft.port}/", content=body)
            assert answer.text == hashlib.sha256(body).hexdigest()


def test_bytes_that_trickle_in_one_by_one_are_put_together(pki: Pki, soft: Running) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = pki.client("good").wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with soft.connect() as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def trickle() -> None:
            for byte in outgoing.read():
                raw.sendall(bytes([byte]))

        while True:
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            trickle()
            incoming.write(raw.recv(65536))
        tls.write(LAST_GET)
        trickle()
        assert len(read_all(raw)) > 150
    assert len(soft.bank.scopes) == 1


def test_both_ends_close_tls(pki: Pki, soft: Running) -> None:
    connection = soft.tls_connect(pki.client())
    connection.sendall(LAST_GET)
    assert b"200 OK" in read_all(connection)  # an end without close_notify would raise
    connection.unwrap().close()


def test_a_client_that_closes_tls_is_disconnected(pki: Pki, soft: Running) -> None:
    connection = soft.tls_connect(pki.client())
    connection.sendall(GET)
    read_answer(connection)
    connection.unwrap().close()
    eventually(lambda: soft.live == 0)


# --- hostile and unlucky peers ------------------------------------------------------------------------------


def test_the_application_waits_for_a_client_that_does_not_read(pki: Pki, log: Any) -> None:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    with serving(pki.tls(handshake_timeout_s=1), socket_buffer=16_384) as running:
        raw.connect(("127.0.0.1", running.port))
        with pki.client().wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET /endless HTTP/1.1\r\nhost: sandbox\r\n\r\n")
            eventually(lambda: running.bank.disconnects == 1)
    assert 0 < running.bank.bytes_sent < 1_000_000
    (line,) = log()
    assert "unread" in line


def test_a_client_that_requests_new_keys_but_does_not_read_is_disconnected(pki: Pki, log: Any) -> None:
    context, keys = pki.client(version=ssl.TLSVersion.TLSv1_3), pki.folder / "keys"
    context.keylog_filename = str(keys)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with serving(pki.tls(), socket_buffer=16_384) as running:
        raw.connect(("127.0.0.1", running.port))
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            assert connection.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
            secret = bytes.fromhex(keys.read_text().split("CLIENT_TRAFFIC_SECRET_0 ")[1].split()[1])
            with socket.socket(fileno=socket.dup(connection.fileno())) as wire, suppress(ConnectionError):
                wire.settimeout(5)
                for request in islice(key_update_requests(secret), 20_000):
                    wire.sendall(request)
        eventually(lambda: running.live == 0)
    (line,) = log()
    assert line.endswith("asks for more than it reads")


def test_a_slow_reader_gets_everything(pki: Pki, log: Any) -> None:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    received = 0
    with serving(pki.tls(handshake_timeout_s=1), socket_buffer=16_384) as running:
        raw.connect(("127.0.0.1", running.port))
        with pki.client().wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n")
            while part := connection.recv(16_384):
                received += len(part)
                time.sleep(0.005)
    assert received > 5_000_000
    assert log() == []


def test_a_client_that_read_everything_may_then_pause(pki: Pki, log: Any) -> None:
    tls, context = pki.tls(handshake_timeout_s=1), pki.client()
    with serving(tls, socket_buffer=65_536) as running, running.tls_connect(context) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        assert len(read_answer(connection)) > 5_000_000
        time.sleep(1.5)
        connection.sendall(GET)
        assert b"200 OK" in read_answer(connection)
    assert log() == []


def test_the_client_waits_for_an_application_that_does_not_read(pki: Pki) -> None:
    raw, sent = socket.socket(), 0
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    with serving(pki.tls(), socket_buffer=16_384) as running:
        raw.connect(("127.0.0.1", running.port))
        with pki.client().wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"POST /deaf HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9000000\r\n\r\n")
            connection.settimeout(1)
            with suppress(TimeoutError):
                while sent < 9_000_000:
                    sent += connection.send(bytes(10_000))
            running.bank.go_on.set()
            assert 65_536 < sent < 1_000_000


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"], ids=["none", "half"])
def test_an_unfinished_handshake_times_out(pki: Pki, log: Any, sent: bytes) -> None:
    with serving(pki.tls(handshake_timeout_s=0.2)) as running, running.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""
        eventually(lambda: running.live == 0)
    (line,) = log()
    assert line.endswith("handshake timeout")


def test_the_timeout_is_over_after_the_handshake(pki: Pki) -> None:
    with (
        serving(pki.tls(handshake_timeout_s=1)) as running,
        running.tls_connect(pki.client()) as connection,
    ):
        time.sleep(1.2)
        connection.sendall(GET)
        assert b"200 OK" in read_answer(connection)


def test_a_client_that_leaves_early_is_one_log_line(soft: Running, log: Any) -> None:
    soft.connect().close()
    eventually(log)
    eventually(lambda: soft.live == 0)
    (line,) = log()
    assert line.endswith("closed by the client during the handshake")


def test_plain_http_is_rejected(pki: Pki, soft: Running, log: Any) -> None:
    with soft.connect() as connection:
        connection.sendall(GET)
        assert b"HTTP" not in read_all(connection)
    assert b"200 OK" in soft.ask(pki.client())
    (line,) = log()
    assert line.endswith("http request")


def test_garbage_does_no_harm(pki: Pki, soft: Running) -> None:
    chance = random.Random(20)
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        pki.client().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="127.0.0.1").do_handshake()
    valid = hello.read()
    for turn in range(200):
        noise = bytearray(valid if turn % 2 else chance.randbytes(chance.randint(1, 2000)))
        for _ in range(turn % 7):
            noise[chance.randrange(len(noise))] = chance.randrange(256)
        with soft.connect() as connection, suppress(ConnectionError):
            connection.sendall(noise)
            if turn % 3:
                connection.shutdown(socket.SHUT_WR)
    eventually(lambda: soft.live == 0)
    assert b"200 OK" in soft.ask(pki.client("good"))


def test_garbage_after_the_handshake_ends_the_connection(pki: Pki, soft: Running, log: Any) -> None:
    with soft.tls_connect(pki.client()) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9\r\n\r\n")
        eventually(lambda: soft.bank.scopes)
        with socket.socket(fileno=socket.dup(connection.fileno())) as raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                connection.recv(1)
    eventually(lambda: soft.bank.disconnects == 1)
    (line,) = log()
    assert "bad record" in line


def test_a_record_longer_than_allowed_ends_the_connection(soft: Running, log: Any) -> None:
    with soft.connect() as connection:
        connection.sendall(b"\x16\x03\x01\xff\xff" + bytes(300_000))
        assert read_all(connection)[:1] == b"\x15"  # an alert
    eventually(lambda: soft.live == 0)
    assert len(log()) == 1


def test_a_malformed_chunk_after_the_answer_began_leaves_no_traceback(pki: Pki, soft: Running) -> None:
    head = b"POST /early HTTP/1.1\r\nhost: sandbox\r\ntransfer-encoding: chunked\r\n\r\n"
    with soft.tls_connect(pki.client()) as connection:
        connection.sendall(head)
        assert b"200 OK" in connection.recv(1000)
        connection.sendall(b"ZZZ\r\n")
        with suppress(OSError):
            read_all(connection)
        eventually(lambda: soft.live == 0)


@pytest.mark.parametrize("moment", ["connect", "hello", "handshake", "idle", "upload", "answer"])
def test_a_reset_leaves_nothing_behind(pki: Pki, soft: Running, moment: str) -> None:
    if moment in ("connect", "hello"):
        connection = soft.connect()
        connection.sendall(b"\x16\x03\x01\x02\x00\x01" if moment == "hello" else b"")
    else:
        connection = soft.tls_connect(pki.client("good"))
    if moment == "idle":
        connection.sendall(GET)
        read_answer(connection)
    elif moment == "upload":
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 900000\r\n\r\n")
        connection.sendall(bytes(90_000))
        eventually(lambda: soft.bank.scopes)
    elif moment == "answer":
        connection.sendall(b"GET /endless HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        connection.recv(1000)
    eventually(lambda: soft.live == 1)
    reset(connection)
    eventually(lambda: soft.live == 0)
    eventually(lambda: soft.objects == [], within_s=4)  # sooner than uvicorn's keep-alive timer of 5 s
    assert b"200 OK" in soft.ask(pki.client("good"))


def test_a_client_that_stops_sending_disconnects_the_application(pki: Pki, soft: Running) -> None:
    with soft.tls_connect(pki.client("good")) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: sandbox\r\ncontent-length: 9\r\n\r\n")
        eventually(lambda: soft.bank.scopes)
        connection.shutdown(socket.SHUT_WR)  # TCP end without close_notify
        eventually(lambda: soft.bank.disconnects == 1 and soft.live == 0)


class _AtMostTwo(BoundedHttp):
    max_connections = 2


def test_a_connection_beyond_the_limit_replaces_the_one_that_is_idle_the_longest(pki: Pki) -> None:
    with ExitStack() as opened:
        running = opened.enter_context(serving(pki.tls(), _AtMostTwo))
        idle, used = (opened.enter_context(running.tls_connect(pki.client())) for _ in range(2))
        for each in (idle, used):
            each.sendall(GET)
            read_answer(each)
        assert b"200 OK" in running.ask(pki.client())
        with suppress(OSError):
            assert idle.recv(1) == b""
        used.sendall(GET)
        assert b"200 OK" in read_answer(used)
        for _ in range(3):  # handshakes that are not finished are idle, too
            opened.enter_context(running.connect())
        assert b"200 OK" in running.ask(pki.client())


def test_a_connection_beyond_the_limit_is_closed_if_all_are_in_use(pki: Pki, log: Any) -> None:
    with ExitStack() as opened:
        running = opened.enter_context(serving(pki.tls(), _AtMostTwo))
        busy = [opened.enter_context(running.tls_connect(pki.client())) for _ in range(2)]
        for each in busy:
            each.sendall(b"GET /slow HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        eventually(lambda: len(running.bank.scopes) == 2)
        with running.connect() as third, suppress(ConnectionError):
            assert third.recv(1) == b""
        assert all(b"at last" in read_answer(each) for each in busy)
    assert log()[0].endswith("too many connections")


# --- the end ------------------------------------------------------------------------------------------------


def test_the_server_stops_quickly_with_connections_in_every_state(pki: Pki) -> None:
    with serving(pki.tls()) as running:
        silent, fresh = running.connect(), running.tls_connect(pki.client())
        idle, refused = running.tls_connect(pki.client("good")), running.connect()
        idle.sendall(GET)
        read_answer(idle)
        refused.sendall(GET)
        eventually(lambda: running.live == 4)
        assert running.stop() < 8  # sooner than the handshake's limit of 10 s
        for connection in (silent, fresh, idle, refused):
            connection.close()


def test_a_request_in_flight_is_answered_before_the_server_stops(pki: Pki) -> None:
    with serving(pki.tls()) as running, running.tls_connect(pki.client("good")) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: sandbox\r\n\r\n")
        eventually(lambda: running.bank.scopes)
        running.stop()
        assert b"at last" in read_all(connection)


# --- settings -----------------------------------------------------------------------------------------------


def test_the_private_key_is_not_in_the_repr(pki: Pki) -> None:
    assert "PRIVATE KEY" in pki.tls().private_key_pem.decode()
    assert "PRIVATE KEY" not in repr(pki.tls())


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("certificate_pem", "tls.certificate"),
        ("private_key_pem", "tls.private-key"),
        ("client_anchors_pem", "tls.anchors"),
    ],
)
def test_unreadable_settings_are_refused(pki: Pki, setting: str, code: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_http_protocol(pki.tls(**{setting: b"no PEM"}))
    assert refused.value.code == code


def test_the_key_of_another_certificate_is_refused(pki: Pki) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_http_protocol(pki.tls(private_key_pem=pki.root.key_pem))
    assert refused.value.code == "tls.private-key"


def test_the_texts_of_x509_errors_are_those_of_openssl() -> None:
    binding = Binding()
    for number, text in tls_module._X509_ERRORS.items():
        theirs = binding.ffi.string(binding.lib.X509_verify_cert_error_string(number)).decode()
        assert theirs.startswith(text), number
