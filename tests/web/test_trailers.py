"""Trailers, at real servers: fields that a client sends after its body are never taken for headers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from uuid import uuid4

import pytest
from asgi import BODY, TARGET, sealed
from callback_apps import ORIGIN
from callback_servers import SERVICE, running, server, write_service_key

from tppkit._encoding import encode_base64
from tppkit.callbacks import sign_callback
from tppkit.seals import Seal
from tppkit.testpki import Pki

_ASGI = ("uvicorn httptools", "uvicorn h11", "hypercorn", "granian")
SERVERS = {
    **{name: server(name, "asgi_app:app") for name in _ASGI},
    **{name: server(name, "wsgi_app:app") for name in ("gunicorn", "waitress")},
}
DIRECT = {name: server(name, "asgi_app:direct") for name in _ASGI}
CALLBACKS = {
    **{name: server(name, "callback_apps:asgi()") for name in ("uvicorn", "hypercorn", "granian")},
    **{name: server(name, "callback_apps:wsgi()") for name in ("gunicorn", "waitress")},
}
LATE_TRAILERS = b"Content-Encoding: gzip\r\nX-Request-ID: other\r\nrequestid: other\r\nScript-Name: /x\r\n"
# The only one that hides a Transfer-Encoding; it reads no trailers.
UNCHUNKING = "waitress"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, bank_pki_folder: Path) -> Iterator[dict[str, int]]:
    log = tmp_path_factory.mktemp("trailers") / "log"
    with running(SERVERS, environment={"TPPKIT_ANCHORS": str(bank_pki_folder)}, log=log) as started:
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
def test_a_certificate_in_a_trailer_is_ignored(
    server: str, ports: dict[str, int], bank_pki: Pki, live_seal: Seal
) -> None:
    for where in ("trailer", "headers"):
        connection = socket.create_connection(("127.0.0.1", ports[server]), 20)
        status, body = status_of(connection, in_trailer(bank_pki, live_seal, where=where))
        if server != UNCHUNKING:
            assert (status, b"message.no-length" in body) == (411, True), body
        else:
            assert status == (401 if where == "trailer" else 201)


def late(port: int, target: str, headers: Iterable[tuple[str, str]], body: bytes, trailers: bytes) -> tuple[int, bytes]:
    """Send a chunked request whose trailers come 0.3 seconds after its first chunk."""
    fields = (("Host", "bank"), ("Connection", "close"), ("Transfer-Encoding", "chunked"), *headers)
    head = f"POST {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(head.encode() + b"%x\r\n%s\r\n" % (len(body), body))
        time.sleep(0.3)
        return status_of(connection, b"0\r\n" + trailers + b"\r\n")


def test_late_trailers_of_a_sealed_request_do_not_reach_the_application(
    tmp_path: Path, bank_pki_folder: Path, live_seal: Seal
) -> None:
    with running(DIRECT, environment={"TPPKIT_ANCHORS": str(bank_pki_folder)}, log=tmp_path / "log") as ports:
        for server, port in ports.items():
            message = sealed(live_seal, request_id=str(uuid4()))
            answers = [late(port, TARGET, message.headers, BODY, trailers) for trailers in (LATE_TRAILERS, b"")]
            assert answers[0][0] == 201, (server, answers)
            assert answers[0] == answers[1], server  # the repetition without trailers gets the stored answer
            names = json.loads(answers[0][1])
            assert (names.count("x-request-id"), {"content-encoding", "script-name"} & set(names)) == (1, set()), server


def test_late_trailers_of_a_callback_are_ignored(tmp_path: Path) -> None:
    environment = {"CALLBACK_KEY": str(write_service_key(tmp_path)), "CALLBACK_KEPT": str(tmp_path / "kept")}
    with running(CALLBACKS, environment=environment, log=tmp_path / "log") as ports:
        for server, port in ports.items():
            headers = sign_callback(SERVICE, request_id="r-1", method="POST", url=f"{ORIGIN}/cb/", body=b"{}")
            assert late(port, "/cb/", headers, b"{}", LATE_TRAILERS) == (200, b""), server
