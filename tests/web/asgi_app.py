"""An ASGI application behind the middleware, for servers that are programs of their own; TPPKIT_ANCHORS names the PKI's folder,
TPPKIT_MOUNT what is taken off paths."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import ProxyForm, QwacPolicy, SealGate, SealMiddleware, TrustedProxy, verified_request


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
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


paths = PathVerifier(load_anchors(Path(os.environ["TPPKIT_ANCHORS"])))
proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)
app = SealMiddleware(
    answer,
    gate=SealGate(
        qwacs=QwacPolicy(paths),
        seals=SealPolicy(paths),
        trusted_proxies=[proxy],
        max_body_bytes=1000,
        mount=os.environ.get("TPPKIT_MOUNT", ""),
    ),
)
