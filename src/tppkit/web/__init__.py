"""Middleware for servers. For banks and providers, it authenticates the caller and verifies the seal of each request:

app = SealMiddleware(app, gate=SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths)))

For providers, it receives callbacks:

app = CallbackMiddleware(app, gate=CallbackGate(inbox, handler=handler))

For merchants, it receives webhooks of the payment gateway:

app = CallbackMiddleware(app, gate=WebhookGate(WebhookInbox(store, client.order), path=path))

`tppkit.web.fastapi` and `tppkit.web.flask` have a dependency and a decorator for handlers, `tppkit.web.prometheus` and
`tppkit.web.opentelemetry` metrics.
"""

from tppkit.message import Answer
from tppkit.web.caller import Caller, PeerCertificate, QwacPolicy, caller_of, peer_certificate, verified_request
from tppkit.web.gate import SealGate, authorize, seal_every_request
from tppkit.web.log import LimitedHandler
from tppkit.web.proxies import ProxyForm, TrustedProxy
from tppkit.web.receiving.callbacks import AsyncCallbackGate, CallbackGate
from tppkit.web.receiving.gate import CallbackMiddleware, RefusedCallback, WsgiCallbackMiddleware
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.receiving.routes import verify_callback_request
from tppkit.web.receiving.webhooks import (
    AsyncWebhookGate,
    AsyncWebhookInbox,
    WebhookGate,
    WebhookInbox,
    WebhookSettings,
    make_webhook_path,
)
from tppkit.web.replay import ReplayGuard
from tppkit.web.seal import SealMiddleware
from tppkit.web.seal_wsgi import WsgiSealMiddleware
from tppkit.web.sources import AsgiSource, Source, WsgiSource

__all__ = [
    "Answer", "AsgiSource", "AsyncCallbackGate", "AsyncWebhookGate", "AsyncWebhookInbox", "CallbackGate", "CallbackMiddleware",
    "CallbackPeers", "Caller", "LimitedHandler", "PeerCertificate", "ProxyForm", "QwacPolicy", "RefusedCallback", "ReplayGuard", "SealGate",
    "SealMiddleware", "Source", "TrustedProxy", "WebhookGate", "WebhookInbox", "WebhookSettings", "WsgiCallbackMiddleware",
    "WsgiSealMiddleware", "WsgiSource", "authorize", "caller_of", "make_webhook_path", "peer_certificate", "seal_every_request",
    "verified_request", "verify_callback_request",
]  # fmt: skip
