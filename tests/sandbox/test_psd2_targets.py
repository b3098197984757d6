"""The seal is checked over the target as it stood on the wire, not over what a server makes of it."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from uuid import uuid4

import pytest
from raw_provider import checked_sandbox

from tppkit.client import Identity
from tppkit.httpsig import Message
from tppkit.sandbox import SandboxSettings
from tppkit.seals import sign_request

PATH = "/psd2/v1/payments/sepa-credit-transfers"
BODY = (
    b'{"instructedAmount":{"currency":"EUR","amount":"1.00"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Shop"}'
)


def send(identity: Identity, port: int, message: Message) -> tuple[int, str | None]:
    """Status and code of the answer to a request written to the wire exactly as it stands."""
    head = "".join(f"{name}: {value}\r\n" for name, value in message.headers)
    length = f"Content-Length: {len(message.body)}\r\nConnection: close\r\n"
    raw = f"{message.method} {message.target} HTTP/1.1\r\nHost: localhost\r\n{length}{head}\r\n"
    with (
        socket.create_connection(("localhost", port), timeout=10) as plain,
        identity.tls_context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        tls.sendall(raw.encode("latin-1") + message.body)
        answer = b""
        try:
            while part := tls.recv(65536):
                answer += part
        except ssl.SSLEOFError:
            pass
    top, _, body = answer.partition(b"\r\n\r\n")
    status = int(top.split()[1])
    return status, json.loads(body)["tppMessages"][0]["code"] if status >= 400 else None


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = tmp_path_factory.mktemp("targets")
    with checked_sandbox(SandboxSettings(folder)) as server:
        pki = folder / "pki"
        identity = Identity.from_files(
            qwac=pki / "qwac.pem", qwac_key=pki / "qwac.key", qseal=pki / "qseal.pem", qseal_key=pki / "qseal.key",
            server_anchors=pki / "root.pem",
        )  # fmt: skip
        yield identity, int(server.addresses.psd2_url.rpartition(":")[2])


def request(target: str) -> Message:
    return Message("POST", target, (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json")), BODY)


@pytest.mark.parametrize("target", [PATH, PATH + "?", PATH + "?x=%2F&y="])
def test_a_seal_over_the_target_on_the_wire_holds(parties, target: str) -> None:
    identity, port = parties
    assert identity.seal is not None
    assert send(identity, port, sign_request(request(target), seal=identity.seal)) == (201, None)


@pytest.mark.parametrize("sent", [PATH + "?", PATH + "?x=1", PATH.replace("sepa", "sep%61")])
def test_a_seal_over_another_target_does_not(parties, sent: str) -> None:
    identity, port = parties
    assert identity.seal is not None
    sealed = sign_request(request(PATH), seal=identity.seal)
    assert send(identity, port, sealed._replace(target=sent)) == (401, "SIGNATURE_INVALID")


@pytest.mark.parametrize("sent", [PATH + "#f", "https://localhost" + PATH, "https://evil.example" + PATH])
def test_a_target_that_is_no_path_is_refused_however_it_is_sealed(parties, sent: str) -> None:
    identity, port = parties
    assert identity.seal is not None
    assert send(identity, port, sign_request(request(sent), seal=identity.seal))[0] == 400


def test_an_initiation_that_is_not_json_by_its_content_type_is_refused(parties) -> None:
    identity, port = parties
    assert identity.seal is not None
    message = Message("POST", PATH, (("X-Request-ID", str(uuid4())), ("Content-Type", "text/plain")), BODY)
    assert send(identity, port, sign_request(message, seal=identity.seal)) == (400, "FORMAT_ERROR")
