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


Gate = Callable[..., SealGate]


TARGET = "/bank/psd2/v1/payments/a%2Fb?x=%2F"


REROUTED_ENVIRONS = [
    {"SCRIPT_NAME": "/bank"}, {"SCRIPT_NAME": "/bank", "PATH_INFO": "/psd2/v1/payments/a/b"}, {"PATH_INFO": "/psd2/v1/payments/a/b"},
    {"PATH_INFO": "/bank/psd2/v1/payments/a%2Fb"}, {"QUERY_STRING": "x=/"}, {"QUERY_STRING": ""}, {"HTTP_SCRIPT_NAME": ""},
    {"HTTP_PATH_INFO": "/"},
]  # fmt: skip
REROUTED_SCOPES = [
    {"root_path": "/bank"}, {"path": "/psd2/v1/payments/a/b"}, {"path": "/bank/psd2/v1/payments/a%2Fb"},
    {"path": "/bank/psd2/v1/payments/\ufffd"},
]  # fmt: skip


def test_another_path_than_was_sent_is_refused(make_gate, pki, seal):
    message = sealed(seal, target=TARGET)
    environ, scope = wsgi.environ_of(wsgi.forwarded(message, pki)), asgi.scope_of(message, pki.qwac)
    app, other = wsgi.Recorder(), asgi.Recorder()
    gated, async_gated = WsgiSealMiddleware(app, gate=make_gate()), SealMiddleware(other, gate=make_gate())
    assert wsgi.call(gated, dict(environ))[0] == asgi.call(async_gated, scope, [message.body]).status == 201
    for change in REROUTED_ENVIRONS:
        status, _, body = wsgi.call(gated, environ | change)
        assert (status, b"message.rerouted" in body) == (400, True), change
    for change in REROUTED_SCOPES:
        answer = asgi.call(async_gated, scope | change, [message.body])
        assert (answer.status, "message.rerouted" in answer.text) == (400, True), change
    assert (len(app.environs), len(other.scopes)) == (1, 1)


def test_an_unknown_caller_does_not_learn_the_mount(make_gate):
    scope = asgi.scope_of(Message("GET", "/x"), None, root_path="/bank")
    assert asgi.call(SealMiddleware(asgi.Recorder(), gate=make_gate()), scope, [b""]).code == "CERTIFICATE_MISSING"


def test_an_application_under_a_dispatcher_of_werkzeug_has_its_mount(make_gate, pki, seal):
    app = wsgi.Recorder()
    environ = wsgi.environ_of(wsgi.forwarded(sealed(seal, target=TARGET), pki))
    for mount, status in (("/bank", 201), ("", 400), ("/psd2", 400)):
        gated = DispatcherMiddleware(wsgi.Recorder(), {"/bank": WsgiSealMiddleware(app, gate=make_gate(mount=mount))})
        assert wsgi.call(gated, dict(environ))[0] == status
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
        answer = asgi.call(outer, asgi.scope_of(message, pki.qwac, app=outer), [message.body])
        assert answer.status == status, answer.body
        assert status != 200 or json.loads(answer.body) == message.target


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
    answer = asgi.call(outer, asgi.scope_of(message, pki.qwac, app=outer), [message.body])
    assert (answer.status, dict(answer.headers).get("allow")) == (status, allow), answer.body


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
