"""The ASGI middleware under every common server: what was signed arrives byte for byte, what was not is refused."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from asgi import BODY, sealed
from serving import free_port, run_program, send

from tppkit._encoding import encode_base64
from tppkit.seals import Message, Seal
from tppkit.testpki import Pki

SERVERS = {
    "uvicorn, httptools": ("uvicorn", "--no-proxy-headers", "--http", "httptools", "--port", "{port}"),
    "uvicorn, h11": ("uvicorn", "--no-proxy-headers", "--http", "h11", "--port", "{port}"),
    "hypercorn": ("hypercorn", "--bind", "127.0.0.1:{port}"),
    "granian": ("granian", "--interface", "asgi", "--port", "{port}"),
}
TARGET = "/psd2/v1/a%2Fb//%C5%BE/%2e?x=%2F&y=+&z"


@contextmanager
def serve(name: str, folder: Path, scratch: Path) -> Iterator[int]:
    port = free_port()
    module = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {"TPPKIT_ANCHORS": str(folder), "PYTHONPATH": module}
    command = [sys.executable, "-m", *(part.format(port=port) for part in SERVERS[name]), "asgi_app:app"]
    with run_program(command, port=port, folder=scratch, environment=environment):
        yield port


def forwarded(message: Message, pki: Pki) -> Message:
    """The message as the trusted proxy sends it on."""
    return message.with_headers(("Client-Cert", f":{encode_base64(pki.qwac.certificate.der)}:"))


@pytest.mark.parametrize("name", SERVERS)
def test_the_sealed_request_is_let_through_and_no_other(
    name: str, live_folder: Path, live_pki: Pki, live_seal: Seal, tmp_path: Path
) -> None:
    good = forwarded(sealed(live_seal, target=TARGET), live_pki)
    with serve(name, live_folder, tmp_path) as port:
        url = f"http://127.0.0.1:{port}"
        accepted = send(url, good)
        assert (accepted.status_code, accepted.json()) == (201, {"target": TARGET, "bytes": len(BODY)}), accepted.text
        for bad, status in (
            (good._replace(body=BODY + b" "), 401),
            (good._replace(target=TARGET.replace("%2F", "/")), 401),
            (good._replace(target=TARGET.replace("%C5%BE", "%c5%be")), 401),
            (good._replace(target=TARGET + "&"), 401),
            (good.with_headers(("Digest", good.values("Digest")[0])), 400),
            (good.with_headers(("Content-Encoding", "gzip")), 400),
            (good._replace(body=b"x" * 2000), 413),
        ):
            answer = send(url, bad)
            assert (answer.status_code, answer.headers["x-request-id"]) == (status, good.values("X-Request-ID")[0])
        assert send(url, good, local="127.0.0.2").json()["tppMessages"][0]["code"] == "CERTIFICATE_MISSING"


# hypercorn asks for every body by itself.
@pytest.mark.parametrize("name", sorted(SERVERS.keys() - {"hypercorn"}))
@pytest.mark.parametrize("change", [lambda m: m, lambda m: m._replace(target=TARGET + "&")], ids=["good", "bad"])
def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_only_when_its_head_holds(
    name: str,
    change: Callable[[Message], Message],
    live_folder: Path,
    live_pki: Pki,
    live_seal: Seal,
    tmp_path: Path,
) -> None:
    message = change(forwarded(sealed(live_seal, target=TARGET), live_pki))
    fields = (*message.headers, ("Host", "bank"), ("Content-Length", str(len(BODY))), ("Expect", "100-continue"))
    head = "".join(f"{field}: {value}\r\n" for field, value in fields)
    with serve(name, live_folder, tmp_path) as port, socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"POST {message.target} HTTP/1.1\r\n{head}\r\n".encode())
        told = connection.recv(12)
        if told == b"HTTP/1.1 100":
            connection.sendall(BODY)
    assert told == (b"HTTP/1.1 100" if message.target == TARGET else b"HTTP/1.1 401")
