"""The middleware for seals under every common server: what was signed arrives byte for byte, what was not is refused.

Fields that a client sends after its body are never taken for headers, and no header moves a request to another handler.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
import wsgi
from asgi import BODY, TARGET, sealed
from callback_apps import ORIGIN
from callback_servers import SERVICE, request, running, server, write_service_key
from serving import send
from wsgi import code, forwarded

from tppkit._encoding import encode_base64
from tppkit.callbacks import sign_callback
from tppkit.seals import Message, Seal
from tppkit.testpki import Pki

pytestmark = pytest.mark.slow

ASGI = {
    name: server(name, "seal_apps:asgi")
    for name in ("uvicorn httptools", "uvicorn h11", "hypercorn", "granian", "gunicorn asgi")
}
WSGI = {name: server(name, "seal_apps:wsgi") for name in ("gunicorn", "waitress")}
NO_RAW_TARGET = {name: server(name, "seal_apps:wsgi") for name in ("wsgiref", "granian wsgi")}
ODD_TARGET = "/psd2/v1/a%2Fb//%C5%BE/%2e?x=%2F&y=+&z"


@pytest.mark.parametrize("name", [*ASGI, *WSGI])
def test_the_sealed_request_is_accepted_and_no_other(name, ports, bank_pki, live_seal):
    good = forwarded(sealed(live_seal, target=ODD_TARGET, request_id=None), bank_pki)
    url = f"http://127.0.0.1:{ports[name]}"
    accepted = send(url, good)
    assert (accepted.status_code, accepted.json()) == (201, {"target": ODD_TARGET, "bytes": len(BODY)}), accepted.text
    for bad, status in (
        (good._replace(body=BODY + b" "), 401),
        (good._replace(target=ODD_TARGET.replace("%2F", "/")), 401),
        (good._replace(target=ODD_TARGET.replace("%C5%BE", "%c5%be")), 401),
        (good._replace(target=ODD_TARGET + "&"), 401),
        (good.with_headers(("Digest", good.values("Digest")[0])), 401 if name in WSGI else 400),  # WSGI joins the two
        (good.with_headers(("Content-Encoding", "gzip")), 400),
        (good._replace(body=b"x" * 2000), 413),
    ):
        answer = send(url, bad)
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, good.values("X-Request-ID")[0])
    alike = tuple((field.replace("Client-Cert", "Client_Cert"), value) for field, value in good.headers)
    for spoofed in (send(url, good, local="127.0.0.2"), send(url, good._replace(headers=alike))):
        assert (spoofed.status_code, code(spoofed.content)) == (401, "CERTIFICATE_MISSING")


# hypercorn asks for every body by itself.
@pytest.mark.parametrize("name", sorted(ASGI.keys() - {"hypercorn"}))
@pytest.mark.parametrize("target", [ODD_TARGET, ODD_TARGET + "&"], ids=["good", "bad"])
def test_a_client_that_waits_to_send_its_body_gets_100_continue_only_if_its_head_is_valid(
    name, target, ports, bank_pki, live_seal
):
    message = forwarded(sealed(live_seal, target=ODD_TARGET, request_id=None), bank_pki)
    fields = (*message.headers, ("Host", "bank"), ("Content-Length", str(len(BODY))), ("Expect", "100-continue"))
    head = "".join(f"{field}: {value}\r\n" for field, value in fields)
    with socket.create_connection(("127.0.0.1", ports[name]), 10) as connection:
        connection.sendall(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode())
        told = connection.recv(12)
        if told == b"HTTP/1.1 100":
            connection.sendall(BODY)
    assert told == (b"HTTP/1.1 100" if target == ODD_TARGET else b"HTTP/1.1 401")


DIRECT = {f"{name} direct": server(name, "seal_apps:direct") for name in ASGI}
CALLBACKS = {
    **{name: server(name, "callback_apps:asgi()") for name in ("uvicorn", "hypercorn", "granian", "gunicorn asgi")},
    **{name: server(name, "callback_apps:wsgi()") for name in ("gunicorn", "waitress")},
}
LATE_TRAILERS = b"Content-Encoding: gzip\r\nX-Request-ID: other\r\nrequestid: other\r\nScript-Name: /x\r\n"
# The only one that hides a Transfer-Encoding; it reads no trailers.
UNCHUNKING = "waitress"


def in_trailer(pki: Pki, seal: Seal, *, where: str) -> bytes:
    """A whole sealed request, chunked, with the proxy's header as its trailer or among its headers."""
    claimed = ("Client-Cert", f":{encode_base64(pki.qwac.certificate.der)}:")
    framing = (("Host", "bank"), ("Connection", "close"), ("Transfer-Encoding", "chunked"))
    fields = (*framing, *sealed(seal, request_id=str(uuid4())).headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in (*fields, *([claimed] if where == "headers" else [])))
    trailer = f"{claimed[0]}: {claimed[1]}\r\n" if where == "trailer" else ""
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    return f"POST {TARGET} HTTP/1.1\r\n{head}\r\n".encode() + chunk + f"{trailer}\r\n".encode()


