"""What was judged is what is routed: mounts that are configured work, and others are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import asgi
import pytest
import wsgi
from asgi import sealed
from fastapi import FastAPI, Request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import Message
from tppkit.web import (
    AsgiSource,
    SealGate,
    SealMiddleware,
    WsgiSealMiddleware,
    verified_request,
)

PAYMENTS = "/psd2/v1/payments"
ID = ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55")


Gate = Callable[..., SealGate]


class Seen:
    """A WSGI application that notes what it was handed."""

    def __init__(self) -> None:
        self.environs: list[Any] = []

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        self.environs.append(environ)
        start_response("201 Created", [])
        return [b""]


TARGET = "/bank/psd2/v1/payments/a%2Fb?x=%2F"


@pytest.mark.parametrize(
    "change",
    [
        {"SCRIPT_NAME": "/bank"},
        {"SCRIPT_NAME": "/bank", "PATH_INFO": "/psd2/v1/payments/a/b"},
        {"PATH_INFO": "/psd2/v1/payments/a/b"},
        {"PATH_INFO": "/bank/psd2/v1/payments/a%2Fb"},
        {"QUERY_STRING": "x=/"},
        {"QUERY_STRING": ""},
        {"HTTP_SCRIPT_NAME": ""},
        {"HTTP_PATH_INFO": "/"},
    ],
)
def test_an_environ_that_says_another_path_than_was_sent_is_refused(change, make_gate, pki, seal):
    app = Seen()
    environ = wsgi.environ_of(wsgi.forwarded(sealed(seal, target=TARGET), pki))
    door = WsgiSealMiddleware(app, gate=make_gate())
    assert wsgi.call(door, environ)[0] == 201
    status, _, body = wsgi.call(door, environ | change)
    assert (status, b"message.rerouted" in body, len(app.environs)) == (400, True, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"root_path": "/bank"},
        {"path": "/psd2/v1/payments/a/b"},
        {"path": "/bank/psd2/v1/payments/a%2Fb"},
        {"path": "/bank/psd2/v1/payments/\ufffd"},
    ],
)
def test_a_scope_that_says_another_path_than_was_sent_is_refused(change, make_gate, pki, seal):
    message = sealed(seal, target=TARGET)
    scope = asgi.scope_of(message, pki.qwac)
    app = asgi.Recorder()
    door = SealMiddleware(app, gate=make_gate())
    assert asgi.call(door, scope, [message.body]).status == 201
    told = asgi.call(door, scope | change, [message.body])
    assert (told.status, "message.rerouted" in told.text, len(app.scopes)) == (400, True, 1)


def test_an_unknown_caller_does_not_learn_the_mount(make_gate):
    scope = asgi.scope_of(Message("GET", "/x"), None, root_path="/bank")
    assert asgi.call(SealMiddleware(asgi.Recorder(), gate=make_gate()), scope, [b""]).code == "CERTIFICATE_MISSING"


def test_an_application_under_a_dispatcher_of_werkzeug_has_its_mount(make_gate, pki, seal):
    app = Seen()
    environ = wsgi.environ_of(wsgi.forwarded(sealed(seal, target=TARGET), pki))
    for mount, status in (("/bank", 201), ("", 400), ("/psd2", 400)):
        door = DispatcherMiddleware(Seen(), {"/bank": WsgiSealMiddleware(app, gate=make_gate(mount=mount))})
        assert wsgi.call(door, dict(environ))[0] == status
    assert app.environs[0]["PATH_INFO"] == "/psd2/v1/payments/a/b"


def test_a_sub_application_of_fastapi_has_its_mount(make_gate, pki, seal):
    inner = FastAPI()

    @inner.post("/psd2/v1/payments/{product}")
    async def initiate(product: str, request: Request) -> str:
        return verified_request(request.scope).target

    message = sealed(seal, target="/bank/psd2/v1/payments/x")
    for mount, status in (("/bank", 200), ("", 400)):
        outer = FastAPI()
        outer.mount("/bank", SealMiddleware(inner, gate=make_gate(mount=mount)))
        told = asgi.call(outer, asgi.scope_of(message, pki.qwac, app=outer), [message.body])
        assert told.status == status, told.body
        assert status != 200 or json.loads(told.body) == message.target


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("POST", "/bank/psd2/v1/payments/sepa-credit-transfers", 200, None),
        ("PUT", "/bank/psd2/v1/payments/sepa-credit-transfers", 405, "POST"),
        ("POST", "/bank/psd2/v1/nothing", 404, None),
        ("POST", "/bank/bank/psd2/v1/payments/sepa-credit-transfers", 404, None),
        ("POST", "/b%61nk/psd2/v1/payments/sepa-credit-transfers", 400, None),
    ],
)
def test_the_table_of_the_interface_holds_below_the_mount(make_gate, pki, seal, method, path, status, allow):
    inner, outer = FastAPI(), FastAPI()

    @inner.post("/psd2/v1/payments/{product}")
    async def initiate(product: str, request: Request) -> str:
        return verified_request(request.scope).target

    outer.mount("/bank", SealMiddleware(inner, gate=make_gate(PSD2, mount="/bank")))
    message = sealed(seal, method=method, target=path)
    told = asgi.call(outer, asgi.scope_of(message, pki.qwac, app=outer), [message.body])
    assert (told.status, dict(told.headers).get("allow")) == (status, allow), told.body


def test_a_route_is_found_below_the_mount_with_parameters_and_query(make_gate):
    def found(path: str, **scope: Any) -> Any:
        message = Message("GET", f"{path}{PAYMENTS}/sepa-credit-transfers/7?from=%C5%BE")
        return make_gate(PSD2, mount="/bank").route(AsgiSource(asgi.scope_of(message, None, **scope)))

    route = found("/bank", root_path="/bank")
    assert (route.row.name, dict(route.parameters)["payment_id"], route.query) == ("payment_details", "7", {})
    for wrong in ("/bank2", "/bank/bank", "/other"):
        with pytest.raises((FormatError, LocalProtocolError)):
            found(wrong, root_path="/bank")


@pytest.mark.parametrize("mount", ["bank", "/bank/", "/", "/ž"])
def test_what_cannot_be_a_mount_is_refused(mount, make_gate):
    with pytest.raises(ConfigurationError) as caught:
        make_gate(mount=mount)
    assert caught.value.code == "web.setting"
