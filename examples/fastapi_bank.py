"""A bank's interface on FastAPI, behind nginx, which ends the TLS connection; every X-Request-ID counts once.

BANK_ANCHORS=pki uvicorn --no-proxy-headers --no-server-header fastapi_bank:app
"""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

from fastapi import FastAPI, Request

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

paths = PathVerifier(load_anchors(Path(os.environ["BANK_ANCHORS"])))
gate = SealGate(
    qwacs=QwacPolicy(paths),
    seals=SealPolicy(paths),
    requirement=psd2_requirement,
    trusted_proxies=[TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)],
    replay=ReplayGuard(MemoryReplayStore()),  # for one process; several share one of the other stores
)
app = FastAPI()
app.add_middleware(SealMiddleware, gate=gate)
numbers = count(1)


@app.post("/psd2/v1/payments/{product}", status_code=201)
async def initiate(product: str, request: Request) -> dict[str, str]:
    """A payment, from nothing but what was signed."""
    verified = verified_request(request.scope)
    creditor = json.loads(verified.body)["creditorName"]
    return {"paymentId": str(next(numbers)), "from": verified.organization_identifier, "to": creditor}
