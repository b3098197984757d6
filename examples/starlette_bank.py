"""A bank's interface on Starlette, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki uvicorn --no-proxy-headers --no-server-header starlette_bank:app
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

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
from tppkit.web.replay_stores.memory import MemoryReplayStore

numbers = count(1)


async def initiate(request: Request) -> JSONResponse:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.scope)
    creditor = json.loads(verified.body)["creditorName"]
    answer = {"paymentId": str(next(numbers)), "from": verified.organization_identifier, "to": creditor}
    return JSONResponse(answer, status_code=201)


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
)
