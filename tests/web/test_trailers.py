"""A certificate in a trailer, at real servers: what a client sends after its body is no word of the proxy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from uuid import uuid4

import pytest
from asgi import BODY, TARGET, sealed
from callback_servers import Server, running
from serving import client_context, free_port, program, run_program

from tppkit._encoding import encode_base64
from tppkit.seals import Seal
from tppkit.testpki import Pki, certificate_pem

_UVICORN = ("-m", "uvicorn", "asgi_app:app", "--no-proxy-headers", "--port", "{port}", "--http")
SERVERS = {
    "uvicorn, httptools": Server((*_UVICORN, "httptools")),
    "uvicorn, h11": Server((*_UVICORN, "h11")),
    "hypercorn": Server(("-m", "hypercorn", "asgi_app:app", "-b", "127.0.0.1:{port}")),
    "granian": Server(("-m", "granian", "--interface", "asgi", "--port", "{port}", "asgi_app:app")),
    "gunicorn": Server(("-m", "gunicorn", "--no-control-socket", "wsgi_app:app", "-b", "127.0.0.1:{port}")),
    "waitress": Server(("-m", "waitress", "--listen=127.0.0.1:{port}", "wsgi_app:app")),
}
# The only one that hides a Transfer-Encoding; it reads no trailers.
UNCHUNKING = "waitress"
HAPROXY = """
defaults
  mode http
  timeout connect 10s
  timeout client 20s
  timeout server 20s
frontend tls
  bind 127.0.0.1:{port} ssl crt {folder}/server.pem ca-file {folder}/anchors.pem verify optional
  http-request del-header Client-Cert
  http-request set-header Client-Cert ":%[ssl_c_der,base64]:" if {{ ssl_c_used }}
  default_backend app
backend app
  server app 127.0.0.1:{upstream}
"""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, live_folder: Path) -> Iterator[dict[str, int]]:
    log = tmp_path_factory.mktemp("trailers") / "log"
    with running(SERVERS, environment={"TPPKIT_ANCHORS": str(live_folder)}, log=log) as started:
        yield started


def in_trailer(pki: Pki, seal: Seal, *, where: str) -> bytes:
    """A whole sealed request, chunked, with the proxy's header as its trailer or among its headers."""
    claimed = ("Client-Cert", f":{encode_base64(pki.qwac.certificate.der)}:")
    framing = (("Host", "bank"), ("Connection", "close"), ("Transfer-Encoding", "chunked"))
    fields = (*framing, *sealed(seal, request_id=str(uuid4())).headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in (*fields, *([claimed] if where == "headers" else [])))
    trailer = f"{claimed[0]}: {claimed[1]}\r\n" if where == "trailer" else ""
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    return f"POST {TARGET} HTTP/1.1\r\n{head}\r\n".encode() + chunk + f"{trailer}\r\n".encode()


def status_of(connection: socket.socket, request: bytes) -> tuple[int, bytes]:
    with connection, closing(HTTPResponse(connection)) as answer:
        connection.sendall(request)
        answer.begin()
        return answer.status, answer.read()


@pytest.mark.parametrize("server", SERVERS)
def test_a_certificate_in_a_trailer_is_nobodys(
    server: str, ports: dict[str, int], live_pki: Pki, live_seal: Seal
) -> None:
    for where in ("trailer", "headers"):
        connection = socket.create_connection(("127.0.0.1", ports[server]), 20)
        status, body = status_of(connection, in_trailer(live_pki, live_seal, where=where))
        if server != UNCHUNKING:
            assert (status, b"message.no-length" in body) == (411, True), body
        else:
            assert status == (401 if where == "trailer" else 201)


@pytest.mark.parametrize("server", ["uvicorn, httptools", "uvicorn, h11"])
def test_a_stranger_behind_haproxy_cannot_name_a_certificate_after_its_body(
    server: str, ports: dict[str, int], live_folder: Path, live_pki: Pki, live_seal: Seal, tmp_path: Path
) -> None:
    both = (live_folder / "server-chain.pem").read_bytes() + (live_folder / "server.key").read_bytes()
    (tmp_path / "server.pem").write_bytes(both)
    (tmp_path / "anchors.pem").write_bytes(b"".join(map(certificate_pem, live_pki.authorities)))
    port = free_port()
    (tmp_path / "haproxy").write_text(HAPROXY.format(folder=tmp_path, port=port, upstream=ports[server]))
    with run_program(
        [program("haproxy", "haproxy"), "-db", "-f", str(tmp_path / "haproxy")], port=port, folder=tmp_path
    ):
        raw = socket.create_connection(("127.0.0.1", port), 20)
        connection = client_context(live_pki, None).wrap_socket(raw, server_hostname="localhost")
        status, body = status_of(connection, in_trailer(live_pki, live_seal, where="trailer"))
    assert (status, b"message.no-length" in body) == (411, True), body
