"""CallbackPeers behind real servers: an address from a header counts only where a trusted proxy sent it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from callback_apps import ORIGIN
from callback_servers import SERVICE, Server, request, running, write_service_key
from serving import free_port, run_nginx

from tppkit.callbacks import sign_callback

_UVICORN = ("-m", "uvicorn", "--factory", "callback_apps:guarded", "--port", "{port}", "--http", "httptools")
# uvicorn replaces the client's address by default when the connection comes from 127.0.0.1.
SERVERS = {
    "replaced": Server(_UVICORN),
    "replaced, proxies": Server(_UVICORN, environment={"CALLBACK_PROXIES": "10.0.0.1"}),
    "replaced by the proxy's": Server(_UVICORN, environment={"CALLBACK_PROXIES": "198.51.100.1"}),
    "as it is": Server((*_UVICORN, "--no-proxy-headers")),
    "as it is, proxies": Server(
        (*_UVICORN, "--no-proxy-headers"), environment={"CALLBACK_PROXIES": "127.0.0.1", "CALLBACK_RAW": "1"}
    ),
}
# nginx passes X-Forwarded-For on as it came unless configured otherwise.
PASSING = "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}"
ADDING = PASSING.replace("; }} }}", "; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}")


def test_an_address_from_a_header_counts_only_behind_a_trusted_proxy(tmp_path: Path) -> None:
    key, numbers = write_service_key(tmp_path), count()

    def status(port: int, forwarded: str) -> int:
        headers = sign_callback(
            SERVICE, request_id=f"r-{next(numbers)}", method="POST", url=f"{ORIGIN}/cb/", body=b"{}"
        )
        return request(port, "POST", "/cb/", (*headers, ("X-Forwarded-For", forwarded)), b"{}").status

    with running(SERVERS, environment={"CALLBACK_KEY": str(key)}, log=tmp_path / "log") as ports:
        fronts = {(name, form): free_port() for name in SERVERS for form in (PASSING, ADDING)}
        servers = "\n".join(form.format(port=port, upstream=ports[name]) for (name, form), port in fronts.items())
        with run_nginx(servers, port=next(iter(fronts.values())), folder=tmp_path):
            for name in SERVERS:
                for port in (ports[name], fronts[name, PASSING], fronts[name, ADDING]):
                    found = [status(port, forwarded) for forwarded in ("203.0.113.7:80", "203.0.113.7")]
                    assert found == ([200, 200] if name == "as it is, proxies" else [403, 403]), name
                    assert status(port, "203.0.113.7, 198.51.100.1:80") == 403, name
