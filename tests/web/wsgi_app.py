"""A WSGI application behind the middleware, for servers that are programs of their own; TPPKIT_ANCHORS names the PKI's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import ProxyForm, QwacPolicy, SealGate, TrustedProxy, WsgiSealMiddleware, verified_request


def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    verified = verified_request(environ)
    body = environ["wsgi.input"].read()
    assert body == verified.body
    start_response("201 Created", [("Content-Type", "application/json")])
    return [json.dumps({"target": verified.target, "bytes": len(body)}).encode()]


def make_app(anchors: Path, *, max_body_bytes: int = 1000) -> WsgiSealMiddleware:
    paths = PathVerifier(load_anchors(anchors))
    proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)
    gate = SealGate(
        qwacs=QwacPolicy(paths), seals=SealPolicy(paths), trusted_proxies=[proxy], max_body_bytes=max_body_bytes
    )
    return WsgiSealMiddleware(answer, gate=gate)


if "TPPKIT_ANCHORS" in os.environ:
    app = make_app(Path(os.environ["TPPKIT_ANCHORS"]))
