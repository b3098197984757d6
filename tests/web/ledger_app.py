"""A Flask application with more than the interface behind the middleware, for servers in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

from flask import Flask
from wsgi_app import make_gate

from tppkit.protocol.psd2 import PSD2
from tppkit.web import WsgiSealMiddleware

app = Flask(__name__)


@app.delete("/internal/ledger")
def wipe() -> str:
    return "wiped"


@app.delete("/psd2/v1/payments/<product>/<payment_id>")
def cancel(product: str, payment_id: str) -> str:
    return f"cancelled {product} {payment_id}"


gate = make_gate(Path(os.environ["TPPKIT_ANCHORS"]), interface=PSD2)
app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=gate)  # type: ignore[method-assign]
