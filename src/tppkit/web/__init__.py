"""What a bank's or provider's server mounts in front of its handlers: who is calling, and did they seal this."""

from tppkit.web.authorize import Authorization, authorize, require_authorized
from tppkit.web.callback_gate import (
    AsyncCallbackGate,
    CallbackAnswer,
    CallbackGate,
    CallbackPeers,
    RefusedCallback,
    callback_target,
    log_refused_callback,
)
from tppkit.web.callbacks import CallbackMiddleware
from tppkit.web.callbacks_wsgi import WsgiCallbackMiddleware
from tppkit.web.message import raw_target, read_message
from tppkit.web.peer import PeerCertificate, QwacPolicy, peer_certificate

__all__ = [
    "AsyncCallbackGate", "Authorization", "CallbackAnswer", "CallbackGate", "CallbackMiddleware", "CallbackPeers",
    "PeerCertificate", "QwacPolicy", "RefusedCallback", "WsgiCallbackMiddleware", "authorize", "callback_target",
    "log_refused_callback", "peer_certificate", "raw_target", "read_message", "require_authorized",
]  # fmt: skip
