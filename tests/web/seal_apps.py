"""Applications behind the middleware for seals, for servers in processes of their own.

TPPKIT_ANCHORS names the PKI's folder, TPPKIT_MOUNT the prefix that is removed from paths. They trust a proxy on loopback; `direct`
gets the QWAC of the folder as from a server that terminates TLS itself, and answers the names of the headers that it sees.
`both_asgi` and `both_wsgi` have the middleware for callbacks in front (see `callback_apps`).
"""

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
    CallbackMiddleware,
    ProxyForm,
    QwacPolicy,
    ReplayGuard,
    SealGate,
    SealMiddleware,
    TrustedProxy,
    WsgiCallbackMiddleware,
    WsgiSealMiddleware,
    seal_every_request,
    verified_request,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore

ANCHORS = Path(os.environ["TPPKIT_ANCHORS"])


def make_gate(interface: Interface = seal_every_request(PSD2), **changed: Any) -> SealGate:  # noqa: B008  # a constant value
    paths = PathVerifier(load_anchors(ANCHORS))
    proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)
    fixed = {"trusted_proxies": [proxy], "max_body_bytes": 1000, "mount": os.environ.get("TPPKIT_MOUNT", "")}
    return SealGate(interface, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), **fixed | changed)


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


def answer_wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    verified = verified_request(environ)
    body = environ["wsgi.input"].read()
    assert body == verified.body
    start_response("201 Created", [("Content-Type", "application/json")])
    return [json.dumps({"target": verified.target, "bytes": len(body)}).encode()]


asgi = SealMiddleware(answer, gate=make_gate())
wsgi = WsgiSealMiddleware(answer_wsgi, gate=make_gate())
replaying = SealMiddleware(answer, gate=make_gate(trusted_proxies=(), replay=ReplayGuard(MemoryReplayStore())))


async def direct(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        tls = {"client_cert_chain": ((ANCHORS / "qwac.pem").read_text(),), "client_cert_error": None}
        scope = {**scope, "direct": True, "extensions": {"tls": tls}}
    await replaying(scope, receive, send)


# What only some servers need is imported for them alone, because many start at the same time.
def both_asgi() -> CallbackMiddleware:
    from callback_apps import gate

    return CallbackMiddleware(asgi, gate=gate())


def both_wsgi() -> WsgiCallbackMiddleware:
    from callback_apps import gate

    return WsgiCallbackMiddleware(wsgi, gate=gate())


def flask() -> Any:
    """Flask with more than the interface."""
    from flask import Flask

    app = Flask(__name__)
    app.delete("/internal/ledger", endpoint="wipe")(lambda: "wiped")
    cancel = app.delete("/psd2/v1/payments/<product>/<payment_id>", endpoint="cancel")
    cancel(lambda product, payment_id: f"cancelled {product} {payment_id}")
    app.wsgi_app = WsgiSealMiddleware(app.wsgi_app, gate=make_gate(PSD2))  # type: ignore[method-assign]
    return app


urlpatterns: list[Any] = []


def django() -> WsgiSealMiddleware:
    """Django that builds its links below /bank."""
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.urls import path

    def show(request: HttpRequest) -> HttpResponse:
        assert verified_request(request.environ).body == request.body
        return HttpResponse(request.path)

    urlpatterns.append(path("psd2/v1/payments", show))
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], FORCE_SCRIPT_NAME="/bank")
    return WsgiSealMiddleware(get_wsgi_application(), gate=make_gate())
