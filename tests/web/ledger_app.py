"""A Flask application with more than the interface behind the middleware, for servers in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

from flask import Flask

from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import ProxyForm, QwacPolicy, SealGate, TrustedProxy, WsgiSealMiddleware

app = Flask(__name__)


@app.delete("/internal/ledger")
def wipe() -> str:
    return "wiped"


@app.delete("/psd2/v1/payments/<product>/<payment_id>")
def cancel(product: str, payment_id: str) -> str:
    return f"cancelled {product} {payment_id}"


paths = PathVerifier(load_anchors(Path(os.environ["TPPKIT_ANCHORS"])))
gate = SealGate(
    PSD2,
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)],
)
app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=gate)  # type: ignore[method-assign]
