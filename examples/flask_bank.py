"""A bank's interface on Flask, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki waitress-serve --listen=127.0.0.1:8000 flask_bank:app
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

from flask import Flask, request

from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import (
    ProxyForm,
    QwacPolicy,
    ReplayGuard,
    SealGate,
    TrustedProxy,
    WsgiSealMiddleware,
    psd2_requirement,
    verified_request,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore

paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    requirement=psd2_requirement,
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
    replay=ReplayGuard(MemoryReplayStore()),  # for one process; several share one of the other stores
)
app = Flask(__name__)
app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=gate)  # type: ignore[method-assign]
numbers = count(1)


@app.post("/psd2/v1/payments/<product>")
def initiate(product: str) -> tuple[dict[str, str], int]:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.environ)
    creditor = json.loads(verified.body)["creditorName"]
    return {"paymentId": str(next(numbers)), "from": verified.organization_identifier, "to": creditor}, 201
