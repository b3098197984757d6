"""A bank's interface on FastAPI; see `bank`.

BANK_ANCHORS=pki uvicorn --no-proxy-headers --no-server-header fastapi_bank:app
"""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

import bank
from tppkit.web import Answer, AsgiSource, SealMiddleware
from tppkit.web.fastapi import Sealed

app = FastAPI()
app.add_middleware(SealMiddleware, gate=bank.gate)


def response(answer: Answer) -> Response:
    """An answer in FastAPI's form."""
    return Response(answer.body, answer.status, dict(answer.headers))


@app.post("/psd2/v1/payments/{product}")
async def initiate(product: str, request: Request, verified: Sealed) -> Response:
    """A payment."""
    return response(bank.initiate(AsgiSource(request.scope), verified, product))


@app.exception_handler(404)
async def unknown(request: Request, error: Exception) -> Response:
    """Every other request."""
    return response(bank.unknown(AsgiSource(request.scope)))
