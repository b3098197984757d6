"""A provider that sends valid and invalid requests, and does not check the answers."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from programs import needed
from tppkit.client.tls_context import IdentityContext, IdentityContexts
from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Message, Seal, sign_request
from tppkit.testpki import Issued, Pki, certificate_pem, key_pem

SEPA = "sepa-credit-transfers"
INSTANT = "instant-sepa-credit-transfers"
PAYMENT: Mapping[str, Any] = {
    "instructedAmount": {"currency": "EUR", "amount": "12.50"},
    "creditorAccount": {"iban": "DE89370400440532013000"},
    "creditorName": "Example Shop",
    "remittanceInformationUnstructured": "Order 4711",
}
PAYMENTS = f"/psd2/v1/payments/{SEPA}"
# The fields of the form that approves.
APPROVE = {"action": "approve", "customer": "customer-1", "iban": "LT029999900000000001"}


def altered(message: Message, **parts: Any) -> Message:
    """The message with some of method, target, headers and body changed."""
    whole = {name: getattr(message, name) for name in ("method", "target", "headers", "body")}
    return Message(**whole | parts)


def make_seal(issued: Issued) -> Seal:
    return Seal(issued.certificate, KeySigner(issued.key))


def tls_context(issued: Issued, pki: Pki) -> ssl.SSLContext:
    """Presents any certificate of a PKI to a server of `pki`, also one that an `Identity` would refuse."""
    # httpx sets protocols on a context with every connection, which a bare one of OpenSSL does not bear from several threads.
    contexts = IdentityContexts((issued.certificate, *issued.chain), issued.key, server_anchors=[pki.root.certificate])
    return IdentityContext(lambda: contexts)


def write_identity(issued: Issued, folder: Path) -> Path:
    """A file with a server's certificate, chain and key, PEM."""
    pem = folder / f"{uuid4().hex}.pem"
    pem.write_bytes(b"".join(map(certificate_pem, (issued.certificate, *issued.chain))) + key_pem(issued.key))
    return pem


def server_context(issued: Issued, folder: Path) -> ssl.SSLContext:
    """The TLS of a server with this certificate, which is written to the folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_identity(issued, folder))
    return context


@dataclass
class RawProvider:
    """Requests over mutual TLS.

    Attributes:
        http: the connection, with or without a client certificate.
        seal: seals what `initiate` sends.
    """

    http: httpx.Client
    seal: Seal | None = None

    def message(
        self, body: Mapping[str, Any] | bytes = PAYMENT, *, product: str = SEPA, request_id: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> Message:  # fmt: skip
        """An initiation that is not sealed yet."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = (("X-Request-ID", request_id or str(uuid4())), ("Content-Type", "application/json"))
        return Message("POST", f"/psd2/v1/payments/{product}", (*named, *headers), content)

    def send(self, message: Message) -> httpx.Response:
        """Send a message as it is."""
        headers = [(name.encode(), value.encode("latin-1")) for name, value in message.headers]
        return self.http.request(message.method, message.target, headers=headers, content=message.body or None)

    def sealed(self, message: Message) -> Message:
        """The message under this provider's seal."""
        assert self.seal is not None
        return sign_request(message, seal=self.seal)

    def initiate(self, body: Mapping[str, Any] | bytes = PAYMENT, **options: Any) -> httpx.Response:
        """A sealed initiation."""
        return self.send(self.sealed(self.message(body, **options)))

    def request(self, method: str, target: str, *, request_id: str | None = None) -> httpx.Response:
        """A request without a body and without a seal."""
        return self.send(Message(method, target, (("X-Request-ID", request_id or str(uuid4())),)))

    def status(self, payment: Mapping[str, Any]) -> str:
        """The state that a poll reports for an initiated payment."""
        status = self.request("GET", payment["_links"]["status"]["href"]).json()["transactionStatus"]
        assert isinstance(status, str)
        return status

    def cancel(self, payment: Mapping[str, Any]) -> httpx.Response:
        """DELETE of an initiated payment."""
        return self.request("DELETE", payment["_links"]["self"]["href"])

    def new_payment(self, **options: Any) -> dict[str, Any]:
        """The answer to an initiation that must succeed."""
        response = self.initiate(**options)
        assert response.status_code == 201, response.text
        answer: dict[str, Any] = response.json()
        return answer


def assert_refused(response: httpx.Response, status: int, code: str) -> None:
    """The answer is this error, in the interface's form, and echoes the X-Request-ID."""
    (message,) = response.json()["tppMessages"]
    assert (response.status_code, message["code"], message["category"]) == (status, code, "ERROR")
    assert message["text"]
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"] == response.request.headers["x-request-id"]


def approval_link(payment: Mapping[str, Any]) -> str:
    """The link for the payer's browser."""
    link = payment["_links"]["scaRedirect"]["href"]
    assert isinstance(link, str)
    return link


def decide(payment: Mapping[str, Any], action: str, **choice: str) -> httpx.Response:
    """Send the form of a button as the payer's browser, and return the page that follows."""
    return httpx.post(
        approval_link(payment), data={**APPROVE, **choice, "action": action}, follow_redirects=True, trust_env=False
    )


def advance(server: SandboxServer, seconds: float) -> None:
    """Move the sandbox's clock through its control host."""
    url = server.addresses.control_url + "/clock/advance"
    httpx.post(url, json={"seconds": seconds}, trust_env=False).raise_for_status()


def control(server: SandboxServer, path: str, body: Any = None) -> httpx.Response:
    """POST to the control host, without a body if there is none."""
    return httpx.post(server.addresses.control_url + path, json=body, trust_env=False)


def done(server: Any, path: str, body: Any = None) -> Any:
    """The answer to a control call that must succeed."""
    answer = httpx.post(server.addresses.control_url + path, json=body, trust_env=False, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def is_refused(answer: httpx.Response, status: int, code: str) -> bool:
    """Whether the answer is this error, in the form of the legacy interface and the gateway."""
    return (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def curl(root: Path, *options: object, body: Any = None) -> tuple[int, str, str]:
    """Status, body and the address at the end of a request by curl that trusts `root`; a JSON body goes by standard input."""
    command = [needed("curl"), "-sS", "--cacert", root, "-w", "\n%{http_code} %{url_effective}", *options]
    command += [] if body is None else ["--json", "@-"]
    sent = None if body is None else json.dumps(body)
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=30, check=True)
    answer, _, last = done.stdout.rpartition("\n")
    status, _, address = last.partition(" ")
    return int(status), answer, address


def require_books(server: SandboxServer) -> None:
    """Money is conserved, entries explain each balance, and each accepted seal has one record."""
    url = server.addresses.control_url + "/ledger/check"
    assert httpx.get(url, trust_env=False, timeout=30).json() == {"ok": True, "differences": []}


Connect = Callable[..., RawProvider]
OpenBank = Callable[..., AbstractContextManager[SandboxServer]]


@contextmanager
def checked_sandbox(
    settings: SandboxSettings, *, log: Callable[[str], object] | None = None
) -> Iterator[SandboxServer]:
    """A sandbox whose consistency is checked before it stops."""
    with run_sandbox(settings, log=log) as server:
        yield server
        require_books(server)
