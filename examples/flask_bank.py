"""A bank's interface on Flask, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki waitress-serve --listen=127.0.0.1:8000 --max-request-body-size=65536 flask_bank:app

waitress reads a whole body before it asks anybody, up to 1 GiB if it is not told otherwise.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from flask import Flask, Response, request

from tppkit.errors import TppkitError
from tppkit.protocol.psd2.models import Href, PaymentInitiated, PaymentInitiation, PaymentLinks
from tppkit.protocol.psd2.payment import TransactionStatus
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
from tppkit.web.refusing import brief_refusal
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


def initiated(product: str, payment_id: str) -> bytes:
    """The answer to an initiation."""
    path = f"/psd2/v1/payments/{product}/{payment_id}"
    links = PaymentLinks(
        sca_redirect=Href(href=f"https://bank.example/approve/{payment_id}"),
        status=Href(href=f"{path}/status"),
        self_=Href(href=path),
    )
    answer = PaymentInitiated(transaction_status=TransactionStatus.RCVD, payment_id=payment_id, links=links)
    return answer.to_wire()


@app.errorhandler(TppkitError)
def refuse(error: TppkitError) -> Response:
    """What was signed and is no payment, in the interface's form."""
    refusal = brief_refusal(error)
    return Response(refusal.body(), refusal.status, mimetype="application/json")


@app.post("/psd2/v1/payments/<product>")
def initiate(product: str) -> Response:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.environ)
    payment = PaymentInitiation.from_wire(verified.body)
    payment_id = str(next(numbers))
    print(payment_id, verified.organization_identifier, payment.instructed_amount.amount)
    return Response(initiated(product, payment_id), 201, mimetype="application/json")
