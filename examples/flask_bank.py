"""A bank's interface on Flask; see `bank`.

BANK_ANCHORS=pki waitress-serve --listen=127.0.0.1:8000 --max-request-body-size=65536 flask_bank:app

waitress reads a whole body before it asks anybody, up to 1 GiB if it is not told otherwise.
"""

from __future__ import annotations

from flask import Flask, Response, request

import bank
from tppkit.web import Answer, WsgiSealMiddleware

app = Flask(__name__)
app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=bank.gate)  # type: ignore[method-assign]  # as Flask says to do it


def response(answer: Answer) -> Response:
    """An answer in Flask's form."""
    return Response(answer.body, answer.status, answer.headers)


@app.post("/psd2/v1/payments/<product>")
def initiate(product: str) -> Response:
    """A payment."""
    return response(bank.initiate(request.environ, product))


@app.errorhandler(404)
def unknown(error: Exception) -> Response:
    """Every other request."""
    return response(bank.unknown(request.environ))
