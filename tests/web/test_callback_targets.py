"""Raw targets as real servers hand them over: what the service signed verifies, whatever stands between wire and application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from callback_apps import ORIGIN, PATHS, RAW_ON_WIRE
from callback_servers import Response, Server, request, running
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.callbacks import sign_callback

SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
BODY = b'{"a":1}'
_NUMBERS = count()

_WERKZEUG = (
    "from werkzeug.serving import run_simple; from werkzeug.middleware.dispatcher import DispatcherMiddleware;"
    " from callback_apps import wsgi, wsgi_rest;"
    " run_simple('127.0.0.1', {port}, "
)
_WSGIREF = (
    "from wsgiref.simple_server import make_server; from callback_apps import wsgi;"
    " make_server('127.0.0.1', {port}, wsgi()).serve_forever()"
)
_UVICORN = ("-m", "uvicorn", "--factory", "callback_apps:asgi", "--port", "{port}", "--no-access-log")
_HYPERCORN = ("-m", "hypercorn", "callback_apps:asgi()", "-b", "127.0.0.1:{port}")
_GRANIAN = ("-m", "granian", "--factory", "--port", "{port}", "--no-log")
_GUNICORN = ("-m", "gunicorn", "callback_apps:wsgi()", "-b", "127.0.0.1:{port}")
_WAITRESS = ("-m", "waitress", "--listen=127.0.0.1:{port}", "--call", "callback_apps:wsgi")

SERVERS = {
    "uvicorn-h11": Server((*_UVICORN, "--http", "h11")),
    "uvicorn-httptools": Server((*_UVICORN, "--http", "httptools")),
    "hypercorn": Server(_HYPERCORN),
    "granian-asgi": Server((*_GRANIAN, "--interface", "asgi", "callback_apps:asgi")),
    "granian-wsgi": Server((*_GRANIAN, "--interface", "wsgi", "callback_apps:wsgi")),
    "gunicorn": Server(_GUNICORN),
    "waitress": Server(_WAITRESS),
    "werkzeug": Server(("-c", _WERKZEUG + "wsgi())")),
    "wsgiref": Server(("-c", _WSGIREF)),
}
# Each has `/app` in front of its paths in its own way. uvicorn adds its root path to what it receives.
BELOW_APP = {
    "uvicorn": Server((*_UVICORN, "--root-path", "/app")),
    "uvicorn-stripped": Server(_UVICORN, environment={"CALLBACK_PREFIX": "/app"}),
    "hypercorn": Server((*_HYPERCORN, "--root-path", "/app"), "/app"),
    "granian-asgi": Server(
        (*_GRANIAN, "--interface", "asgi", "--url-path-prefix", "/app", "callback_apps:asgi"), "/app"
    ),
    "granian-wsgi": Server(
        (*_GRANIAN, "--interface", "wsgi", "--url-path-prefix", "/app", "callback_apps:wsgi"), "/app"
    ),
    "gunicorn": Server(_GUNICORN, "/app", {"SCRIPT_NAME": "/app"}),
    "waitress": Server((*_WAITRESS[:2], "--url-prefix=/app", *_WAITRESS[2:]), "/app"),
    "waitress-stripped": Server(_WAITRESS, environment={"CALLBACK_PREFIX": "/app"}),
    "werkzeug": Server(("-c", _WERKZEUG + "DispatcherMiddleware(wsgi_rest, {{'/app': wsgi()}}))"), "/app"),
}


# What gives the decoded path only.
NO_RAW_TARGET = {"granian-wsgi", "wsgiref"}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], Path]]:
    folder = tmp_path_factory.mktemp("servers")
    key = folder / "live.pub"
    key.write_bytes(SERVICE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    kept = folder / "kept"
    servers = {**SERVERS, **{f"{name} below /app": server for name, server in BELOW_APP.items()}}
    environment = {"CALLBACK_KEY": str(key), "CALLBACK_KEPT": str(kept)}
    with running(servers, environment=environment, log=folder / "log") as found:
        yield found, kept


def call(port: int, target: str, url: str, *, chunked: bool = False) -> tuple[Response, str]:
    request_id = f"r-{next(_NUMBERS)}"
    headers = sign_callback(SERVICE, request_id=request_id, method="POST", url=url, body=BODY)
    return request(port, "POST", target, headers, BODY, chunked=chunked), request_id


def kept_url(kept: Path, request_id: str) -> str | None:
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    return dict(map(json.loads, lines)).get(request_id)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("server", SERVERS)
def test_the_url_as_registered_verifies(ports, server, path):
    response, request_id = call(ports[0][server], path, ORIGIN + path)
    assert (response.status, kept_url(ports[1], request_id)) == (200, ORIGIN + path)


@pytest.mark.parametrize("server", SERVERS)
def test_the_url_in_plain_utf_8_verifies(ports, server):
    response, request_id = call(ports[0][server], "/%C5%BEalias/", ORIGIN + "/žalias/")
    assert (response.status, kept_url(ports[1], request_id)) == (200, ORIGIN + "/žalias/")


@pytest.mark.parametrize("server", SERVERS)
def test_a_body_in_chunks_is_read_or_refused(ports, server):
    response, request_id = call(ports[0][server], "/cb/", ORIGIN + "/cb/", chunked=True)
    # Werkzeug's and wsgiref's development servers do not read chunks by themselves.
    expected = (400,) if server == "wsgiref" else (200,)
    assert response.status in expected
    assert (kept_url(ports[1], request_id) is not None) == (response.status == 200)


@pytest.mark.parametrize("server", SERVERS)
def test_another_url_of_ours_does_not_verify(ports, server):
    response, request_id = call(ports[0][server], "/cb/", ORIGIN + "/%C5%BEalias/")
    assert (response, kept_url(ports[1], request_id)) == (Response(400, b""), None)


@pytest.mark.parametrize("server", SERVERS)
def test_what_is_not_an_address_is_the_applications(ports, server):
    assert call(ports[0][server], "/other", ORIGIN + "/cb/")[0].status == 404


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("server", BELOW_APP)
def test_an_address_below_a_prefix_verifies(ports, server, path):
    url = f"{ORIGIN}/app{path}"
    response, request_id = call(ports[0][f"{server} below /app"], BELOW_APP[server].on_wire + path, url)
    assert (response.status, kept_url(ports[1], request_id)) == (200, url)


@pytest.mark.parametrize("server", SERVERS)
def test_the_url_in_the_very_spelling_on_the_wire_verifies_where_the_server_gives_it(ports, server):
    url = ORIGIN + RAW_ON_WIRE
    response, request_id = call(ports[0][server], RAW_ON_WIRE, url)
    expected = (400, None) if server in NO_RAW_TARGET else (200, url)
    assert (response.status, kept_url(ports[1], request_id)) == expected


@pytest.mark.parametrize("server", BELOW_APP)
def test_the_very_spelling_on_the_wire_verifies_below_a_prefix(ports, server):
    url = f"{ORIGIN}/app{RAW_ON_WIRE}"
    response, request_id = call(ports[0][f"{server} below /app"], BELOW_APP[server].on_wire + RAW_ON_WIRE, url)
    expected = (400, None) if server in NO_RAW_TARGET else (200, url)
    assert (response.status, kept_url(ports[1], request_id)) == expected
