"""A WSGI application behind the middleware, for servers that are programs of their own; TPPKIT_ANCHORS names the PKI's folder,
TPPKIT_MOUNT what is taken off paths."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tppkit.protocol.endpoint import Interface
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import SealPolicy
from tppkit.trust import PathVerifier, load_anchors
from tppkit.web import (
    ProxyForm,
    QwacPolicy,
    SealGate,
    TrustedProxy,
    WsgiSealMiddleware,
    seal_every_request,
    verified_request,
)


def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    verified = verified_request(environ)
    body = environ["wsgi.input"].read()
    assert body == verified.body
    start_response("201 Created", [("Content-Type", "application/json")])
    return [json.dumps({"target": verified.target, "bytes": len(body)}).encode()]


def make_gate(anchors: Path, *, interface: Interface = seal_every_request(PSD2), **settings: Any) -> SealGate:  # noqa: B008  # a constant value
    paths = PathVerifier(load_anchors(anchors))
    proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)
    mount = os.environ.get("TPPKIT_MOUNT", "")
    fixed = {"trusted_proxies": [proxy], "max_body_bytes": 1000, "mount": mount}
    return SealGate(interface, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), **fixed | settings)


if "TPPKIT_ANCHORS" in os.environ:
    app = WsgiSealMiddleware(answer, gate=make_gate(Path(os.environ["TPPKIT_ANCHORS"])))
