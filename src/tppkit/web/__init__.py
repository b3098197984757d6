"""Middleware for servers. For banks and providers, it authenticates the caller and verifies the seal of each request:

app = SealMiddleware(app, gate=SealGate(PSD2, qwacs=QwacPolicy(paths), seals=SealPolicy(paths)))

For providers, it receives callbacks:

app = CallbackMiddleware(app, gate=CallbackGate(inbox, handler=handler))

For merchants, it receives webhooks of the payment gateway:

app = CallbackMiddleware(app, gate=WebhookGate(WebhookInbox(store, client.order), path=path))

`tppkit.web.fastapi` and `tppkit.web.flask` have a dependency and a decorator for handlers.
"""

from tppkit.web.callback_gate import AsyncCallbackGate, CallbackGate
from tppkit.web.callback_refusals import RefusedCallback, log_refused_callback
from tppkit.web.callback_requests import CallbackPeers, callback_target
from tppkit.web.callback_routes import verify_callback_request
from tppkit.web.callbacks import CallbackMiddleware
from tppkit.web.callbacks_wsgi import WsgiCallbackMiddleware
from tppkit.web.caller import (
    Authenticator,
    Caller,
    PeerCertificate,
    Pending,
    QwacPolicy,
    caller_of,
    peer_certificate,
    verified_request,
)
from tppkit.web.gate import SealGate, authorize, require_role, seal_every_request
from tppkit.web.proxies import ProxyForm, TrustedProxy
from tppkit.web.replay import ReplayGuard
from tppkit.web.seal import SealMiddleware
from tppkit.web.seal_wsgi import WsgiSealMiddleware
from tppkit.web.sources import Answer, AsgiSource, WsgiSource, read_message
from tppkit.web.webhook_inbox import AsyncWebhookInbox, WebhookInbox, WebhookSettings
from tppkit.web.webhooks import AsyncWebhookGate, WebhookGate, make_webhook_path

__all__ = [
    "Answer", "AsgiSource", "AsyncCallbackGate", "AsyncWebhookGate", "AsyncWebhookInbox", "Authenticator", "CallbackGate",
    "CallbackMiddleware", "CallbackPeers", "Caller", "PeerCertificate", "Pending", "ProxyForm", "QwacPolicy", "RefusedCallback",
    "ReplayGuard", "SealGate", "SealMiddleware", "TrustedProxy", "WebhookGate", "WebhookInbox", "WebhookSettings",
    "WsgiCallbackMiddleware", "WsgiSealMiddleware", "WsgiSource", "authorize", "callback_target", "caller_of", "log_refused_callback",
    "make_webhook_path", "peer_certificate", "read_message", "require_role", "seal_every_request", "verified_request",
    "verify_callback_request",
]  # fmt: skip