def answer_of(connection: socket.socket, request: bytes) -> tuple[int, bytes]:
    with connection, closing(HTTPResponse(connection)) as answer:
        connection.sendall(request)
        answer.begin()
        return answer.status, answer.read()


@pytest.mark.parametrize("server", [*ASGI, *WSGI])
def test_a_certificate_in_a_trailer_is_ignored(server, ports, bank_pki, live_seal):
    for where in ("trailer", "headers"):
        connection = socket.create_connection(("127.0.0.1", ports[server]), 20)
        status, body = answer_of(connection, in_trailer(bank_pki, live_seal, where=where))
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
        return answer_of(connection, b"0\r\n" + trailers + b"\r\n")


@pytest.mark.parametrize("server", DIRECT)
def test_late_trailers_of_a_sealed_request_do_not_reach_the_application(server, ports, live_seal):
    message = sealed(live_seal, request_id=str(uuid4()))
    answers = [late(ports[server], TARGET, message.headers, BODY, trailers) for trailers in (LATE_TRAILERS, b"")]
    assert answers[0][0] == 201, answers
    assert answers[0] == answers[1]  # the repetition without trailers gets the stored answer
    names = json.loads(answers[0][1])
    assert (names.count("x-request-id"), {"content-encoding", "script-name"} & set(names)) == (1, set())


def test_late_trailers_of_a_callback_are_ignored(tmp_path):
    environment = {"CALLBACK_KEY": str(write_service_key(tmp_path)), "CALLBACK_KEPT": str(tmp_path / "kept")}
    with running(CALLBACKS, environment=environment, log=tmp_path / "log") as ports:
        for server, port in ports.items():
            headers = sign_callback(SERVICE, request_id="r-1", method="POST", url=f"{ORIGIN}/cb/", body=b"{}")
            assert late(port, "/cb/", headers, b"{}", LATE_TRAILERS) == (200, b""), server


_MOUNT = {"TPPKIT_MOUNT": "/bank"}
MOUNTED = {
    "hypercorn": server("hypercorn", "seal_apps:asgi", "--root-path", "/bank", environment=_MOUNT),
    "granian": server("granian", "seal_apps:asgi", "--url-path-prefix", "/bank", environment=_MOUNT),
    "gunicorn asgi": server("gunicorn asgi", "seal_apps:asgi", "--root-path", "/bank", environment=_MOUNT),
    "gunicorn": server("gunicorn", "seal_apps:wsgi", environment={**_MOUNT, "SCRIPT_NAME": "/bank"}),
    "waitress": server("waitress", "seal_apps:wsgi", "--url-prefix=/bank", environment=_MOUNT),
}
LEDGER = {
    "gunicorn": server("gunicorn", "seal_apps:flask()"),
    "gunicorn, no headers": server("gunicorn", "seal_apps:flask()", "--forwarder-headers", ""),
    "waitress": server("waitress", "seal_apps:flask()"),
}


