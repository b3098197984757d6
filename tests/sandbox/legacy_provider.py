"""A provider of the legacy interface over HTTPS, and its receiver of callbacks; neither checks what it receives."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from raw_provider import done, server_context

from tppkit.testpki import Issued, Pki, certificate_pem

ONA, JONAS, MARTA = "customer-1", "customer-2", "customer-3"
ONA_PHONE, JONAS_PHONE = "+37060000001", "+37060000002"
DAILY, SAVINGS, SMALL = "LT029999900000000001", "LT729999900000000002", "LT189999900000000004"
FOREIGN = "DE89370400440532013000"
ADDRESS = {"name": "Example Shop", "street": "Hauptstr. 1", "city": "Berlin", "country": "DEU"}
ORDER: Mapping[str, Any] = {"acc": FOREIGN, "amts": {"EUR": 12.5}, "msg": "Order 4711", **ADDRESS}


class Arrived(NamedTuple):
    """A request that the receiver got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """An HTTPS server on loopback.

    Attributes:
        url: without a slash at its end.
        arrived: what it got.
        answers: status, headers and body of the next answers.
        afterwards: the status of all others.
        delay_s: before each answer.
    """

    url: str
    arrived: list[Arrived] = field(default_factory=list)
    answers: list[tuple[int, Mapping[str, str], bytes]] = field(default_factory=list)
    afterwards: int = 200
    delay_s: float = 0.0

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        """Set the answer to the next request; a body that is not bytes is sent as JSON."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.answers.append((status, {"Content-Type": "application/json", **headers}, raw))

    def wait(self, count: int) -> list[Arrived]:
        """Wait for this number of requests, and return them."""
        deadline = time.monotonic() + 10
        while len(self.arrived) < count:
            assert time.monotonic() < deadline, self.arrived
            time.sleep(0.01)
        return self.arrived


@contextmanager
def receiving(issued: Issued, folder: Path) -> Iterator[Receiver]:
    """A receiver with this certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            # Before a test is notified, because the answer that it then sets is for the next request.
            status, headers, answer = receiver.answers.pop(0) if receiver.answers else (receiver.afterwards, {}, b"")
            receiver.arrived.append(Arrived(self.command, self.path, dict(self.headers), body))
            time.sleep(receiver.delay_s)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do

        def log_message(self, *parts: Any) -> None:
            pass

    context = server_context(issued, folder)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *parts: Any) -> None:
            pass  # a client that refuses the certificate

        def get_request(self) -> Any:
            plain, peer = super().get_request()
            return context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), peer

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"https://localhost:{server.server_address[1]}/cb")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield receiver
        server.shutdown()


class Legacy:
    """A provider at one host of a sandbox.

    Args:
        bank: the sandbox, in this process or in another.
        pki: of its server certificate.
        live: at the live host.
    """

    def __init__(self, bank: Any, pki: Pki, *, live: bool = False) -> None:
        addresses = bank.addresses
        self.bank = bank
        self.host = "live" if live else "test"
        self.url = addresses.legacy_live_url if live else addresses.legacy_url
        self.key = addresses.legacy_live_api_key if live else addresses.legacy_api_key
        public = addresses.legacy_live_public_key if live else addresses.legacy_public_key
        context = ssl.create_default_context(cadata=certificate_pem(pki.root.certificate).decode())
        self.public_pem = Path(public).read_bytes()
        self.http = httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=10)

    def send(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> httpx.Response:
        return self.http.request(method, path, json=body, headers={"Authorization": self.key if key is None else key})

    def control(self, path: str, body: Any = None) -> Any:
        """A control call that must succeed."""
        return done(self.bank, path, body)

    def deliveries(self) -> Any:
        return httpx.get(self.bank.addresses.control_url + "/legacy/deliveries", trust_env=False).json()

    def access(self, kind: str = "ais", acc: str = ONA_PHONE, **choice: str) -> str:
        """A token that is granted."""
        token = new_id()
        assert self.send("POST", f"/{kind}/{token}", {"acc": acc}).status_code == 200
        self.control(f"/legacy/access/{token}/approve", {"host": self.host, **choice})
        return token

    def order(self, token: str, body: Any = ORDER, uuid: str | None = None) -> tuple[str, httpx.Response]:
        uuid = uuid or new_id()
        return uuid, self.send("POST", f"/pis/{token}/TX/{uuid}", body)

    def paid(self, token: str, body: Any = ORDER) -> str:
        """The uuid of a payment that is approved."""
        uuid, answer = self.order(token, body)
        assert answer.status_code == 200, answer.text
        self.control(f"/legacy/payments/{uuid}/approve")
        return uuid

    def listed(self, token: str) -> list[Any]:
        answer = self.send("GET", f"/ais/{token}/LIST")
        assert answer.status_code == 200, answer.text
        found: list[Any] = answer.json()
        return found

    def balance(self, token: str) -> Any:
        answer = self.send("GET", f"/ais/{token}/BALANCE")
        assert answer.status_code == 200, answer.text
        return json.loads(answer.content, parse_float=str)

    def is_signed(self, one: Arrived, origin: str) -> bool:
        """Whether the signature is this host's over requestid, method, address and body."""
        signed = f"{one.headers['requestid']}{one.method}{origin}{one.path}".encode() + one.body
        key = load_pem_public_key(self.public_pem)
        assert isinstance(key, ec.EllipticCurvePublicKey)
        try:
            key.verify(bytes.fromhex(one.headers["signature"]), signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def new_id() -> str:
    return uuid4().hex


ConnectLegacy = Callable[..., Legacy]
