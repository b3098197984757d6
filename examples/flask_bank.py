"""A bank's interface on Flask; see `bank`.

BANK_ANCHORS=pki waitress-serve --listen=127.0.0.1:8000 --max-request-body-size=65536 flask_bank:app

waitress reads the whole body before it calls the application, by default up to 1 GiB.
"""

from __future__ import annotations

from flask import Flask, Response, request

import bank
from tppkit.seals import VerifiedRequest
from tppkit.web import Answer, WsgiSealMiddleware, WsgiSource
from tppkit.web.flask import sealed

app = Flask(__name__)
app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=bank.gate)  # type: ignore[method-assign]  # as Flask says to do it


def response(answer: Answer) -> Response:
    """An answer in Flask's form."""
    return Response(answer.body, answer.status, answer.headers)


@app.post("/psd2/v1/payments/<product>")
@sealed
def initiate(product: str, verified: VerifiedRequest) -> Response:
    """A payment."""
    return response(bank.initiate(WsgiSource(request.environ), verified, product))


@app.errorhandler(404)
def unknown(error: Exception) -> Response:
    """Every other request."""
    return response(bank.unknown(WsgiSource(request.environ)))
