"""What a bank's or provider's server mounts in front of its handlers: who is calling, and did they seal this.

app = SealMiddleware(app, gate=SealGate(qwacs=QwacPolicy(paths), seals=SealPolicy(paths)))

And what a provider's server mounts to receive callbacks:

app = CallbackMiddleware(app, gate=CallbackGate(inbox, handler=handler))
"""

from tppkit.web.admitted import (
    AdmittedRequest,
    Requirement,
    admitted_request,
    every_request_sealed,
    psd2_requirement,
    verified_request,
)
from tppkit.web.authorize import Authorization, authorize, require_authorized
from tppkit.web.callback_gate import AsyncCallbackGate, CallbackGate
from tppkit.web.callback_refusing import RefusedCallback, log_refused_callback
from tppkit.web.callback_requests import CallbackPeers, callback_target
from tppkit.web.callbacks import CallbackMiddleware
from tppkit.web.callbacks_wsgi import WsgiCallbackMiddleware
from tppkit.web.gate import SealGate
from tppkit.web.message import raw_target, read_message
from tppkit.web.outcomes import RequestOutcome, RequestResult
from tppkit.web.peer import PeerCertificate, QwacPolicy, peer_certificate
from tppkit.web.proxies import ProxyForm, TrustedProxy
from tppkit.web.refusing import Answer, Refused, brief_refusal, log_refusal
from tppkit.web.replay import ReplayGuard
from tppkit.web.seal import SealMiddleware
from tppkit.web.seal_wsgi import WsgiSealMiddleware
from tppkit.web.sources import AsgiSource, WsgiSource

__all__ = [
    "AdmittedRequest", "Answer", "AsgiSource", "AsyncCallbackGate", "Authorization", "CallbackGate",
    "CallbackMiddleware", "CallbackPeers", "PeerCertificate", "ProxyForm", "QwacPolicy", "Refused", "RefusedCallback",
    "ReplayGuard", "RequestOutcome", "RequestResult", "Requirement", "SealGate", "SealMiddleware", "TrustedProxy",
    "WsgiCallbackMiddleware", "WsgiSealMiddleware", "WsgiSource", "admitted_request", "authorize", "brief_refusal",
    "callback_target", "every_request_sealed", "log_refusal", "log_refused_callback", "peer_certificate",
    "psd2_requirement", "raw_target", "read_message", "require_authorized", "verified_request",
]  # fmt: skip
