"""A bank's interface on Starlette, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki uvicorn --no-proxy-headers --no-server-header starlette_bank:app
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
    SealMiddleware,
    TrustedProxy,
    psd2_requirement,
    verified_request,
)
from tppkit.web.refusing import brief_refusal
from tppkit.web.replay_stores.memory import MemoryReplayStore

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


async def refuse(request: Request, error: Exception) -> Response:
    """What was signed and is no payment, in the interface's form."""
    assert isinstance(error, TppkitError)
    refusal = brief_refusal(error)
    return Response(refusal.body(), refusal.status, media_type="application/json")


async def initiate(request: Request) -> Response:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.scope)
    payment = PaymentInitiation.from_wire(verified.body)
    payment_id = str(next(numbers))
    print(payment_id, verified.organization_identifier, payment.instructed_amount.amount)
    return Response(initiated(request.path_params["product"], payment_id), 201, media_type="application/json")


paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    requirement=psd2_requirement,
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
    replay=ReplayGuard(MemoryReplayStore()),
)
app = Starlette(
    routes=[Route("/psd2/v1/payments/{product}", initiate, methods=["POST"])],
    middleware=[Middleware(SealMiddleware, gate=gate)],
    exception_handlers={TppkitError: refuse},
)
