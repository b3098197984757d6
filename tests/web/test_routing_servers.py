"""Servers of others: no header moves a request to another handler, and mounts that are configured work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wsgi
from asgi import sealed
from callback_servers import request, running, server

from tppkit.seals import Message, Seal
from tppkit.testpki import Pki

_MOUNT = {"TPPKIT_MOUNT": "/bank"}
MOUNTED = {
    "hypercorn": server("hypercorn", "asgi_app:app", "--root-path", "/bank", environment=_MOUNT),
    "granian": server("granian", "asgi_app:app", "--url-path-prefix", "/bank", environment=_MOUNT),
    "gunicorn": server("gunicorn", "wsgi_app:app", environment={**_MOUNT, "SCRIPT_NAME": "/bank"}),
    "waitress": server("waitress", "wsgi_app:app", "--url-prefix=/bank", environment=_MOUNT),
}
LEDGER = {
    "gunicorn": server("gunicorn", "ledger_app:app"),
    "gunicorn, no headers": server("gunicorn", "ledger_app:app", "--forwarder-headers", ""),
    "waitress": server("waitress", "ledger_app:app"),
}
PAYMENTS = "/psd2/v1/payments"
ID = ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, bank_pki_folder: Path) -> Iterator[dict[str, int]]:
    log = tmp_path_factory.mktemp("routing") / "log"
    mounted = {f"{name} at /bank": below for name, below in MOUNTED.items()}
    django = server("gunicorn", "django_app:application")
    with running(
        {**LEDGER, **mounted, "django": django}, environment={"TPPKIT_ANCHORS": str(bank_pki_folder)}, log=log
    ) as started:
        yield started


@pytest.mark.parametrize("server", LEDGER)
def test_no_header_moves_a_request_to_another_handler(server: str, ports: dict[str, int], bank_pki: Pki) -> None:
    def ask(target: str, *more: tuple[str, str]) -> tuple[int, bytes]:
        message = wsgi.forwarded(Message("DELETE", target, (ID, *more)), bank_pki)
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
def test_a_configured_mount_is_accepted(server: str, ports: dict[str, int], bank_pki: Pki, live_seal: Seal) -> None:
    target = "/bank/psd2/v1/a%2Fb/%C5%BE?x=%2F"
    message = wsgi.forwarded(sealed(live_seal, target=target, request_id=None), bank_pki)
    answer = request(ports[f"{server} at /bank"], "POST", target, message.headers, message.body)
    assert (answer.status, json.loads(answer.body)["target"]) == (201, target)


def test_the_forced_script_name_of_django_needs_no_mount(ports: dict[str, int], bank_pki: Pki, live_seal: Seal) -> None:
    message = wsgi.forwarded(sealed(live_seal, target="/psd2/v1/payments", request_id=None), bank_pki)
    answer = request(ports["django"], "POST", message.target, message.headers, message.body)
    assert (answer.status, answer.body) == (200, b"/bank/psd2/v1/payments")
