"""Raw targets as real servers hand them over: what the service signed verifies, whatever stands between wire and application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from callback_apps import ORIGIN, PATHS, RAW_ON_WIRE
from callback_servers import SERVICE, Response, Server, request, running, server, write_service_key
from serving import free_port, run_nginx

from tppkit.callbacks import sign_callback

pytestmark = pytest.mark.slow

BODY = b'{"a":1}'
_NUMBERS = count()

_ASGI, _WSGI = "callback_apps:asgi()", "callback_apps:wsgi()"
SERVERS = {
    **{
        name: server(name, _ASGI)
        for name in ("uvicorn h11", "uvicorn httptools", "hypercorn", "granian asgi", "gunicorn asgi")
    },
    **{name: server(name, _WSGI) for name in ("granian wsgi", "gunicorn", "waitress", "werkzeug", "wsgiref")},
}
# Each has `/app` in front of its paths in its own way. uvicorn adds its root path to what it receives.
_STRIPPED = {"CALLBACK_PREFIX": "/app"}
BELOW_APP = {
    "uvicorn": server("uvicorn", _ASGI, "--root-path", "/app"),
    "uvicorn, stripped": server("uvicorn", _ASGI, environment=_STRIPPED),
    "hypercorn": server("hypercorn", _ASGI, "--root-path", "/app", on_wire="/app"),
    "granian asgi": server("granian asgi", _ASGI, "--url-path-prefix", "/app", on_wire="/app"),
    "granian wsgi": server("granian wsgi", _WSGI, "--url-path-prefix", "/app", on_wire="/app"),
    "gunicorn asgi": server("gunicorn asgi", _ASGI, "--root-path", "/app", on_wire="/app"),
    "gunicorn": server("gunicorn", _WSGI, on_wire="/app", environment={"SCRIPT_NAME": "/app"}),
    "waitress": server("waitress", _WSGI, "--url-prefix=/app", on_wire="/app"),
    "waitress, stripped": server("waitress", _WSGI, environment=_STRIPPED),
    "werkzeug": server("werkzeug", "callback_apps:dispatched()", on_wire="/app"),
}
# The target on the wire, and the URL as it is registered; the last is in the very spelling on the wire.
TARGETS = [*((path, path) for path in PATHS), ("/%C5%BEalias/", "/žalias/"), (RAW_ON_WIRE, RAW_ON_WIRE)]


# What gives the decoded path only.
NO_RAW_TARGET = {"granian wsgi", "wsgiref"}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], Path]]:
    folder = tmp_path_factory.mktemp("servers")
    key, kept = write_service_key(folder), folder / "kept"
    servers = {**SERVERS, **{f"{name} below /app": below for name, below in BELOW_APP.items()}}
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


@pytest.mark.parametrize(("target", "path"), TARGETS)
@pytest.mark.parametrize(
    ("server", "prefix"), [*((name, "") for name in SERVERS), *((name, "/app") for name in BELOW_APP)]
)
def test_the_url_as_registered_verifies_also_below_a_prefix(ports, server, prefix, target, path):
    name, on_wire = (f"{server} below /app", BELOW_APP[server].on_wire) if prefix else (server, "")
    url = ORIGIN + prefix + path
    response, request_id = call(ports[0][name], on_wire + target, url)
    expected = (400, None) if server in NO_RAW_TARGET and path == RAW_ON_WIRE else (200, url)
    assert (response.status, kept_url(ports[1], request_id)) == expected


@pytest.mark.parametrize("server", SERVERS)
def test_a_body_in_chunks_is_read_or_refused(ports, server):
    response, request_id = call(ports[0][server], "/cb/", ORIGIN + "/cb/", chunked=True)
    # Werkzeug's and wsgiref's development servers do not read chunks by themselves.
    expected = (400,) if server == "wsgiref" else (200,)
    assert response.status in expected
    assert (kept_url(ports[1], request_id) is not None) == (response.status == 200)


@pytest.mark.parametrize("server", SERVERS)
def test_another_url_of_ours_does_not_verify_and_what_is_not_an_address_is_the_applications(ports, server):
    response, request_id = call(ports[0][server], "/cb/", ORIGIN + "/%C5%BEalias/")
    assert (response, kept_url(ports[1], request_id)) == (Response(400, b""), None)
    assert call(ports[0][server], "/other", ORIGIN + "/cb/")[0].status == 404


_UVICORN = ("-m", "uvicorn", "--factory", "callback_apps:guarded", "--port", "{port}", "--http", "httptools")
_BEHIND_PROXY = {"CALLBACK_PROXIES": "127.0.0.1", "CALLBACK_RAW": "1"}
_KEEPING = "--no-clear-untrusted-proxy-headers"
# uvicorn replaces the client's address by default when the connection comes from 127.0.0.1; waitress removes X-Forwarded-For.
GUARDED = {
    "replaced": Server(_UVICORN),
    "replaced, proxies": Server(_UVICORN, environment={"CALLBACK_PROXIES": "10.0.0.1"}),
    "replaced by the proxy's": Server(_UVICORN, environment={"CALLBACK_PROXIES": "198.51.100.1"}),
    "as it is": Server((*_UVICORN, "--no-proxy-headers")),
    "as it is, proxies": Server((*_UVICORN, "--no-proxy-headers"), environment=_BEHIND_PROXY),
    "removed": server("waitress", "callback_apps:guarded_wsgi()", environment=_BEHIND_PROXY),
    "kept": server("waitress", "callback_apps:guarded_wsgi()", _KEEPING, environment=_BEHIND_PROXY),
}
# nginx passes X-Forwarded-For on as it came unless configured otherwise.
PASSING = "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
ADDING = PASSING.replace("; }} }}", "; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}")


def test_an_address_from_a_header_counts_only_behind_a_trusted_proxy(tmp_path):
    assert _KEEPING in (Path(__file__).parents[2] / "docs/how-to/behind-a-proxy.md").read_text("utf-8")
    key, numbers = write_service_key(tmp_path), count()

    def status(port: int, forwarded: str) -> int:
        headers = sign_callback(
            SERVICE, request_id=f"r-{next(numbers)}", method="POST", url=f"{ORIGIN}/cb/", body=b"{}"
        )
        return request(port, "POST", "/cb/", (*headers, ("X-Forwarded-For", forwarded)), b"{}").status

    with running(GUARDED, environment={"CALLBACK_KEY": str(key)}, log=tmp_path / "log") as ports:
        fronts = {(name, form): free_port() for name in GUARDED for form in (PASSING, ADDING)}
        servers = "\n".join(form.format(port=port, upstream=ports[name]) for (name, form), port in fronts.items())
        with run_nginx(servers, port=next(iter(fronts.values())), folder=tmp_path):
            for name in GUARDED:
                for port in (ports[name], fronts[name, PASSING], fronts[name, ADDING]):
                    found = [status(port, forwarded) for forwarded in ("203.0.113.7:80", "203.0.113.7")]
                    assert found == ([200, 200] if name in ("as it is, proxies", "kept") else [403, 403]), name
                    assert status(port, "203.0.113.7, 198.51.100.1:80") == 403, name
