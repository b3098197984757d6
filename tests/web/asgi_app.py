"""An ASGI application behind the middleware, for servers that are programs of their own.

TPPKIT_ANCHORS names the PKI's folder, TPPKIT_MOUNT the prefix that is removed from paths. `app` trusts a proxy on loopback; `direct`
gets the QWAC of the folder as from a server that terminates TLS itself, and answers the names of the headers that it sees.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from wsgi_app import make_gate

from tppkit.web import (
    ReplayGuard,
    SealMiddleware,
    verified_request,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore


async def answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    verified = verified_request(scope)
    event = await receive()
    assert event["body"] == verified.body
    body = json.dumps({"target": verified.target, "bytes": len(verified.body)}).encode()
    if "direct" in scope:
        body = json.dumps([name.decode() for name, _ in scope["headers"]]).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


anchors = Path(os.environ["TPPKIT_ANCHORS"])
app = SealMiddleware(answer, gate=make_gate(anchors))
replaying = SealMiddleware(answer, gate=make_gate(anchors, trusted_proxies=(), replay=ReplayGuard(MemoryReplayStore())))


async def direct(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        chain = ((anchors / "qwac.pem").read_text(),)
        scope = {
            **scope,
            "direct": True,
            "extensions": {"tls": {"client_cert_chain": chain, "client_cert_error": None}},
        }
    await replaying(scope, receive, send)
