"""Servers of others: no header moves a request to another handler, and mounts that are configured work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wsgi
from asgi import sealed
from callback_servers import Server, request, running

from tppkit.seals import Message, Seal
from tppkit.testpki import Pki

_HYPERCORN = ("-m", "hypercorn", "-b", "127.0.0.1:{port}", "asgi_app:app")
_GRANIAN = ("-m", "granian", "--interface", "asgi", "--port", "{port}", "asgi_app:app")
_GUNICORN = ("-m", "gunicorn", "--no-control-socket", "-b", "127.0.0.1:{port}")
_WAITRESS = ("-m", "waitress", "--listen=127.0.0.1:{port}", "wsgi_app:app")
_MOUNT = {"TPPKIT_MOUNT": "/bank"}
MOUNTED = {
    "hypercorn": Server((*_HYPERCORN, "--root-path", "/bank"), environment=_MOUNT),
    "granian": Server((*_GRANIAN, "--url-path-prefix", "/bank"), environment=_MOUNT),
    "gunicorn": Server((*_GUNICORN, "wsgi_app:app"), environment={**_MOUNT, "SCRIPT_NAME": "/bank"}),
    "waitress": Server((*_WAITRESS[:-1], "--url-prefix=/bank", _WAITRESS[-1]), environment=_MOUNT),
}
LEDGER = {
    "gunicorn": Server((*_GUNICORN, "ledger_app:app")),
    "gunicorn, no headers": Server((*_GUNICORN, "--forwarder-headers", "", "ledger_app:app")),
    "waitress": Server(("-m", "waitress", "--listen=127.0.0.1:{port}", "ledger_app:app")),
}
PAYMENTS = "/psd2/v1/payments"
ID = ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, live_folder: Path) -> Iterator[dict[str, int]]:
    log = tmp_path_factory.mktemp("routing") / "log"
    mounted = {f"{name} at /bank": server for name, server in MOUNTED.items()}
    django = Server((*_GUNICORN, "django_app:application"))
    with running(
        {**LEDGER, **mounted, "django": django}, environment={"TPPKIT_ANCHORS": str(live_folder)}, log=log
    ) as started:
        yield started


@pytest.mark.parametrize("server", LEDGER)
def test_no_header_moves_a_request_to_another_handler(server: str, ports: dict[str, int], live_pki: Pki) -> None:
    def ask(target: str, *more: tuple[str, str]) -> tuple[int, bytes]:
        message = wsgi.forwarded(Message("DELETE", target, (ID, *more)), live_pki)
        answer = request(ports[server], "DELETE", target, message.headers)
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
def test_a_configured_mount_is_accepted(server: str, ports: dict[str, int], live_pki: Pki, live_seal: Seal) -> None:
    target = "/bank/psd2/v1/a%2Fb/%C5%BE?x=%2F"
    message = wsgi.forwarded(sealed(live_seal, target=target, request_id=None), live_pki)
    answer = request(ports[f"{server} at /bank"], "POST", target, message.headers, message.body)
    assert (answer.status, json.loads(answer.body)["target"]) == (201, target)


def test_the_forced_script_name_of_django_needs_no_mount(ports: dict[str, int], live_pki: Pki, live_seal: Seal) -> None:
    message = wsgi.forwarded(sealed(live_seal, target="/psd2/v1/payments", request_id=None), live_pki)
    answer = request(ports["django"], "POST", message.target, message.headers, message.body)
    assert (answer.status, answer.body) == (200, b"/bank/psd2/v1/payments")
