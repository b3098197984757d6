"""The FastAPI dependency and the Flask decorator: a handler gets what was proven, or does not run."""

from __future__ import annotations

import asgi
import pytest
import wsgi
from asgi import EVERY_PATH, sealed
from fastapi import FastAPI
from flask import Flask

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import VerifiedRequest
from tppkit.web import SealMiddleware, WsgiSealMiddleware
from tppkit.web import flask as tppkit_flask
from tppkit.web.fastapi import Sealed

PAYMENT = "/psd2/v1/payments/sepa-credit-transfers/7"


def test_a_fastapi_handler_gets_the_verified_request_or_does_not_run(make_gate, pki, seal):
    app = FastAPI()

    @app.get("/psd2/v1/payments/{product}/{payment_id}")
    async def details(product: str, payment_id: str, verified: Sealed) -> str:
        return f"{verified.organization_identifier} {payment_id}"

    message = sealed(seal, method="GET", target=PAYMENT, body=b"")
    scope = asgi.scope_of(message, pki.qwac)
    answer = asgi.call(SealMiddleware(app, gate=make_gate(EVERY_PATH)), scope, [b""])
    assert (answer.status, answer.body) == (200, f'"{pki.provider.organization_identifier} 7"'.encode())
    for unsealed in (
        app,
        SealMiddleware(app, gate=make_gate(PSD2)),
    ):  # without a gate; an endpoint that requires no seal
        with refused(ConfigurationError, "web.unverified"):
            asgi.call(unsealed, scope, [b""])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_flask_view_gets_the_verified_request_or_does_not_run(is_async, make_gate, pki, seal):
    app = Flask(__name__)
    app.testing = True  # errors are raised

    def details(product: str, payment_id: str, verified: VerifiedRequest) -> str:
        return f"{verified.organization_identifier} {payment_id}"

    async def details_async(product: str, payment_id: str, verified: VerifiedRequest) -> str:
        return details(product, payment_id, verified)

    view = tppkit_flask.sealed(details_async if is_async else details)
    app.get("/psd2/v1/payments/<product>/<payment_id>")(view)
    message = wsgi.forwarded(sealed(seal, method="GET", target=PAYMENT, body=b""), pki)
    environ = {**wsgi.environ_of(message), "wsgi.url_scheme": "https", "SERVER_NAME": "bank", "SERVER_PORT": "443"}
    answer = wsgi.call(WsgiSealMiddleware(app.wsgi_app, gate=make_gate(EVERY_PATH)), dict(environ))
    assert (answer[0], answer[2]) == (200, f"{pki.provider.organization_identifier} 7".encode())
    for unsealed in (app.wsgi_app, WsgiSealMiddleware(app.wsgi_app, gate=make_gate(PSD2))):
        with refused(ConfigurationError, "web.unverified"):
            wsgi.call(unsealed, dict(environ))
