"""Bodies that end too early or are no chunks, at real servers: the peer's fault, reported as such, and nobody else's request suffers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from asgi import BODY, sealed
from callback_apps import ORIGIN
from callback_servers import SERVICE, request, running, server, write_service_key

from tppkit._encoding import encode_base64
from tppkit.callbacks import sign_callback
from tppkit.seals import Seal
from tppkit.testpki import Pki

_NUMBERS = count()

WSGI = {name: server(name, "both_apps:wsgi()") for name in ("gunicorn", "waitress", "werkzeug")}
ASGI = {name: server(name, "both_apps:asgi()") for name in ("uvicorn", "hypercorn", "granian")}
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
CLOSING = ("waitress", "uvicorn", "hypercorn")


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
    with running({**WSGI, **ASGI}, environment=environment, log=folder / "log") as ports:
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
@pytest.mark.parametrize("server", [*WSGI, *ASGI])
def test_a_broken_body_is_the_peers_fault(server: str, broken: str, door: Door, live: Live) -> None:
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
