"""Starlette on uvicorn behind the sandbox's own TLS, with one durable INSERT an order: the reference of the gateway's orders.

It keeps the body as it came, and checks neither key nor fields: python bare_gateway.py FOLDER PORT
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tppkit.sandbox.tls import ServerTls, TlsMode, make_http_protocol

INSERT = "INSERT INTO orders (id, body) VALUES (?, ?)"


def make_gateway(folder: Path) -> Starlette:
    """The ASGI application."""
    database = sqlite3.connect(folder / "bare-gateway.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, body BLOB)")

    async def create(request: Request) -> JSONResponse:
        order_id = str(uuid4())
        database.execute(INSERT, (order_id, await request.body()))  # commits
        return JSONResponse({"id": order_id, "status": "new"}, 201)

    return Starlette(routes=[Route("/v1/orders/", create, methods=["POST"])])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    certificate, key, anchors = (folder / name for name in ("server-chain.pem", "server.key", "root.pem"))
    tls = ServerTls(
        certificate.read_bytes(), key.read_bytes(), anchors.read_bytes(), mode=TlsMode.NO_CERTIFICATES
    )  # fmt: skip
    protocol: Any = make_http_protocol(tls)
    uvicorn.run(make_gateway(folder), port=int(sys.argv[2]), log_level="error", lifespan="off", http=protocol)
