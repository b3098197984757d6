"""The middleware for seals under every common server: what was signed arrives byte for byte, what was not is refused."""

from __future__ import annotations

import socket

import pytest
from asgi import BODY, sealed
from callback_servers import running, server
from serving import send
from wsgi import code, forwarded

ASGI = {name: server(name, "asgi_app:app") for name in ("uvicorn httptools", "uvicorn h11", "hypercorn", "granian")}
WSGI = {name: server(name, "wsgi_app:app") for name in ("gunicorn", "waitress")}
NO_RAW_TARGET = {name: server(name, "wsgi_app:app") for name in ("wsgiref", "granian wsgi")}
TARGET = "/psd2/v1/a%2Fb//%C5%BE/%2e?x=%2F&y=+&z"


@pytest.fixture(scope="module")
def ports(bank_pki_folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("servers") / "log"
    servers = {**ASGI, **WSGI, **NO_RAW_TARGET}
    with running(servers, environment={"TPPKIT_ANCHORS": str(bank_pki_folder)}, log=log) as started:
        yield started


@pytest.mark.parametrize("name", [*ASGI, *WSGI])
def test_the_sealed_request_is_accepted_and_no_other(name, ports, bank_pki, live_seal):
    good = forwarded(sealed(live_seal, target=TARGET, request_id=None), bank_pki)
    url = f"http://127.0.0.1:{ports[name]}"
    accepted = send(url, good)
    assert (accepted.status_code, accepted.json()) == (201, {"target": TARGET, "bytes": len(BODY)}), accepted.text
    for bad, status in (
        (good._replace(body=BODY + b" "), 401),
        (good._replace(target=TARGET.replace("%2F", "/")), 401),
        (good._replace(target=TARGET.replace("%C5%BE", "%c5%be")), 401),
        (good._replace(target=TARGET + "&"), 401),
        (good.with_headers(("Digest", good.values("Digest")[0])), 401 if name in WSGI else 400),  # WSGI joins the two
        (good.with_headers(("Content-Encoding", "gzip")), 400),
        (good._replace(body=b"x" * 2000), 413),
    ):
        answer = send(url, bad)
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, good.values("X-Request-ID")[0])
    alike = tuple((field.replace("Client-Cert", "Client_Cert"), value) for field, value in good.headers)
    for spoofed in (send(url, good, local="127.0.0.2"), send(url, good._replace(headers=alike))):
        assert (spoofed.status_code, code(spoofed.content)) == (401, "CERTIFICATE_MISSING")


@pytest.mark.parametrize("name", NO_RAW_TARGET)
def test_a_server_that_gives_no_raw_target_gets_every_request_rejected(name, ports, bank_pki, live_seal):
    refused = send(f"http://127.0.0.1:{ports[name]}", forwarded(sealed(live_seal, request_id=None), bank_pki))
    assert (refused.status_code, code(refused.content)) == (400, "FORMAT_ERROR")
    assert "message.no-raw-path" in refused.text


# hypercorn asks for every body by itself.
@pytest.mark.parametrize("name", sorted(ASGI.keys() - {"hypercorn"}))
@pytest.mark.parametrize("target", [TARGET, TARGET + "&"], ids=["good", "bad"])
def test_a_client_that_waits_to_send_its_body_gets_100_continue_only_if_its_head_is_valid(
    name, target, ports, bank_pki, live_seal
):
    message = forwarded(sealed(live_seal, target=TARGET, request_id=None), bank_pki)
    fields = (*message.headers, ("Host", "bank"), ("Content-Length", str(len(BODY))), ("Expect", "100-continue"))
    head = "".join(f"{field}: {value}\r\n" for field, value in fields)
    with socket.create_connection(("127.0.0.1", ports[name]), 10) as connection:
        connection.sendall(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode())
        told = connection.recv(12)
        if told == b"HTTP/1.1 100":
            connection.sendall(BODY)
    assert told == (b"HTTP/1.1 100" if target == TARGET else b"HTTP/1.1 401")