@pytest.fixture(scope="module")
def ports(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The port of each server of an application behind the middleware for seals."""
    log = tmp_path_factory.mktemp("servers") / "log"
    mounted = {f"{name} at /bank": below for name, below in MOUNTED.items()}
    ledgers = {f"{name} with a ledger": one for name, one in LEDGER.items()}
    servers = {**ASGI, **WSGI, **NO_RAW_TARGET, **DIRECT, **mounted, **ledgers}
    servers["django"] = server("gunicorn", "seal_apps:django()")
    with running(servers, environment={"TPPKIT_ANCHORS": str(bank_pki_folder)}, log=log) as started:
        yield started


@pytest.mark.parametrize("name", NO_RAW_TARGET)
def test_a_server_that_gives_no_raw_target_gets_every_request_rejected(name, ports, bank_pki, live_seal):
    refused = send(f"http://127.0.0.1:{ports[name]}", forwarded(sealed(live_seal, request_id=None), bank_pki))
    assert (refused.status_code, code(refused.content)) == (400, "FORMAT_ERROR")
    assert "message.no-raw-path" in refused.text


PAYMENTS = "/psd2/v1/payments"
ID = ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55")


@pytest.mark.parametrize("server", LEDGER)
def test_no_header_moves_a_request_to_another_handler(server, ports, bank_pki):
    def ask(target: str, *more: tuple[str, str]) -> tuple[int, bytes]:
        message = wsgi.forwarded(Message("DELETE", target, (ID, *more)), bank_pki)
        answer = request(ports[f"{server} with a ledger"], "DELETE", target, message.headers)
        return answer.status, answer.body

    asked = ask(f"{PAYMENTS}/internal/ledger")
    assert (asked[0], b"wiped" in asked[1]) == (200, False)
    for name in ("SCRIPT_NAME", "Script-Name", "PATH_INFO", "Path-Info"):
        status, body = ask(f"{PAYMENTS}/internal/ledger", (name, PAYMENTS))
        # Where the server drops the header, the request goes where it was sent.
        assert (status, b"message.rerouted" in body) == (400, True) or body == asked[1], (name, body)
    assert ask("//internal/ledger")[0] in (400, 404)
    assert ask("/internal/ledger")[0] == 404


@pytest.mark.parametrize("server", MOUNTED)
def test_a_configured_mount_is_accepted(server, ports, bank_pki, live_seal):
    target = "/bank/psd2/v1/a%2Fb/%C5%BE?x=%2F"
    message = wsgi.forwarded(sealed(live_seal, target=target, request_id=None), bank_pki)
    answer = request(ports[f"{server} at /bank"], "POST", target, message.headers, message.body)
    assert (answer.status, json.loads(answer.body)["target"]) == (201, target)


def test_the_forced_script_name_of_django_needs_no_mount(ports, bank_pki, live_seal):
    message = wsgi.forwarded(sealed(live_seal, target="/psd2/v1/payments", request_id=None), bank_pki)
    answer = request(ports["django"], "POST", message.target, message.headers, message.body)
    assert (answer.status, answer.body) == (200, b"/bank/psd2/v1/payments")


_NUMBERS = count()

BOTH_WSGI = {name: server(name, "seal_apps:both_wsgi()") for name in ("gunicorn", "waitress", "werkzeug")}
BOTH_ASGI = {
    name: server(name, "seal_apps:both_asgi()") for name in ("uvicorn", "hypercorn", "granian", "gunicorn asgi")
}
CHUNKED = "Transfer-Encoding: chunked"
# The header that frames the body, and what is sent of it before the client stops sending.
BROKEN = {
    "a size that is none": (CHUNKED, b"zz\r\nabc\r\n0\r\n\r\n"),
    "a size below nothing": (CHUNKED, b"-3\r\nabc\r\n0\r\n\r\n"),
    "a chunk longer than its size": (CHUNKED, b"3\r\nabcdef\r\n0\r\n\r\n"),
    "a trailer that is none": (CHUNKED, b"3\r\nabc\r\n0\r\nno trailer\r\n\r\n"),
    "a chunk that ends early": (CHUNKED, b"20\r\nabc"),
    "no last chunk": (CHUNKED, b"3\r\nabc\r\n"),
    "less than its length": (f"Content-Length: {len(BODY)}", BODY[:5]),
}


# These do not answer a client that stops sending, or do not even ask the application.
CLOSING = ("waitress", "uvicorn", "hypercorn", "gunicorn asgi")


class Live(NamedTuple):
    """What runs.

    Attributes:
        ports: of each server.
        log: what all of them wrote.
        kept: a line for each callback that was acknowledged.
    """

    ports: dict[str, int]
    log: Path
    kept: Path


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, bank_pki_folder: Path) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("servers")
    (folder / "kept").touch()
    environment = {
        "CALLBACK_KEY": str(write_service_key(folder)), "CALLBACK_KEPT": str(folder / "kept"), "TPPKIT_ANCHORS": str(bank_pki_folder),
    }  # fmt: skip
    with running({**BOTH_WSGI, **BOTH_ASGI}, environment=environment, log=folder / "log") as ports:
        yield Live(ports, folder / "log", folder / "kept")


class Door(NamedTuple):
    """A request for one of the two middlewares, without its body."""

    target: str
    headers: tuple[tuple[str, str], ...]


@pytest.fixture(params=["seal", "callback"])
def door(request: pytest.FixtureRequest, bank_pki: Pki, live_seal: Seal) -> Door:
    if request.param == "callback":
        request_id = f"r-{next(_NUMBERS)}"
        headers = sign_callback(SERVICE, request_id=request_id, method="POST", url=ORIGIN + "/cb/", body=BODY)
        return Door("/cb/", tuple(headers))
    message = sealed(live_seal, request_id=None)
    return Door(
        message.target, (*message.headers, ("Client-Cert", f":{encode_base64(bank_pki.qwac.certificate.der)}:"))
    )


def status_of(port: int, door: Door, framing: str, sent: bytes) -> int | None:
    """What is answered to a body of which no more will come; None for a connection that is closed without an answer."""
    fields = (*(f"{name}: {value}" for name, value in door.headers), "Host: bank", "Connection: close", framing)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall("\r\n".join([f"POST {door.target} HTTP/1.1", *fields, "", ""]).encode("latin-1") + sent)
        connection.shutdown(socket.SHUT_WR)
        try:
            with closing(HTTPResponse(connection)) as response:
                response.begin()
                return response.status
        except (HTTPException, ConnectionError):
            return None


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("server", [*BOTH_WSGI, *BOTH_ASGI])
def test_a_broken_body_is_the_peers_fault(server, broken, door, live):
    status = status_of(live.ports[server], door, *BROKEN[broken])
    # A proxy's request must have a length, so the seal's middleware asks for none of these chunks.
    unread = 411 if door.target != "/cb/" and BROKEN[broken][0] == CHUNKED else 400
    assert (
        status in (400, unread)
        or (status is None and server in CLOSING)
        or (server, broken, status) == ("waitress", "a trailer that is none", 401)  # it reads no trailers
    )
    good = request(live.ports[server], "POST", door.target, door.headers, BODY)
    assert good.status in (200, 201), good.body
    assert "Traceback" not in live.log.read_text("utf-8", "replace")
