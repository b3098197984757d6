"""A bank's interface on Starlette; see `bank`.

BANK_ANCHORS=pki uvicorn --no-proxy-headers --no-server-header starlette_bank:app
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import bank
from tppkit.web import Answer, AsgiSource, SealMiddleware, verified_request


def response(answer: Answer) -> Response:
    """An answer in Starlette's form."""
    return Response(answer.body, answer.status, dict(answer.headers))


async def initiate(request: Request) -> Response:
    """A payment."""
    verified = verified_request(request.scope)
    return response(bank.initiate(AsgiSource(request.scope), verified, request.path_params["product"]))


async def unknown(request: Request, error: Exception) -> Response:
    """Every other request."""
    return response(bank.unknown(AsgiSource(request.scope)))


app = Starlette(
    routes=[Route("/psd2/v1/payments/{product}", initiate, methods=["POST"])],
    middleware=[Middleware(SealMiddleware, gate=bank.gate)],
    exception_handlers={404: unknown},
)
